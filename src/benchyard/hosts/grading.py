"""Disks, processes and answers of devboxes that are graded: `Host.rooms`."""

import asyncio
import contextlib
import logging
import os
import posixpath
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchyard.devboxes.base import (
    MOST_OPENED,
    Capability,
    DevboxProcesses,
    Driver,
    Kill,
    NewFolder,
    OpenFile,
    Rootfs,
    Trees,
)
from benchyard.devboxes.layers import report_lines
from benchyard.devboxes.layers.changes import OUTSIDE
from benchyard.errors import (
    Conflict,
    DevboxError,
    NotFound,
    NotSupported,
    ScorerFailed,
    StillWaiting,
    UsageError,
)
from benchyard.hosts import state
from benchyard.hosts.cancellation import wait_at_most
from benchyard.hosts.devbox import DiskBlocks, HostDevbox
from benchyard.hosts.state import DevboxEntry
from benchyard.images.store import Image, ImageStore

_MOST_PATHS = 256
_MOST_CHARACTERS = 32 * 1024


@dataclass(frozen=True)
class CarriedAnswer:
    """The result of carrying an answer."""

    entries: int
    """Files, folders and links."""
    bytes: int
    refused: list[str]
    """The paths left out, each with its reason."""
    paths: tuple[str, ...] = ()
    """Paths carried with their whole content."""
    home: str | None = None
    """Home of which only the visible content was carried, unless it is at one of the paths."""

    def has(self, path: str) -> bool:
        """Tell whether the path shows the work, not the state at the start."""
        named = [each for each in self.paths if f"{path}/".startswith(f"{each}/")]
        if self.home is None or not path.startswith(f"{self.home}/"):
            return bool(named)
        is_visible = not path.removeprefix(f"{self.home}/").startswith(".")
        return is_visible or any(each.startswith(f"{self.home}/") for each in named)


def check_answer_paths(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the outermost of these absolute paths, in order; raise UsageError for an invalid one."""
    if len(paths) > _MOST_PATHS or sum(map(len, paths)) > _MOST_CHARACTERS:
        raise UsageError(
            f"an answer has at most {_MOST_PATHS} paths, of {_MOST_CHARACTERS} characters in all"
        )
    for path in paths:
        if not path.startswith("/") or ".." in path.split("/") or not path.strip("/") or "\0" in path:
            raise UsageError(f"{path[:200]!r} is not a path of an answer: give an absolute one, without '..'")
    outermost: list[str] = []
    for path in sorted({posixpath.normpath(path) for path in paths}):
        if not outermost or not path.startswith(f"{outermost[-1]}/"):
            outermost.append(path)
    return tuple(outermost)


async def make_answer_image(
    store: ImageStore, stacks: tuple[Image, Image], paths: tuple[str, ...], image_id: str
) -> CarriedAnswer:
    """Make an image of the second one that has the content of the first one at these paths."""
    source, onto = (store.rootfs(stack) for stack in stacks)
    return await _with_layer(store, stacks, partial(store.trees.carry, source, onto, paths), image_id)


async def make_work_image(
    store: ImageStore,
    stacks: tuple[Image, Image],
    paths: tuple[str, ...],
    home: str | None,
    image_id: str,
) -> CarriedAnswer:
    """Make an image of the second one that has the work of the first one in these paths and the home."""
    source, onto = (store.rootfs(stack) for stack in stacks)
    carry = partial(store.trees.carry_work, source, onto, paths, home)
    return await _with_layer(store, stacks, carry, image_id)


async def _with_layer(
    store: ImageStore,
    stacks: tuple[Image, Image],
    carry: Callable[[Path], Awaitable[Path]],
    image_id: str,
) -> CarriedAnswer:
    source, onto = stacks
    async with store.scratch() as scratch:
        layer = scratch / "answer"
        report = await carry(layer)
        told, refused = await asyncio.to_thread(_read_carried, report)
        if told["exceeded"]:
            raise ScorerFailed(f"{told['exceeded']}: name fewer paths, or let the agent leave less there")
        await store.add_layer(onto, layer, image_id, move=True, kind=source.kind)
    return CarriedAnswer(told["entries"], told["bytes"], refused, tuple(told["paths"]), told["home"])


def _read_carried(report: Path) -> tuple[dict[str, Any], list[str]]:
    with report.open() as lines:
        return report_lines.read(lines)


_MARK = "mark"
_MOST_ASIDE = 16
_MAX_PATH = 4096


class DiskChange(NamedTuple):
    """A changed path."""

    path: str
    """Absolute; bytes that are not UTF-8 are shown as `\\xff`."""
    kind: str
    """`added`, `modified` or `deleted`."""
    type: str
    """`file`, `folder`, `link`, `device` or `other`: the type now, or before it was deleted."""
    mode: int
    """The permission bits."""
    size: int
    is_lost: bool = False
    """True if programs could use it at the start and cannot any more: deleted, closed, or replaced."""


@dataclass(frozen=True)
class DiskChanges:
    """Every changed path, or the first of them."""

    changes: tuple[DiskChange, ...]
    total: int
    truncated: bool
    """Some changes are not listed."""
    exact: bool
    """False if the mark lacks entries because there were too many: these are judged by their time alone."""
    outside: "DiskChanges | None" = None
    """The changes without those in folders that were only counted, if all together are truncated."""
    used: DiskBlocks | None = field(default=None, compare=False)
    """Space that all content of the disk takes; None if some of it was left out."""


async def mark_disk(devbox: HostDevbox, trees: Trees, name: str = _MARK) -> bool:
    """Mark the state of the disk; return False if it holds too much for a complete mark."""
    async with devbox.still_disk() as changes:
        return await trees.note(changes, devbox.spec.folder / name)


async def changes_since_named_mark(devbox: HostDevbox, trees: Trees, below: Rootfs, name: str) -> DiskChanges:
    """Return the differences since the mark of that name, which is removed."""
    file = devbox.spec.folder / name
    try:
        async with devbox.still_disk() as disk:
            return await _compare(devbox, trees, (disk, below), file)
    finally:
        file.unlink(missing_ok=True)


async def changes_since_mark(
    devbox: HostDevbox, trees: Trees, below: Rootfs, aside: Sequence[str]
) -> DiskChanges:
    """Return the differences since the mark; raise Conflict if there is none."""
    if len(aside) > _MOST_ASIDE or any(len(path) > _MAX_PATH for path in aside):
        raise UsageError(f"at most {_MOST_ASIDE} folders can be left out of a list of changes")
    require_mark(devbox)
    async with devbox.still_disk() as disk:
        return await compare_with_mark(devbox, trees, (disk, below), aside)


def require_mark(devbox: HostDevbox, disk: Path | None = None) -> None:
    """Raise Conflict if there is no mark, or no disk to compare with it."""
    if not (devbox.spec.folder / _MARK).exists() or not (disk or devbox.spec.changes).exists():
        raise Conflict(
            f"devbox {devbox.spec.id} has no mark to be compared with; mark it when it has started"
        )


async def compare_with_mark(
    devbox: HostDevbox,
    trees: Trees,
    disk: tuple[Path, Rootfs],
    aside: Sequence[str] = (),
    counted: Sequence[str] = (),
) -> DiskChanges:
    """Return the differences since the mark on a still disk, given its changes and the layers below."""
    return await _compare(devbox, trees, disk, devbox.spec.folder / _MARK, aside, counted)


async def _compare(
    devbox: HostDevbox,
    trees: Trees,
    disk: tuple[Path, Rootfs],
    mark: Path,
    aside: Sequence[str] = (),
    counted: Sequence[str] = (),
) -> DiskChanges:
    changes, below = disk
    report = devbox.spec.folder / f"{_MARK}.{secrets.token_hex(8)}"
    outside = report.with_name(f"{report.name}{OUTSIDE}")
    try:
        noted = (changes, mark)
        await trees.compare(noted, below, report, tuple(aside), tuple(counted))
        return await asyncio.to_thread(_read_changes, report, outside)
    finally:
        report.unlink(missing_ok=True)
        outside.unlink(missing_ok=True)


def _read_changes(report: Path, outside: Path | None = None) -> DiskChanges:
    with report.open() as lines:
        found, changes = report_lines.read(lines)
    return DiskChanges(
        tuple(DiskChange(*change) for change in changes),
        found["total"],
        found["truncated"],
        found["exact"],
        _read_changes(outside) if outside and outside.exists() else None,
        DiskBlocks(*found["used"]) if "used" in found else None,
    )


_PATIENCE_SECONDS = 15.0
_LOOK_AGAIN_SECONDS = 0.5

_log = logging.getLogger(__name__)


@dataclass
class OpenedFiles:
    """Watched files that were opened; filled when the watch has ended."""

    paths: list[str] | None = None
    """The opened files, in order; None if they are not known."""
    unwatched: Sequence[str] = ()
    """Files that exist and could not be watched."""


class DevboxGrading:
    """Disks, processes and answers of devboxes."""

    def __init__(
        self,
        driver: Driver,
        images: ImageStore,
        *,
        devbox: Callable[[str], HostDevbox],
        lock: Callable[[str], asyncio.Lock],
        image: Callable[[DevboxEntry], Awaitable[Image]],
    ) -> None:
        """Take the driver, the images, and functions for finding a devbox, its lock and its image."""
        self._driver = driver
        self._images = images
        self._devbox = devbox
        self._lock = lock
        self._image = image
        self._trees = driver.trees

    def shown_folders(self) -> set[Path]:
        """Return the folders of this machine that devboxes show, running or at rest."""
        found = set()
        for devbox_id in self._images.holders():
            with contextlib.suppress(NotFound):
                found |= {mount.source for mount in self._devbox(devbox_id).entry.request.mounts}
        return found

    async def mark(self, devbox_id: str) -> bool:
        """Mark the state of the devbox's disk, for `changed`; False if it holds too much to be exact."""
        async with self._lock(devbox_id):
            return await mark_disk(self._devbox(devbox_id), self._trees)

    async def changes_since_mark(self, devbox_id: str, aside: Sequence[str] = ()) -> DiskChanges:
        """Return the differences on the disk since the mark, but for content of the folders `aside`."""
        async with self._lock(devbox_id):
            devbox = self._devbox(devbox_id)
            below = self._images.rootfs(await self._image(devbox.entry))
            return await changes_since_mark(devbox, self._trees, below, aside)

    @contextlib.asynccontextmanager
    async def watch_disk(self, devbox_id: str) -> AsyncIterator[Callable[[], Awaitable[DiskChanges]]]:
        """Mark the state of the disk; yield a function that returns the changes since then."""
        devbox, name = self._devbox(devbox_id), f"mark-{secrets.token_hex(8)}"

        async def look() -> DiskChanges:
            async with self._lock(devbox_id):
                below = self._images.rootfs(await self._image(devbox.entry))
                return await changes_since_named_mark(devbox, self._trees, below, name)

        async with self._lock(devbox_id):
            await mark_disk(devbox, self._trees, name)
        try:
            yield look
        finally:
            (devbox.spec.folder / name).unlink(missing_ok=True)

    async def freeze(self, devbox_id: str, image_id: str, kind: str) -> DiskChanges:
        """Keep the disk as an image, and return its differences since the mark: both of one moment.

        Otherwise a file could exist for one of them, and be gone for the other.
        """
        images = self._images
        async with self._lock(devbox_id):
            devbox = self._devbox(devbox_id)
            require_mark(devbox)
            started_from = await self._image(devbox.entry)
            # Before it is frozen: merging the layers below may take longer than copying the changes.
            async with images.shallow(started_from) as parent, devbox.still_disk() as disk:
                found = await compare_with_mark(devbox, self._trees, (disk, images.rootfs(started_from)))
                await images.add_layer(parent, disk, image_id, move=False, kind=kind)
            return found

    def can_take(self) -> bool:
        """Tell whether the disk of a stopped devbox can become a layer without being copied."""
        return self._driver.storage.is_in_folder

    def has_sound_disk(self, devbox_id: str) -> bool:
        """Tell whether the disk of a stopped devbox is complete: no power was lost since its last writes."""
        return state.is_disk_sound(self._devbox(devbox_id).spec.folder)

    async def take(self, devbox_id: str, image_id: str, kind: str) -> None:
        """Make the disk of a stopped devbox an image by moving it; the devbox cannot be started again.

        Called again, even after a kill, it moves the rest.
        """
        images = self._images
        async with self._lock(devbox_id):
            devbox = self._devbox(devbox_id)
            if devbox.is_running:
                raise Conflict(f"devbox {devbox_id} still runs; its disk can be taken when it is stopped")
            if await self._taken_disk(devbox, image_id) is None and not devbox.spec.changes.exists():
                raise Conflict(f"devbox {devbox_id} has no disk any more that could be taken")
            async with images.shallow(await self._image(devbox.entry)) as parent:
                await images.take_layer(parent, devbox.spec.changes, image_id, kind)

    async def _taken_disk(self, devbox: HostDevbox, image_id: str) -> Path | None:
        """Return the location of a devbox's disk that became an image; None if it is not there."""
        try:
            image = await self._images.get(image_id)
        except NotFound:
            return None
        return self._images.top(image) if self._images.has_top(image) else None

    async def changes_of_taken_disk(
        self,
        devbox_id: str,
        image_id: str,
        *,
        aside: Sequence[str] = (),
        counted: Sequence[str] = (),
    ) -> DiskChanges:
        """Return the differences since the mark on a disk taken by `take`, but for the folders `aside`.

        If there are more differences than can be listed, those in new folders of the `counted` ones are only
        counted, and changes outside of all `counted` folders are listed separately.
        """
        async with self._lock(devbox_id):
            devbox = self._devbox(devbox_id)
            disk = await self._taken_disk(devbox, image_id)
            if disk is None:
                raise Conflict(f"the disk of devbox {devbox_id} was not taken as image {image_id}")
            require_mark(devbox, disk)
            below = self._images.rootfs(await self._image(devbox.entry))
            found = await compare_with_mark(devbox, self._trees, (disk, below), aside, counted)
            if found.used is not None:
                # No process can change it any more: it need not be measured by another walk.
                least = found.used.at_least(devbox.measured)
                image = await self._images.get(image_id)
                self._images.note_size(image, least, is_exact=found.used.is_exact)
            return found

    async def processes(self, devbox_id: str) -> DevboxProcesses:
        """Return a running devbox's processes, but ours: `MOST_PROCESSES` at most, and the number of all."""
        self._devbox(devbox_id).require_running()
        return await self._driver.inside.processes(devbox_id)

    async def kill_commands(self, devbox_id: str, spare: Sequence[str] = ()) -> list[str]:
        """Kill every execution that has not ended, with all its descendants; return their ids.

        Executions whose ids begin with one of `spare` go on, and so do processes left by ended executions.
        """
        devbox = self._devbox(devbox_id)
        active = [name for name in devbox.executions.active if not name.startswith(tuple(spare))]
        # Queued ones first: they would begin when the running one ends.
        for name in sorted(active, key=lambda each: devbox.find(each).is_started):
            await devbox.control(name, Kill(tree=True))
        for name in active:
            await self._end_of(devbox, name)
        return active

    async def _end_of(self, devbox: HostDevbox, name: str) -> None:
        execution = devbox.find(name)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while not execution.done.is_set():
                    devbox.look(name)
                    await wait_at_most(_LOOK_AGAIN_SECONDS, execution.done.wait())
        if not execution.done.is_set():
            raise StillWaiting(f"execution {name} of devbox {devbox.spec.id} was killed, but has not ended")

    async def kill_all(self, devbox_id: str) -> None:
        """Kill every process of a running devbox but our own."""
        self._devbox(devbox_id).require_running()
        await self._driver.inside.kill_all(devbox_id)

    async def set_tracing(self, devbox_id: str, *, allowed: bool) -> bool:
        """Forbid processes of a running devbox to trace each other, or allow it again.

        Returns False if the driver cannot; raises DevboxError if it can, but not with this devbox.
        """
        devbox = self._devbox(devbox_id)
        devbox.require_running()
        means = {Capability.REFUSE_TRACING, Capability.OUT_OF_REACH}
        if not means & self._driver.capabilities:
            return False
        await self._driver.inside.set_tracing(devbox_id, allowed=allowed)
        return True

    @contextlib.asynccontextmanager
    async def watch_opens(self, devbox_id: str, paths: Sequence[str]) -> AsyncIterator[OpenedFiles]:
        """Watch files of a running devbox, by absolute paths; the opened ones are known after the block.

        Only files that exist when it begins can be watched: folders and missing paths never report, and links
        report when their target is opened. If there is not room for all, the first ones are watched.
        """
        self._devbox(devbox_id).require_running()
        opened = OpenedFiles()
        watch = await self._driver.inside.watch(devbox_id, paths)
        opened.unwatched = watch.unwatched if watch else paths
        try:
            yield opened
        finally:
            opened.paths = watch.close() if watch else None

    async def make_folder(self, devbox_id: str, folder: str, owner: str) -> None:
        """Make an empty folder in a running devbox, replacing any entry there or in its way."""
        self._devbox(devbox_id).require_running()
        marker = f"{folder}/.benchyard-{secrets.token_hex(8)}"
        request = OpenFile(marker, "root", write=True, fresh=True, emptied_for=owner)
        os.close(await self._driver.open_file(devbox_id, request))

    async def make_folders(self, devbox_id: str, folders: Sequence[NewFolder]) -> bool:
        """Make folders of a running devbox without a program of it; return False if not possible."""
        self._devbox(devbox_id).require_running()
        try:
            return await self._driver.inside.make_folders(devbox_id, folders)
        except (DevboxError, StillWaiting) as error:
            _log.info("folders of devbox %s are made by its shell instead: %s", devbox_id, error)
            return False

    async def open_in_folders(
        self, devbox_id: str, folders: Sequence[NewFolder], requests: Sequence[OpenFile]
    ) -> list[int] | None:
        """Make folders of a running devbox and open files to write, see `Inside.open_in_folders`."""
        self._devbox(devbox_id).require_running()
        if not requests or len(requests) > MOST_OPENED:
            return None
        return await self._driver.inside.open_in_folders(devbox_id, folders, requests)

    async def files(
        self, devbox_id: str, folder: str, user: str, newer_than: str | None, most: int
    ) -> list[str] | None:
        """List plain files below a folder of a running devbox, see `Inside.files`; None if not known."""
        self._devbox(devbox_id).require_running()
        try:
            return await self._driver.inside.files(devbox_id, folder, user, newer_than, most)
        except (DevboxError, StillWaiting) as error:
            _log.info("files of devbox %s are listed by its shell instead: %s", devbox_id, error)
            return None

    async def answer_image(
        self, source_image_id: str, paths: Sequence[str], pristine_image_id: str, new_image_id: str
    ) -> CarriedAnswer:
        """Make an image of the pristine one with these absolute paths, and no others, as the source has them.

        A path missing in the source is gone in the new image. Raises ScorerFailed over a limit.
        """
        stacks = await self._stacks(source_image_id, pristine_image_id)
        return await make_answer_image(self._images, stacks, check_answer_paths(paths), new_image_id)

    async def work_image(
        self,
        source_image_id: str,
        paths: Sequence[str],
        home: str | None,
        pristine_image_id: str,
        new_image_id: str,
    ) -> CarriedAnswer:
        """Make an image of the pristine one with the work of the source: these paths, and the visible home.

        Links of the pristine one on the way to a path are followed. Raises ScorerFailed over a limit.
        """
        stacks = await self._stacks(source_image_id, pristine_image_id)
        named = check_answer_paths(paths)
        return await make_work_image(self._images, stacks, named, home, new_image_id)

    async def _stacks(self, source_image_id: str, pristine_image_id: str) -> tuple[Image, Image]:
        if not {Capability.IMAGES, Capability.SNAPSHOTS} <= self._driver.capabilities:
            raise NotSupported("this driver cannot carry an answer over; use the native driver")
        images = self._images
        return await images.get(source_image_id), await images.get(pristine_image_id)
