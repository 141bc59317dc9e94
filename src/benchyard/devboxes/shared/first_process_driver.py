"""The common part of drivers that hold each devbox by a first process of ours."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from benchyard.devboxes.base import (
    Command,
    Control,
    DevboxEnded,
    Driver,
    Event,
    ExecutionEnded,
    Network,
    OpenFile,
)
from benchyard.devboxes.shared import inside, running_devbox, watches
from benchyard.errors import BenchyardError, DevboxGone

_LOST = {
    "exit_status": 137,
    "killed": True,
    "ended_ms": 0,
    "error": "the process that kept this command was killed inside the devbox",
    "signal": 9,
}


def has_empty_status(folder: Path) -> bool:
    """Tell whether an execution's status is still to be written."""
    try:
        return os.stat(f"{folder}/status.json").st_size == 0  # noqa: PTH116  (done for every command)
    except FileNotFoundError:
        return False


def has_commands(folder: Path) -> bool:
    """Tell whether a devbox may have running commands: each one's status file is made before it begins."""
    try:
        return any(has_empty_status(path) for path in (folder / "executions").iterdir())
    except FileNotFoundError:
        return False


def write_lost_status(folder: Path | None) -> None:
    """Write a status for a command if its end was reported without one."""
    if folder is not None and has_empty_status(folder):
        (folder / "status.json").write_text(json.dumps(_LOST))


_COUNTED = ((b"Ip:", b"OutNoRoutes"), (b"Udp:", b"NoPorts"))
"""By protocol: packets without a route, and queries to a missing resolver."""
_COUNTED_V6 = b"\nIp6OutNoRoutes"
_COUNTS_BYTES = 64 * 1024


def count_network_refusals(pid: int) -> int | None:
    """Return the count of a process's network namespace; None if the process is gone, or it is not known."""
    counts = _read_counts(f"/proc/{pid}/net/snmp")
    if counts is None:
        return None
    total = 0
    for protocol, name in _COUNTED:
        # A line with the names of a protocol's counts, then one with the counts.
        _, _, found = (b"\n" + counts).partition(b"\n" + protocol)
        names, _, rest = found.partition(b"\n" + protocol)
        counters = dict(zip(names.split(), rest.partition(b"\n")[0].split(), strict=False))
        total += int(counters.get(name, 0))
    # A kernel without IPv6 has no such file.
    sixth = _read_counts(f"/proc/{pid}/net/snmp6") or b""
    return total + int((sixth.partition(_COUNTED_V6)[2].split(None, 1) or [b"0"])[0])


def _read_counts(path: str) -> bytes | None:
    """Read a file of counts by as few calls as possible, since it is done for every command."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, _COUNTS_BYTES)
    except OSError:
        return None
    finally:
        os.close(descriptor)


PATIENCE_SECONDS = 60


class FirstProcessDriver(Driver):
    """Base of the drivers: running devboxes, those starting or stopping, and events to report."""

    def __init__(self) -> None:
        self._running: dict[str, running_devbox.RunningDevbox] = {}
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._watch_with(watches.Watcher())

    def _watch_with(self, watcher: watches.Watcher) -> None:
        self._watcher = watcher
        self.inside = inside.FirstProcessInside(self._get, watcher)

    def _get(self, devbox_id: str) -> running_devbox.RunningDevbox:
        devbox = self._running.get(devbox_id)
        if devbox is None:
            raise DevboxGone(f"devbox {devbox_id} does not run")
        return devbox

    def network_refusals(self, devbox_id: str) -> int | None:
        """Return how often programs tried to leave a devbox without a network; None for other devboxes."""
        devbox = self._get(devbox_id)
        return count_network_refusals(devbox.held.pid) if devbox.spec.network is Network.NONE else None

    def _under_way(self, devbox_id: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run work on a devbox in a task that the next start or stop of it waits for."""
        task = asyncio.create_task(work)
        self._starting[devbox_id] = task
        task.add_done_callback(lambda _done: self._starting.pop(devbox_id, None))
        return task

    async def _start_once(self, devbox_id: str, start: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a devbox, or wait for its running start; end the devbox if this is cancelled."""
        task = self._starting.get(devbox_id) or self._under_way(devbox_id, start())
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            # Half a start cannot be undone safely: let it finish, then end the devbox.
            with contextlib.suppress(BenchyardError):
                await asyncio.shield(task)
            await self.stop(devbox_id)
            raise

    async def _settled(self, devbox_id: str) -> None:
        """Return when a devbox is neither starting nor stopping."""
        task = self._starting.get(devbox_id)
        if task is not None:
            with contextlib.suppress(BenchyardError):
                await asyncio.shield(task)

    async def _let_go(self) -> None:
        """Finish running work, and release all devboxes; they live on."""
        for task in list(self._starting.values()):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, BenchyardError):
                await task
        self._watcher.close()
        for devbox in self._running.values():
            devbox.close()
        self._running.clear()

    async def _take_up_commands(self, devbox: running_devbox.RunningDevbox) -> bool:
        """Learn the running commands of a found devbox; if it does not answer, end it and return False."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                reply, _none = await devbox.ask({"op": "list"})
        except (TimeoutError, DevboxGone):
            await self.stop(devbox.spec.id)
            return False
        for command in reply["commands"]:
            devbox.commands.setdefault(command, devbox.spec.folder / "executions" / command)
        return True

    def _command_ended(self, devbox_id: str, execution_id: str) -> None:
        devbox = self._running.get(devbox_id)
        write_lost_status(devbox.commands.pop(execution_id, None) if devbox else None)
        self._events.put_nowait(ExecutionEnded(devbox_id, execution_id))

    def _tell_end(self, devbox_id: str, *, out_of_memory: bool) -> None:
        """Report the reason for the end of a devbox that was not requested."""
        reason = "out_of_memory" if out_of_memory else "health_check_failed"
        detail = "it used more memory than it has" if out_of_memory else "its first process was killed"
        self._events.put_nowait(DevboxEnded(devbox_id, reason, detail))

    async def exec(self, devbox_id: str, command: Command) -> None:
        await self._get(devbox_id).exec(command)

    async def control(self, devbox_id: str, execution_id: str, control: Control) -> bool:
        return await self._get(devbox_id).control(execution_id, control)

    async def open_file(self, devbox_id: str, request: OpenFile) -> int:
        (descriptor,) = await self._get(devbox_id).open_files([request])
        return descriptor

    async def open_files(self, devbox_id: str, requests: Sequence[OpenFile]) -> list[int]:
        return await self._get(devbox_id).open_files(requests)

    async def connect(self, devbox_id: str, port: int) -> int:
        return await self._get(devbox_id).connect(port)

    async def events(self) -> AsyncIterator[Event]:
        while True:
            yield await self._events.get()
