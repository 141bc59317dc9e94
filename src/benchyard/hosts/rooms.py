"""What whoever grades a devbox has to know of it, and to do to it: `Host.rooms`."""

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchyard.devboxes.base import Capability, Driver, Kill, OpenFile
from benchyard.devboxes.inside import Folder, Processes
from benchyard.errors import Conflict, DevboxError, NotFound, NotSupported, StillWaiting
from benchyard.hosts import answers, changes, resting
from benchyard.hosts.answers import Carried
from benchyard.hosts.changes import Changes
from benchyard.hosts.devbox import Devbox
from benchyard.hosts.journal import Entry, Journal
from benchyard.images.store import Image, ImageStore

_PATIENCE_SECONDS = 15.0
_LOOK_AGAIN_SECONDS = 0.5

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HostTies:
    """What rooms need of their host."""

    driver: Driver
    images: ImageStore
    devbox: Callable[[str], Devbox]
    lock: Callable[[str], asyncio.Lock]
    image: Callable[[Entry], Awaitable[Image]]
    """What a devbox was started from."""
    journal: Journal


@dataclass
class Opened:
    """Which watched files were opened; told when the watch has ended."""

    paths: list[str] | None = None
    """In order; None if it is not known."""
    unwatched: Sequence[str] = ()
    """What is there and could not be watched."""


class Rooms:
    """Disks, processes and answers of devboxes."""

    def __init__(self, ties: HostTies) -> None:
        self._ties = ties
        self._trees = ties.driver.trees

    def shown_folders(self) -> set[Path]:
        """The folders of this machine that devboxes show, running or at rest."""
        found = set()
        for devbox_id in self._ties.images.holders():
            with contextlib.suppress(NotFound):
                found |= {each.source for each in self._ties.devbox(devbox_id).entry.request.mounts}
        return found

    def give(self, devbox_id: str, env: Mapping[str, str]) -> None:
        """Set variables for every command from now on, as if the devbox had been started with them."""
        devbox = self._ties.devbox(devbox_id)
        request = replace(devbox.entry.request, env={**devbox.entry.request.env, **env})
        if request != devbox.entry.request:
            devbox.entry = replace(devbox.entry, request=request)
            self._ties.journal.write(devbox.entry)

    async def mark(self, devbox_id: str) -> bool:
        """Remember the devbox's disk as it is, for `changed`; False if it holds too much to be exact."""
        async with self._ties.lock(devbox_id):
            return await changes.mark(self._ties.devbox(devbox_id), self._trees)

    async def changed(self, devbox_id: str, aside: Sequence[str] = ()) -> Changes:
        """What is different on the disk since the mark, not counting what lies in the folders `aside`."""
        async with self._ties.lock(devbox_id):
            devbox = self._ties.devbox(devbox_id)
            below = self._ties.images.rootfs(await self._ties.image(devbox.entry))
            return await changes.changed(devbox, self._trees, below, aside)

    @contextlib.asynccontextmanager
    async def watch_disk(self, devbox_id: str) -> AsyncIterator[Callable[[], Awaitable[Changes]]]:
        """Remember the disk as it is; the function that is given tells what was changed on it since then."""
        devbox, name = self._ties.devbox(devbox_id), f"mark-{secrets.token_hex(8)}"

        async def look() -> Changes:
            async with self._ties.lock(devbox_id):
                below = self._ties.images.rootfs(await self._ties.image(devbox.entry))
                return await changes.changed_since(devbox, self._trees, below, name)

        async with self._ties.lock(devbox_id):
            await changes.mark(devbox, self._trees, name)
        try:
            yield look
        finally:
            (devbox.spec.folder / name).unlink(missing_ok=True)

    async def freeze(self, devbox_id: str, image_id: str, kind: str) -> Changes:
        """Keep the disk as an image, and tell what is different on it since the mark: both of one moment.

        Else something could be there while the one is done, and gone while the other is.
        """
        images = self._ties.images
        async with self._ties.lock(devbox_id):
            devbox = self._ties.devbox(devbox_id)
            changes.require_mark(devbox)
            started_from = await self._ties.image(devbox.entry)
            # Before it is frozen: merging what lies below may take longer than copying its changes.
            async with images.shallow(started_from) as parent, devbox.still_disk() as disk:
                found = await changes.compared(devbox, self._trees, (disk, images.rootfs(started_from)))
                await images.add_layer(parent, disk, image_id, move=False, kind=kind)
            return found

    def can_take(self) -> bool:
        """Whether the disk of a stopped devbox can become a layer without being copied."""
        return self._ties.driver.storage.is_in_folder

    def has_sound_disk(self, devbox_id: str) -> bool:
        """Whether all that was written to the disk of a stopped devbox is there: no power was lost since."""
        return resting.is_sound(self._ties.devbox(devbox_id).spec.folder)

    async def take(self, devbox_id: str, image_id: str, kind: str) -> None:
        """Make the disk of a stopped devbox an image by moving it; the devbox cannot be started again.

        Called once more, after a kill too, this moves what has not been moved.
        """
        images = self._ties.images
        async with self._ties.lock(devbox_id):
            devbox = self._ties.devbox(devbox_id)
            if devbox.is_running:
                raise Conflict(f"devbox {devbox_id} still runs; its disk can be taken when it is stopped")
            if await self._taken(devbox, image_id) is None and not devbox.spec.changes.exists():
                raise Conflict(f"devbox {devbox_id} has no disk any more that could be taken")
            async with images.shallow(await self._ties.image(devbox.entry)) as parent:
                await images.take_layer(parent, devbox.spec.changes, image_id, kind)

    async def _taken(self, devbox: Devbox, image_id: str) -> Path | None:
        """Where the disk of a devbox lies that was made an image; None where it is not there."""
        try:
            image = await self._ties.images.get(image_id)
        except NotFound:
            return None
        return self._ties.images.top(image) if self._ties.images.has_top(image) else None

    async def taken(
        self,
        devbox_id: str,
        image_id: str,
        *,
        aside: Sequence[str] = (),
        counted: Sequence[str] = (),
    ) -> Changes:
        """What is different since the mark on a disk that `take` made an image, but for the folders `aside`.

        Where there are more differences than can be listed, those in new folders of the `counted` ones are
        counted only.
        """
        async with self._ties.lock(devbox_id):
            devbox = self._ties.devbox(devbox_id)
            disk = await self._taken(devbox, image_id)
            if disk is None:
                raise Conflict(f"the disk of devbox {devbox_id} was not taken as image {image_id}")
            changes.require_mark(devbox, disk)
            below = self._ties.images.rootfs(await self._ties.image(devbox.entry))
            return await changes.compared(devbox, self._trees, (disk, below), aside, counted)

    async def processes(self, devbox_id: str) -> Processes:
        """What runs in a running devbox, without our own: `MOST_PROCESSES` at most, and the number of all."""
        self._ties.devbox(devbox_id).require_running()
        return await self._ties.driver.inside.processes(devbox_id)

    async def kill_commands(self, devbox_id: str, spare: Sequence[str] = ()) -> list[str]:
        """Kill every execution that has not ended, with all it started; returns their ids.

        Those whose ids begin with one of `spare` go on, and so does what others left that have ended.
        """
        devbox = self._ties.devbox(devbox_id)
        active = [name for name in devbox.executions.active if not name.startswith(tuple(spare))]
        # Those that wait in a shell first: they would begin when the one before them ends.
        for name in sorted(active, key=lambda each: devbox.find(each).is_started):
            await devbox.control(name, Kill(tree=True))
        for name in active:
            await self._end_of(devbox, name)
        return active

    async def _end_of(self, devbox: Devbox, name: str) -> None:
        execution = devbox.find(name)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while not execution.done.is_set():
                    devbox.look(name)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_AGAIN_SECONDS):
                            await execution.done.wait()
        if not execution.done.is_set():
            raise StillWaiting(f"execution {name} of devbox {devbox.spec.id} was killed, but has not ended")

    async def kill_all(self, devbox_id: str) -> None:
        """Kill every process of a running devbox but our own."""
        self._ties.devbox(devbox_id).require_running()
        await self._ties.driver.inside.kill_all(devbox_id)

    async def set_tracing(self, devbox_id: str, *, allowed: bool) -> bool:
        """Refuse that processes of a running devbox trace each other, or allow it again.

        False where the driver cannot; raises DevboxError where it can, but not with this devbox.
        """
        devbox = self._ties.devbox(devbox_id)
        devbox.require_running()
        means = {Capability.REFUSE_TRACING, Capability.OUT_OF_REACH}
        if not means & self._ties.driver.capabilities:
            return False
        await self._ties.driver.inside.set_tracing(devbox_id, allowed=allowed)
        return True

    @contextlib.asynccontextmanager
    async def watch_opens(self, devbox_id: str, paths: Sequence[str]) -> AsyncIterator[Opened]:
        """Watch files of a running devbox, by absolute paths; what was opened is told after the block.

        Only files that are there when it begins can be: folders and what is missing are never told, and links
        when what they lead to is opened. Where there is no room for all, those that come first are watched.
        """
        self._ties.devbox(devbox_id).require_running()
        opened = Opened()
        watch = await self._ties.driver.inside.watch(devbox_id, paths)
        opened.unwatched = watch.unwatched if watch else paths
        try:
            yield opened
        finally:
            opened.paths = watch.close() if watch else None

    async def make_folder(self, devbox_id: str, folder: str, owner: str) -> None:
        """Make a folder of a running devbox anew, empty, in the place of whatever is there or in its way."""
        self._ties.devbox(devbox_id).require_running()
        marker = f"{folder}/.benchyard-{secrets.token_hex(8)}"
        request = OpenFile(marker, "root", write=True, fresh=True, emptied_for=owner)
        os.close(await self._ties.driver.open_file(devbox_id, request))

    async def make_folders(self, devbox_id: str, folders: Sequence[Folder]) -> bool:
        """Make folders of a running devbox without a program of it; False where they could not be."""
        self._ties.devbox(devbox_id).require_running()
        try:
            return await self._ties.driver.inside.make_folders(devbox_id, folders)
        except (DevboxError, StillWaiting) as error:
            _log.info("folders of devbox %s are left to its shell: %s", devbox_id, error)
            return False

    async def files(
        self, devbox_id: str, folder: str, user: str, newer_than: str | None, most: int
    ) -> list[str] | None:
        """The plain files below a folder of a running devbox, see `Inside.files`; None where not known."""
        self._ties.devbox(devbox_id).require_running()
        try:
            return await self._ties.driver.inside.files(devbox_id, folder, user, newer_than, most)
        except (DevboxError, StillWaiting) as error:
            _log.info("files of devbox %s are left to its shell: %s", devbox_id, error)
            return None

    async def answer_image(
        self, source_image_id: str, paths: Sequence[str], pristine_image_id: str, new_image_id: str
    ) -> Carried:
        """Make an image of the pristine one with these absolute paths, and no others, as the source has them.

        A path that the source does not have is gone in the new image. Raises ScorerFailed over a limit.
        """
        stacks = await self._stacks(source_image_id, pristine_image_id)
        return await answers.make_image(self._ties.images, stacks, answers.checked(paths), new_image_id)

    async def work_image(
        self,
        source_image_id: str,
        paths: Sequence[str],
        home: str | None,
        pristine_image_id: str,
        new_image_id: str,
    ) -> Carried:
        """Make an image of the pristine one with the work of the source: these paths, and the visible home.

        Links of the pristine one on the way to a path are followed. Raises ScorerFailed over a limit.
        """
        stacks = await self._stacks(source_image_id, pristine_image_id)
        named = answers.checked(paths)
        return await answers.make_work_image(self._ties.images, stacks, named, home, new_image_id)

    async def _stacks(self, source_image_id: str, pristine_image_id: str) -> tuple[Image, Image]:
        if not {Capability.IMAGES, Capability.SNAPSHOTS} <= self._ties.driver.capabilities:
            raise NotSupported("this driver cannot carry an answer over; use the native driver")
        images = self._ties.images
        return await images.get(source_image_id), await images.get(pristine_image_id)
