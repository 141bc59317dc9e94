"""The processes of a build: in namespaces that end with the server, within limits, all killed at the end.

When the first process of a pid namespace dies, the kernel kills all others in it, even daemons, and the mount
namespace goes with every mount. The kernel kills that first process when its starter dies, and the starter
when the server does: a server that is killed leaves no process and no mount of a build.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchyard.errors import BuildFailed
from benchyard.images.builders.base import BuildDoor

_LONGEST_LINE = 16 * 1024
_PIECE = 64 * 1024
_JOIN = 'for each in $0; do echo $$ > "$each/cgroup.procs" || exit 125; done; exec "$@"'
_LOOK_SECONDS = 1.0
_MARK = "BENCHYARD_BUILDER"
_DOOR_PROGRAM = str(Path(__file__).with_name("door.py"))
_DOOR_SECONDS = 60.0


Overfull = Callable[[int], Awaitable[str | None]]
"""Returns why a build must end for its use of the disk, given its first process; None if it may go on."""


class BuildGroup(ABC):
    """Control groups of one build."""

    folders: tuple[Path, ...] = ()
    """Groups that its first process joins."""
    parent: str | None = None
    """Path of the group around the containers that an engine makes."""

    @abstractmethod
    def ran_out_of_memory(self) -> bool:
        """Tell whether a process in it was killed for exceeding the memory limit."""


class BuildGroups(ABC):
    """Maker of control groups for builds; the caller that passes one in knows this machine's abilities."""

    @abstractmethod
    def opened(self, build_id: str, memory_bytes: int) -> contextlib.AbstractContextManager[BuildGroup]:
        """Make a group with this limit; at the end, kill all that is left in it."""


class NoBuildGroup(BuildGroup):
    """The stand-in on a machine without control groups: memory is unlimited."""

    def ran_out_of_memory(self) -> bool:
        return False


@dataclass(frozen=True)
class BuildProcess:
    """A command to run, and its limits."""

    command: Sequence[str]
    environment: Mapping[str, str]
    cwd: Path
    network: bool = True
    door: BuildDoor | None = None
    """The only exit of a process without a network."""
    seconds: float = 600.0
    group: BuildGroup = field(default_factory=NoBuildGroup)
    overfull: Overfull | None = None


def missing_programs() -> list[str]:
    """Return the programs that are missing to confine a build."""
    return [name for name in ("unshare", "setpriv") if shutil.which(name) is None]


async def run_process(work: BuildProcess, line: Callable[[str], None]) -> int:
    """Run to the end, passing on each line of output; return the exit status.

    Raises BuildFailed when it took too long or filled the disk. No process of it is left afterwards.
    """
    async with _start(work) as process:
        reading = asyncio.ensure_future(_read(process, line))
        watching = asyncio.ensure_future(_watch(work, process))
        try:
            async with asyncio.timeout(work.seconds):
                await asyncio.wait([reading, watching], return_when=asyncio.FIRST_COMPLETED)
                if watching.done() and (reason := watching.result()):
                    raise BuildFailed(reason, "out_of_disk")
                await reading
                return await process.wait()
        except TimeoutError:
            message = f"the build took longer than {work.seconds:g} seconds and was ended: allow it more time"
            raise BuildFailed(message) from None
        finally:
            for task in (reading, watching):
                task.cancel()
            await asyncio.gather(reading, watching, return_exceptions=True)


@asynccontextmanager
async def _start(work: BuildProcess) -> AsyncIterator[asyncio.subprocess.Process]:
    if work.door is None:
        async with _process(work, work.command) as process:
            yield process
        return
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = theirs.fileno()
        wrapped = [sys.executable, "-I", _DOOR_PROGRAM, str(channel), str(work.door.port), *work.command]
        async with _process(work, wrapped, [channel]) as process:
            theirs.close()
            async with _serve(work.door, ours):
                yield process


@asynccontextmanager
async def _serve(door: BuildDoor, channel: socket.socket) -> AsyncIterator[None]:
    """Serve the door that the first program hands out, which then lets the command begin."""
    try:
        async with asyncio.timeout(_DOOR_SECONDS):
            await _readable(channel)
    except TimeoutError:
        raise BuildFailed(f"the build's network was not ready within {_DOOR_SECONDS:g} seconds") from None
    _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    if not descriptors:
        # The program has ended; its output says why.
        yield
        return
    try:
        async with door.serve(descriptors[0]):
            channel.send(b"s")
            yield
    finally:
        os.close(descriptors[0])


async def _readable(channel: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(channel, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(channel)


@asynccontextmanager
async def _process(
    work: BuildProcess, command: Sequence[str], passed: Sequence[int] = ()
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *_confine(work, command),
        pass_fds=passed,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**work.environment, _MARK: str(work.cwd)},
        cwd=work.cwd,
        start_new_session=True,
        limit=_PIECE,
    )
    try:
        yield process
    finally:
        await asyncio.shield(_end(process))


def _confine(work: BuildProcess, command: Sequence[str]) -> list[str]:
    """Return the command in its groups and namespaces; each program executes the next under one pid."""
    mapping = [] if os.geteuid() == 0 else ["--user", "--map-root-user", "--map-auto"]
    network = [] if work.network else ["--net"]
    own = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--ipc"]
    join = ["/bin/sh", "-c", _JOIN, " ".join(str(folder) for folder in work.group.folders)]
    return [*join, "setpriv", "--pdeathsig", "KILL", "unshare", *mapping, *own, *network, "--", *command]


async def _read(process: asyncio.subprocess.Process, line: Callable[[str], None]) -> None:
    """Pass on whole lines; a line that is too long is cut."""
    rest, is_long = b"", False
    assert process.stdout is not None
    while piece := await process.stdout.read(_PIECE):
        *whole, rest = (rest + piece).split(b"\n")
        for chunk in whole:
            if not is_long:
                line(_text(chunk))
            is_long = False
        if len(rest) > _LONGEST_LINE:
            if not is_long:
                line(_text(rest))
            rest, is_long = b"", True
    if rest and not is_long:
        line(_text(rest))


def _text(line: bytes) -> str:
    """Return the text that a terminal would show of a line with carriage returns, cut if it is long."""
    shown = line.rstrip(b"\r").rpartition(b"\r")[2]
    more = " [cut]" if len(shown) > _LONGEST_LINE else ""
    return shown[:_LONGEST_LINE].decode(errors="replace") + more


async def _watch(work: BuildProcess, process: asyncio.subprocess.Process) -> str | None:
    """Return why the work has to end, once it has to; measuring takes a small part of the time."""
    loop = asyncio.get_running_loop()
    pause = _LOOK_SECONDS
    while True:
        await asyncio.sleep(pause)
        first = first_process(process.pid)
        if work.overfull is None or first is None:
            continue
        began = loop.time()
        if reason := await work.overfull(first):
            return reason
        pause = max(_LOOK_SECONDS, 10 * (loop.time() - began))


def first_process(pid: int) -> int | None:
    """Return the first process of the namespace made by the `unshare` with this pid."""
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            return int(child)
    return None


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill all processes: when the first process of the namespace is gone, so are the others."""
    while process.returncode is None:
        first = first_process(process.pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(first or process.pid, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(process.wait()), 1.0)
