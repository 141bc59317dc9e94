"""The processes of a build: in namespaces that die with the server, within limits, all ended at the end.

The first process of a pid namespace takes everything in it along when it dies, whatever forked or daemonised,
and the mount namespace takes every mount. The kernel ends that first process when its starter dies, and the
starter when the server does: a server that is killed leaves no process and no mount of a build.
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
"""Given the pid of a build's first process: why it has to end for what it put on the disk, if it has to."""


class BuildGroup(ABC):
    """Control groups that hold one build."""

    folders: tuple[Path, ...] = ()
    """Where its first process joins."""
    parent: str | None = None
    """For the containers that an engine makes: the path of the group around them."""

    @abstractmethod
    def ran_out_of_memory(self) -> bool:
        """Whether something in it was killed because it used up its memory."""


class BuildGroups(ABC):
    """Makes control groups for builds; what a machine offers is known to whoever passes one in."""

    @abstractmethod
    def opened(self, build_id: str, memory_bytes: int) -> contextlib.AbstractContextManager[BuildGroup]:
        """A group with this limit, and an end to all that is left in it."""


class NoBuildGroup(BuildGroup):
    """Where there are no control groups: no limit on memory."""

    def ran_out_of_memory(self) -> bool:
        return False


@dataclass(frozen=True)
class BuildProcess:
    """What is to be run, and how far it may go."""

    command: Sequence[str]
    environment: Mapping[str, str]
    cwd: Path
    network: bool = True
    door: BuildDoor | None = None
    """How it gets out without a network."""
    seconds: float = 600.0
    group: BuildGroup = field(default_factory=NoBuildGroup)
    overfull: Overfull | None = None


def missing_programs() -> list[str]:
    """What is needed to confine a build and is not there."""
    return [name for name in ("unshare", "setpriv") if shutil.which(name) is None]


async def run_process(work: BuildProcess, line: Callable[[str], None]) -> int:
    """Run to the end, handing on each line of output; returns the exit status.

    Raises BuildFailed when it took too long or filled the disk. All its processes are gone afterwards.
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
    """Serve the door that the work's first program hands out, which then lets the work begin."""
    try:
        async with asyncio.timeout(_DOOR_SECONDS):
            await _readable(channel)
    except TimeoutError:
        raise BuildFailed(f"the build's network was not ready within {_DOOR_SECONDS:g} seconds") from None
    _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    if not descriptors:
        # It has ended; what it printed says why.
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
    """The command, in its groups and namespaces; each program becomes the next, so that one pid is all."""
    mapping = [] if os.geteuid() == 0 else ["--user", "--map-root-user", "--map-auto"]
    network = [] if work.network else ["--net"]
    own = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--ipc"]
    join = ["/bin/sh", "-c", _JOIN, " ".join(str(folder) for folder in work.group.folders)]
    return [*join, "setpriv", "--pdeathsig", "KILL", "unshare", *mapping, *own, *network, "--", *command]


async def _read(process: asyncio.subprocess.Process, line: Callable[[str], None]) -> None:
    """Hand on whole lines; what is too long for one is cut, not kept."""
    rest, is_long = b"", False
    assert process.stdout is not None
    while piece := await process.stdout.read(_PIECE):
        *whole, rest = (rest + piece).split(b"\n")
        for each in whole:
            if not is_long:
                line(_text(each))
            is_long = False
        if len(rest) > _LONGEST_LINE:
            if not is_long:
                line(_text(rest))
            rest, is_long = b"", True
    if rest and not is_long:
        line(_text(rest))


def _text(line: bytes) -> str:
    """What a terminal would show of a line that was written over, cut to a bearable length."""
    shown = line.rstrip(b"\r").rpartition(b"\r")[2]
    more = " [cut]" if len(shown) > _LONGEST_LINE else ""
    return shown[:_LONGEST_LINE].decode(errors="replace") + more


async def _watch(work: BuildProcess, process: asyncio.subprocess.Process) -> str | None:
    """Return why the work has to end, once it has to; looking takes a small part of the time."""
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
    """The first process of the namespace that `unshare` with this pid made."""
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            return int(child)
    return None


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill what is left. That the first process is gone means that all others are."""
    while process.returncode is None:
        first = first_process(process.pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(first or process.pid, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(process.wait()), 1.0)
