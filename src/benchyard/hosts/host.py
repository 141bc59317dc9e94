"""The host: one machine that holds devboxes. The server touches a devbox only through this class."""

import asyncio
import contextlib
import logging
import os
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self
from weakref import WeakValueDictionary

from benchyard.devboxes.base import (
    MOST_OPENED,
    Capability,
    Control,
    DevboxEnded,
    DevboxLimits,
    DevboxSpec,
    DevboxUsage,
    Driver,
    DriverReport,
    Event,
    ExecutionEnded,
    OpenFile,
    Rootfs,
)
from benchyard.errors import BenchyardError, Conflict, ImageError, NotFound
from benchyard.hosts import output, state
from benchyard.hosts.cancellation import PendingWork, wait_at_most
from benchyard.hosts.devbox import DiskBlocks, HostDevbox
from benchyard.hosts.grading import DevboxGrading
from benchyard.hosts.output import OutputBudget
from benchyard.hosts.requests import ExecRequest, ExecutionState, HostActivity, StartRequest
from benchyard.hosts.state import DevboxEntry, HostState
from benchyard.hosts.users import ensure_user, has_user
from benchyard.images.store import HOST_IMAGE, Image, ImageStore
from benchyard.store.vault import Vault


class DefaultImages:
    """Finds images by name; the default one is brought into the store when it is first needed."""

    def __init__(self, driver: Driver, images: ImageStore) -> None:
        self._driver = driver
        self._images = images
        self._fetching = asyncio.Lock()

    async def find(self, name: str) -> Image:
        """Return the image of that name or id; raise NotFound, or ImageError if there is no default one."""
        if name != HOST_IMAGE or Capability.HOST_VIEW in self._driver.capabilities:
            return await self._images.get(name)
        async with self._fetching:
            default = await self._driver.storage.default_image()
            try:
                return await self._images.get(default)
            except NotFound:
                return await self._fetch(default)

    async def _fetch(self, name: str) -> Image:
        async with self._images.scratch() as scratch:
            archive = scratch / "image.tar"
            try:
                await self._driver.storage.export(name, archive)
            except NotFound as error:
                message = f"the default image {name!r} is neither in the store nor known to the engine"
                raise ImageError(f"{message}: import it, or pull it with the engine's own command") from error
            return await self._images.import_archive(archive, name)


class HostDoors:
    """Sockets that listen inside devboxes."""

    def __init__(self, driver: Driver, devbox: Callable[[str], HostDevbox]) -> None:
        self._driver = driver
        self._devbox = devbox

    async def open(self, devbox_id: str, port: int = 0) -> tuple[int, int]:
        """Return a descriptor of a socket listening on the loopback of a running devbox, and its port.

        The caller closes it; the devbox keeps its own until it ends, and returns the same one for the same
        port. A devbox that was stopped and resumed has none. Port 0 takes a free port.
        """
        self._devbox(devbox_id).require_running()
        return await self._driver.inside.listen(devbox_id, port)


_logger = logging.getLogger(__name__)

_MOST = 100_000


class HostEvents:
    """A queue of bounded size, even if it is never read."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Event] = asyncio.Queue(_MOST)

    def tell(self, event: Event) -> None:
        """Add an event."""
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            # Events are hints: a reader that is this far behind looks at the state anyway.
            _logger.warning("an event was dropped because its reader is too far behind: %s", event)

    async def next(self) -> Event:
        """Wait for the next event."""
        return await self._queue.get()


_PAUSE_SECONDS = 2.0
_SHARE = 20
"""Pause after measuring a tree, as a multiple of the time it took: large trees are measured seldom."""


async def watch_disks(
    running: Callable[[], list[DevboxSpec]],
    driver: Driver,
    note: Callable[[str, int, int], None] = lambda _id, _bytes, _entries: None,
) -> AsyncIterator[tuple[str, str]]:
    """Yield, for ever, devboxes over a limit of their disk, with the exceeded limit.

    `note` is called with the id, bytes and entries of every disk that was measured.
    """
    due: dict[str, float] = {}
    while True:
        specs = running()
        due = {spec.id: due.get(spec.id, 0.0) for spec in specs}
        for spec in specs:
            began = time.monotonic()
            if due[spec.id] > began or not spec.changes.exists():
                continue
            try:
                async with driver.storage.changes(spec) as changes:
                    used, entries = await driver.trees.usage(changes)
            except (OSError, BenchyardError) as error:
                _logger.warning("the disk of %s could not be measured: %s", spec.id, error)
                continue
            note(spec.id, used, entries)
            ended = time.monotonic()
            due[spec.id] = ended + (ended - began) * _SHARE
            excess = _excess(used, entries, spec.limits)
            if excess:
                yield spec.id, excess
        await asyncio.sleep(_PAUSE_SECONDS)


def _excess(used: int, entries: int, limits: DevboxLimits) -> str | None:
    if used > limits.disk_bytes:
        return f"the disk holds {used} bytes, more than the devbox's size allows; create a larger one"
    if entries > limits.disk_entries:
        return f"the disk holds {entries} new files; {limits.disk_entries} are allowed: remove some sooner"
    return None


__all__ = ["ExecRequest", "ExecutionState", "Host", "StartRequest"]


_REMEMBERED = 256
"""Number of ended devboxes kept in memory; the others are read from their folders again."""
_LOOK_AGAIN_SECONDS = 1.0


def kept_file(path: str, reader: str, *, program: bool = False) -> OpenFile:
    """Return how to open a new file of root's that only the group of `reader` may read beside root."""
    # The group of root may have members that the work has added.
    mode = 0o600 if reader == "root" else 0o640
    mode |= 0o110 if program else 0
    return OpenFile(path, write=True, mode=mode, fresh=True, group_of=reader)


class Host:
    """Driver, image store and execution files of one machine. Use as an async context manager.

    The vault seals data on disk that may be secret: variables, and states of named shells.

    The driver must be entered and the image store open before; the host leaves both as they are.
    """

    def __init__(
        self,
        folder: Path,
        driver: Driver,
        images: ImageStore,
        vault: Vault,
        outputs: OutputBudget | None = None,
    ) -> None:
        self.pretends = driver.pretends
        self._driver = driver
        self._images = images
        self._journal = HostState(folder / "devboxes", vault)
        self._devboxes: dict[str, HostDevbox] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[None]] = set()
        self._unfinished = PendingWork()
        self._events = HostEvents()
        self._executions_started = 0
        self._outputs = outputs or OutputBudget()
        self._vault = vault
        self._defaults = DefaultImages(driver, images)
        self.doors = HostDoors(driver, self._devbox)
        self.rooms = DevboxGrading(driver, images, devbox=self._devbox, lock=self._lock, image=self._image)
        self._users_in_images: set[tuple[str, str, int | None]] = set()

    async def __aenter__(self) -> Self:
        self._journal.open()
        self._outputs.measure_disk(self._journal.root)
        noted = [self._journal.read(devbox_id) for devbox_id in self.with_disk()]
        await asyncio.gather(*(self._take_up(entry) for entry in noted if entry and entry.should_run))
        self._spawn(self._listen())
        if Capability.LIMIT_DISK in self._driver.capabilities:
            self._spawn(self._watch_disks())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._unfinished.ended()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for devbox in self._devboxes.values():
            devbox.release()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("background work of the host failed", exc_info=error)

    async def _take_up(self, entry: DevboxEntry) -> None:
        try:
            image = await self._image(entry)
            devbox = self._make(entry, self._images.rootfs(image), image)
        except (NotFound, ImageError) as error:
            _logger.warning("devbox %s has lost its image: %s", entry.request.id, error.message)
            devbox = self._make(entry, Rootfs(()))
        devbox.is_running = await self._driver.find(devbox.spec)
        if devbox.is_running:
            # Written again: an earlier version stored its variables in plain text.
            self._journal.write(entry)
            await devbox.take_up()
        else:
            # No event: the opener of this host compares `running` with its records, and may start it anew.
            await self._settle(devbox, "the devbox was gone when the host came back")

    async def _image(self, entry: DevboxEntry) -> Image:
        """Return the image a devbox was started from, even if its name stands for another by now."""
        return await self._images.held(entry.request.id) or await self._images.get(entry.image_id)

    def _make(self, entry: DevboxEntry, rootfs: Rootfs, image: Image | None = None) -> HostDevbox:
        request = entry.request
        folder = self._journal.folder(request.id)
        spec = DevboxSpec(request.id, folder, rootfs, request.network, request.limits)
        spec = replace(
            spec,
            network_of=request.network_of,
            mounts=request.mounts,
            tracing=request.tracing,
            tracing_switch=request.tracing_switch,
        )
        devbox = self._devboxes[request.id] = HostDevbox(
            entry,
            spec,
            image_env=image.env if image else {},
            driver=self._driver,
            vault=self._vault,
            outputs=self._outputs,
            spawn=self._spawn,
            on_start=self._execution_started,
            on_end=lambda devbox_id, id: self._events.tell(ExecutionEnded(devbox_id, id)),
        )
        self._ended.pop(request.id, None)
        return devbox

    def _devbox(self, devbox_id: str) -> HostDevbox:
        devbox = self._devboxes.get(devbox_id)
        if devbox is None:
            entry = self._journal.read(devbox_id)
            if entry is None:
                raise NotFound(f"this host has no devbox {devbox_id}")
            devbox = self._make(entry, Rootfs(()))
            self._remember(devbox_id)
        return devbox

    def _remember(self, devbox_id: str) -> None:
        """Keep an ended devbox in memory until a number of others have ended after it."""
        self._ended[devbox_id] = None
        self._ended.move_to_end(devbox_id)
        while len(self._ended) > _REMEMBERED:
            self._devboxes.pop(self._ended.popitem(last=False)[0], None)

    def _lock(self, devbox_id: str) -> asyncio.Lock:
        return self._locks.setdefault(devbox_id, asyncio.Lock())

    def set_variables(self, devbox_id: str, env: Mapping[str, str]) -> None:
        """Set variables for every command from now on, as if the devbox had been started with them."""
        devbox = self._devbox(devbox_id)
        request = replace(devbox.entry.request, env={**devbox.entry.request.env, **env})
        if request != devbox.entry.request:
            devbox.entry = replace(devbox.entry, request=request)
            self._journal.write(devbox.entry)

    async def image(self, name: str) -> Image:
        """Return the image of that name or id; by default the driver's if it has no view of the host."""
        return await self._defaults.find(name)

    async def start(self, request: StartRequest) -> None:
        """Find or start a devbox; idempotent by id. Also resumes one that was stopped with its disk kept."""
        async with self._lock(request.id):
            known = self._devboxes.get(request.id)
            if known is not None and known.is_running:
                return
            noted = self._journal.read(request.id) if self._journal.has_changes(request.id) else None
            image = await (self._image(noted) if noted else self.image(request.image))
            rootfs = self._images.rootfs(image)
            self._images.hold(image, request.id)
            entry = DevboxEntry(request, image.id, should_run=True)
            self._journal.write(entry)
            devbox = self._make(entry, rootfs, image)
            try:
                await self._driver.start(devbox.spec)
                await self._see_to_user(devbox, image, is_new=noted is None)
            except BaseException:
                await asyncio.shield(self._settle(devbox, "the devbox did not start"))
                raise
            devbox.is_running = True

    async def _see_to_user(self, devbox: HostDevbox, image: Image, *, is_new: bool) -> None:
        name, uid = devbox.entry.request.user, devbox.entry.request.uid
        is_known = (image.id, name, uid) in self._users_in_images
        if name == "root" or name.isdigit() or is_known or Capability.USERS not in self._driver.capabilities:
            return
        is_there = is_new and await asyncio.to_thread(has_user, devbox.spec.rootfs, name, uid)
        if is_there or await ensure_user(self._driver, devbox.spec, name, uid):
            self._users_in_images.add((image.id, name, uid))

    async def _settle(self, devbox: HostDevbox, reason: str) -> None:
        """Stop a devbox and note that it has ended."""
        await self._driver.stop(devbox.spec.id)
        devbox.entry = replace(devbox.entry, should_run=False)
        try:
            self._journal.write(devbox.entry)
        except OSError as error:
            # The next host looks for it once more, and does not find it.
            _logger.warning("the end of devbox %s is not recorded: %s", devbox.spec.id, error)
        await devbox.end(reason)
        self._remember(devbox.spec.id)

    async def stop(self, devbox_id: str, *, keep_disk: bool, is_synced: bool = True) -> None:
        """End every process; without `keep_disk` the disk goes too (execution files stay). Idempotent.

        A kept disk survives a loss of power too, unless `is_synced` is false.
        """
        await self._unfinished.whole(self._stop(devbox_id, keep_disk=keep_disk, is_synced=is_synced))

    async def _stop(self, devbox_id: str, *, keep_disk: bool, is_synced: bool) -> None:
        async with self._lock(devbox_id):
            devbox = None
            # A start that a killed host did not note may have left a folder and a hold.
            with contextlib.suppress(NotFound):
                devbox = self._devbox(devbox_id)
            if devbox is not None:
                if keep_disk and not is_synced and devbox.is_running:
                    # Before it ends: a server that finds it ended finds this note too, unless the power went.
                    state.note_unsynced_disk(devbox.spec.folder)
                await self._settle(devbox, "the devbox was stopped")
            if not keep_disk:
                await self._remove_disk(devbox_id)
            elif devbox is not None and is_synced:
                state.note_synced_disk(devbox.spec.folder)
                # A disk reported as resting must be there even after a loss of power.
                await self._driver.trees.sync(devbox.spec.folder)

    async def _remove_disk(self, devbox_id: str) -> None:
        await self._driver.storage.discard(devbox_id)
        for path in self._journal.disk(devbox_id):
            await self._driver.trees.remove(path)
        self._journal.clear_unnoted(devbox_id)
        await self._images.release(devbox_id)

    async def forget(self, devbox_id: str) -> None:
        """Remove all remains of a stopped devbox, its execution files too."""
        async with self._lock(devbox_id):
            if devbox_id in self.running():
                raise Conflict(f"devbox {devbox_id} still runs; stop it first")
            await self._remove_disk(devbox_id)
            await asyncio.to_thread(self._journal.forget, devbox_id)
            self._devboxes.pop(devbox_id, None)
            self._ended.pop(devbox_id, None)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Return the capabilities of this machine's devboxes."""
        return self._driver.capabilities

    def report(self) -> tuple[frozenset[Capability], DriverReport]:
        """Return the capabilities of this machine's devboxes, and the remedies for missing ones."""
        return self._driver.capabilities, self._driver.report()

    def with_disk(self) -> set[str]:
        """Return the ids of devboxes, running or stopped, with a disk here: they hold the layers below it."""
        return self._images.holders()

    def folders(self, prefix: str) -> list[str]:
        """Return the ids with this prefix of devboxes that have any files here."""
        return self._journal.names(prefix)

    async def forget_old(self, before_ms: int) -> list[str]:
        """Forget devboxes that ended before that time, and the oldest while outputs take too much space."""
        ended = await asyncio.to_thread(self._journal.ended_before, before_ms / 1000)
        forgotten = sorted(ended - self.running())
        for devbox_id in forgotten:
            await self.forget(devbox_id)
        sizes = await asyncio.to_thread(self._journal.output_sizes)
        self._outputs.kept_bytes = sum(sizes.values())
        most = self._outputs.most_bytes
        # Ended devboxes, oldest first.
        for devbox_id in await asyncio.to_thread(self._journal.ended_in_order):
            if most is None or self._outputs.kept_bytes <= most:
                break
            if sizes.get(devbox_id) and devbox_id not in self.running():
                _logger.warning("outputs of %s are removed: all together take over %s bytes", devbox_id, most)
                await self.forget(devbox_id)
                self._outputs.kept_bytes -= sizes[devbox_id]
                forgotten.append(devbox_id)
        return forgotten

    def running(self) -> set[str]:
        """Return the ids of devboxes that run here now (after a restart: those found again)."""
        return {devbox.spec.id for devbox in self._devboxes.values() if devbox.is_running}

    def activity(self) -> HostActivity:
        """Return the numbers of commands that run and wait on this machine."""
        begun = [one.is_started for box in self._devboxes.values() for one in box.executions.active.values()]
        return HostActivity(sum(begun), len(begun) - sum(begun), self._executions_started)

    async def exec(self, devbox_id: str, request: ExecRequest) -> ExecutionState:
        """Start a command (or queue it in its named shell); a known id returns the existing execution."""
        devbox = self._devbox(devbox_id)
        execution = await devbox.exec(request)
        return execution.state(devbox_id, devbox.spec.limits)

    async def execution(self, devbox_id: str, execution_id: str) -> ExecutionState:
        """Return an execution; raise NotFound."""
        devbox = self._devbox(devbox_id)
        return devbox.find(execution_id).state(devbox_id, devbox.spec.limits)

    async def executions(self, devbox_id: str) -> list[ExecutionState]:
        """Return all executions of a devbox, oldest first."""
        devbox = self._devbox(devbox_id)
        return [one.state(devbox_id, devbox.spec.limits) for one in await devbox.executions.all()]

    def under_way(self, devbox_id: str) -> list[ExecutionState]:
        """Return the executions of a running devbox that have not completed; no others are looked at."""
        devbox = self._devbox(devbox_id)
        return [one.state(devbox_id, devbox.spec.limits) for one in devbox.executions.active.values()]

    async def wait(self, devbox_id: str, execution_id: str, timeout: float) -> ExecutionState:
        """Wait until an execution has completed or the time is over; return its state then."""
        devbox = self._devbox(devbox_id)
        execution = devbox.find(execution_id)
        deadline = asyncio.get_running_loop().time() + timeout
        while not execution.done.is_set():
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                break
            await wait_at_most(min(left, _LOOK_AGAIN_SECONDS), execution.done.wait())
            devbox.look(execution_id)
        return execution.state(devbox_id, devbox.spec.limits)

    async def control(self, devbox_id: str, execution_id: str, control: Control) -> bool:
        """Send input, a signal or a size to a running command; return False if it has ended."""
        return await self._devbox(devbox_id).control(execution_id, control)

    async def output(
        self, devbox_id: str, execution_id: str, stream: str, offset: int = 0, *, follow: bool = True
    ) -> AsyncIterator[bytes]:
        """Yield raw bytes of `stdout` or `stderr` from a byte offset; with `follow` until its completion."""
        execution = self._devbox(devbox_id).find(execution_id)
        path = execution.folder / output.check_stream(stream)
        pieces = output.follow(path, offset, execution.done) if follow else output.read(path, offset)
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                yield piece

    async def tail(self, devbox_id: str, execution_id: str, stream: str, lines: int) -> tuple[str, bool]:
        """Return the last lines as text (invalid bytes as U+FFFD), and True if any output was left out."""
        execution = self._devbox(devbox_id).find(execution_id)
        return output.tail(execution.folder / output.check_stream(stream), lines)

    async def open_read(self, devbox_id: str, path: str, user: str | None = None) -> int:
        """Return a descriptor to read a file of the devbox; the caller closes it."""
        return await self._open(devbox_id, OpenFile(path, user or ""))

    async def open_write(self, devbox_id: str, path: str, user: str | None = None, mode: int = 0o644) -> int:
        """Return a descriptor to write a file of the devbox, truncated; the caller closes it."""
        return await self._open(devbox_id, OpenFile(path, user or "", write=True, mode=mode))

    async def open_change(self, devbox_id: str, path: str, mode: int = 0o644) -> int:
        """Return a descriptor to write a file of the devbox, not truncated; the caller closes it."""
        return await self._open(devbox_id, OpenFile(path, "", write=True, mode=mode, truncate=False))

    async def open_all(self, devbox_id: str, requests: Sequence[OpenFile]) -> list[int]:
        """Return descriptors of files to write, for one user; the caller closes them.

        If one of the files cannot be opened, none stays open; some may have been made.
        """
        self._devbox(devbox_id).require_running()
        opened: list[int] = []
        try:
            for at in range(0, len(requests), MOST_OPENED):
                opened += await self._driver.open_files(devbox_id, requests[at : at + MOST_OPENED])
        except BaseException:
            for descriptor in opened:
                os.close(descriptor)
            raise
        return opened

    async def open_fresh(self, devbox_id: str, path: str, user: str | None = None, mode: int = 0o644) -> int:
        """Return a descriptor to write a new file in the place of any of that name; the caller closes it."""
        return await self._open(devbox_id, OpenFile(path, user or "", write=True, mode=mode, fresh=True))

    async def open_kept(self, devbox_id: str, path: str, reader: str, *, program: bool = False) -> int:
        """Do as `open_fresh`, for a file of root's that only the group of `reader` may read beside root."""
        return await self._open(devbox_id, kept_file(path, reader, program=program))

    async def _open(self, devbox_id: str, request: OpenFile) -> int:
        devbox = self._devbox(devbox_id)
        devbox.require_running()
        return await self._driver.open_file(
            devbox_id, replace(request, user=request.user or devbox.entry.request.user)
        )

    async def connect(self, devbox_id: str, port: int) -> int:
        """Return a descriptor of a stream to a port of the devbox's own loopback; the caller closes it."""
        self._devbox(devbox_id).require_running()
        return await self._driver.connect(devbox_id, port)

    async def snapshot(self, devbox_id: str, id: str, kind: str = "snapshot", *, move: bool = False) -> int:
        """Keep the disk as an image; return its size once synced. `move` takes it from a stopped devbox."""
        async with self._lock(devbox_id):
            devbox = self._devbox(devbox_id)
            with contextlib.suppress(NotFound):
                return (await self._images.get(id)).size_bytes
            if not devbox.spec.changes.exists():
                raise Conflict(f"the disk of devbox {devbox_id} is gone; snapshots are taken before shutdown")
            started_from = await self._image(devbox.entry)
            # Before it is frozen: merging the layers below may take longer than copying the changes.
            async with self._images.shallow(started_from) as parent, devbox.still_disk() as changes:
                made = await self._images.add_layer(parent, changes, id, move=move, kind=kind)
            return made.size_bytes

    async def usage(self, devbox_id: str) -> DevboxUsage:
        """Return the resources the devbox uses now."""
        self._devbox(devbox_id).require_running()
        return await self._driver.usage(devbox_id)

    async def events(self) -> AsyncIterator[Event]:
        """Yield an event whenever a command or a devbox of this machine ends; for a single reader."""
        while True:
            yield await self._events.next()

    def _execution_started(self) -> None:
        self._executions_started += 1

    async def _listen(self) -> None:
        async for event in self._driver.events():
            devbox = self._devboxes.get(event.devbox_id)
            if devbox is None:
                continue
            if isinstance(event, DevboxEnded):
                self._spawn(self._lost(event))
                continue
            try:
                devbox.look(event.execution_id)
            except (OSError, ValueError, TypeError):
                # One folder that cannot be read must not stop the handling of all others.
                _logger.exception("execution %s could not be looked at", event.execution_id)

    async def _lost(self, event: DevboxEnded) -> None:
        async with self._lock(event.devbox_id):
            devbox = self._devboxes.get(event.devbox_id)
            if devbox is None or not devbox.is_running:
                return
            devbox.is_running = False
            try:
                await self._settle(devbox, event.detail)
            except BenchyardError as error:
                _logger.error("what is left of devbox %s could not be cleared: %s", devbox.spec.id, error)
            self._events.tell(event)

    async def _watch_disks(self) -> None:
        def running() -> list[DevboxSpec]:
            return [devbox.spec for devbox in self._devboxes.values() if devbox.is_running]

        def note(devbox_id: str, used: int, entries: int) -> None:
            if devbox := self._devboxes.get(devbox_id):
                devbox.measured = DiskBlocks(used, entries, entries)

        async for devbox_id, detail in watch_disks(running, self._driver, note):
            await self._lost(DevboxEnded(devbox_id, "out_of_disk", detail))
