"""The part of a driver that is the same for all whose devboxes are held by a first process of ours."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine
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
    """Whether an execution's status is still to be written."""
    try:
        return (folder / "status.json").stat().st_size == 0
    except FileNotFoundError:
        return False


def has_commands(folder: Path) -> bool:
    """Whether a devbox may have commands that have not ended: the status of each is made before it begins."""
    try:
        return any(has_empty_status(each) for each in (folder / "executions").iterdir())
    except FileNotFoundError:
        return False


def write_lost_status(folder: Path | None) -> None:
    """Give a command whose end was told, but not how it ended, a status."""
    if folder is not None and has_empty_status(folder):
        (folder / "status.json").write_text(json.dumps(_LOST))


_COUNTED = {"Ip:": "OutNoRoutes", "Udp:": "NoPorts"}
"""By protocol: addresses that no route leads to, and questions to a resolver that is not there."""
_COUNTED_V6 = "Ip6OutNoRoutes"


def count_network_refusals(pid: int) -> int | None:
    """The count of the namespace that a process is in; None if it is gone, or the kernel does not tell."""
    folder = Path(f"/proc/{pid}/net")
    try:
        lines = (folder / "snmp").read_text().splitlines()
    except OSError:
        return None
    total = 0
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        told = dict(zip(names.split(), values.split(), strict=False))
        total += int(told.get(_COUNTED.get(names.split()[0], ""), 0))
    return total + _sixth(folder)


def _sixth(folder: Path) -> int:
    try:
        lines = (folder / "snmp6").read_text().splitlines()
    except OSError:
        # A kernel without IPv6.
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(_COUNTED_V6))


PATIENCE_SECONDS = 60


class FirstProcessDriver(Driver):
    """Keeps the devboxes that run, those on their way up or down, and what is to be told of them."""

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
        """How often programs tried to leave a devbox that has no network; None for one that has."""
        devbox = self._get(devbox_id)
        return count_network_refusals(devbox.held.pid) if devbox.spec.network is Network.NONE else None

    def _under_way(self, devbox_id: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something with a devbox that whoever starts or stops it next has to wait for."""
        task = asyncio.create_task(work)
        self._starting[devbox_id] = task
        task.add_done_callback(lambda _done: self._starting.pop(devbox_id, None))
        return task

    async def _start_once(self, devbox_id: str, start: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a devbox, or wait for whoever does; one that is cancelled is ended."""
        task = self._starting.get(devbox_id) or self._under_way(devbox_id, start())
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            # Half a start cannot be undone safely: let it end, then end the devbox.
            with contextlib.suppress(BenchyardError):
                await asyncio.shield(task)
            await self.stop(devbox_id)
            raise

    async def _settled(self, devbox_id: str) -> None:
        """Return when a devbox is on its way neither up nor down."""
        task = self._starting.get(devbox_id)
        if task is not None:
            with contextlib.suppress(BenchyardError):
                await asyncio.shield(task)

    async def _let_go(self) -> None:
        """End what is under way, and hold no devbox any more; they live on."""
        for task in list(self._starting.values()):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, BenchyardError):
                await task
        self._watcher.close()
        for devbox in self._running.values():
            devbox.close()
        self._running.clear()

    async def _take_up_commands(self, devbox: running_devbox.RunningDevbox) -> bool:
        """Learn which commands run in a devbox that was found; False, and its end, if it does not answer."""
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
        """Say why a devbox ended that nobody asked to."""
        reason = "out_of_memory" if out_of_memory else "health_check_failed"
        detail = "it used more memory than it has" if out_of_memory else "its first process was killed"
        self._events.put_nowait(DevboxEnded(devbox_id, reason, detail))

    async def exec(self, devbox_id: str, command: Command) -> None:
        await self._get(devbox_id).exec(command)

    async def control(self, devbox_id: str, execution_id: str, control: Control) -> bool:
        return await self._get(devbox_id).control(execution_id, control)

    async def open_file(self, devbox_id: str, request: OpenFile) -> int:
        return await self._get(devbox_id).open_file(request)

    async def connect(self, devbox_id: str, port: int) -> int:
        return await self._get(devbox_id).connect(port)

    async def events(self) -> AsyncIterator[Event]:
        while True:
            yield await self._events.get()
