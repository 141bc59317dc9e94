"""A session of an ssh connection: a command or a terminal in the devbox, as an execution."""

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import asyncssh

from benchyard.devboxes.base import Kill, Resize, Signal, Stdin
from benchyard.engine.devboxes.commands import PTY_PREFIX, SSH_PREFIX
from benchyard.engine.devboxes.terminals import valid_size
from benchyard.engine.engine import Engine
from benchyard.engine.ids import random_id
from benchyard.errors import BenchyardError
from benchyard.hosts.host import ExecRequest, Host

_EAGER_SECONDS = 0.004
_LAZY_SECONDS = 0.1


class LiveOutput:
    """Reader of an execution's output by a client that also sends its input, so that echoes arrive fast."""

    def __init__(self, host: Host, devbox_id: str, execution_id: str) -> None:
        self._host = host
        self._devbox_id = devbox_id
        self._execution_id = execution_id
        self._fed = asyncio.Event()

    def fed(self) -> None:
        """Note that input was sent to the command, which may answer at once."""
        self._fed.set()

    async def output(self, stream: str, offset: int = 0) -> AsyncIterator[bytes]:
        """Yield a stream from an offset on, until the command has ended."""
        delay = _EAGER_SECONDS
        while True:
            is_last = await self.has_ended()
            before = offset
            pieces = self._host.output(self._devbox_id, self._execution_id, stream, offset, follow=False)
            async for piece in pieces:
                offset += len(piece)
                yield piece
            if is_last:
                return
            delay = _EAGER_SECONDS if offset > before else min(delay * 1.5, _LAZY_SECONDS)
            if await self._was_fed(delay):
                delay = _EAGER_SECONDS

    async def has_ended(self) -> bool:
        """Tell whether the command has ended."""
        state = await self._host.execution(self._devbox_id, self._execution_id)
        return state.status == "completed"

    async def _was_fed(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._fed.wait()
        except TimeoutError:
            return False
        self._fed.clear()
        return True


SshProcess = asyncssh.SSHServerProcess[bytes]

FAILED = 255
_CHUNK_BYTES = 32 * 1024
_USUAL_SIZE = (80, 24)
_SHELL = 'exec "${SHELL:-/bin/sh}"'
_TERM = re.compile(r"[A-Za-z0-9_.+-]{1,64}")
_LOCALE = re.compile(r"(LANG|LC_[A-Z]+|COLORTERM)")
_CLOSE_SECONDS = 5.0


@dataclass(frozen=True)
class SshTarget:
    """Devbox in which a connection's sessions run, with the services to reach it."""

    engine: Engine
    host: Host
    devbox_id: str


class SshSession:
    """A command or terminal, with its bytes between a client and a devbox."""

    def __init__(self, process: SshProcess, place: SshTarget) -> None:
        self._process = process
        self._place = place
        self._size = _size(process.term_size) if process.term_type is not None else None
        self._id = random_id(f"{PTY_PREFIX}{SSH_PREFIX}" if self._size else SSH_PREFIX)
        self._following = LiveOutput(place.host, place.devbox_id, self._id)

    async def run(self) -> None:
        """Run the command to its end, or until the client has gone; tell the client its exit status."""
        place, process = self._place, self._process
        try:
            await place.engine.devboxes.running(place.devbox_id)
            await place.host.exec(place.devbox_id, self._request())
        except BenchyardError as error:
            self._say(error.message)
            process.exit(FAILED)
            return
        try:
            status = await self._carried()
        except (BenchyardError, OSError) as error:
            self._say(str(error))
            status = FAILED
        if status is None:
            await self._leave()
        else:
            process.exit(status)

    def _request(self) -> ExecRequest:
        command = self._process.command or ""
        if not command and self._size is None:
            command = _SHELL
        return ExecRequest(
            id=self._id,
            command=command,
            attach_stdin=True,
            env=_environment(self._process),
            pty=self._size,
        )

    async def _carried(self) -> int | None:
        """Carry input and output until the command has ended; return None if the client leaves first."""
        streams = ["stdout"] if self._size else ["stdout", "stderr"]
        printing = asyncio.ensure_future(self._print_all(streams))
        typing = asyncio.ensure_future(self._type())
        leaving = asyncio.ensure_future(self._process.wait_closed())
        try:
            await asyncio.wait({printing, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not printing.done() or isinstance(printing.exception(), ConnectionError):
                return None
            printing.result()
            return await self._status()
        finally:
            for job in (printing, typing, leaving):
                job.cancel()
            await asyncio.gather(printing, typing, leaving, return_exceptions=True)

    async def _status(self) -> int:
        state = await self._place.host.execution(self._place.devbox_id, self._id)
        if state.hint and (state.stdout_truncated or state.stderr_truncated):
            self._say(state.hint)
        return FAILED if state.exit_status is None else state.exit_status

    async def _print_all(self, streams: list[str]) -> None:
        await asyncio.gather(*(self._print(stream) for stream in streams))

    async def _print(self, stream: str) -> None:
        target = self._process.stdout if stream == "stdout" else self._process.stderr
        async for data in self._following.output(stream):
            target.write(data)
            await target.drain()

    async def _type(self) -> None:
        """Pass on input, with the signals and terminal sizes that arrive in between."""
        while True:
            try:
                data = await self._process.stdin.read(_CHUNK_BYTES)
            except asyncssh.TerminalSizeChanged as change:
                await self._resize(change)
                continue
            except asyncssh.SignalReceived as received:
                await self._signal(received.signal)
                continue
            except asyncssh.BreakReceived:
                continue
            if not data:
                await self._control(Stdin(close=True))
                return
            self._place.engine.devboxes.touch(self._place.devbox_id)
            if not await self._control(Stdin(data)):
                return
            self._following.fed()

    async def _resize(self, change: asyncssh.TerminalSizeChanged) -> None:
        size = valid_size(change.width, change.height)
        if size:
            await self._control(Resize(*size))
            self._following.fed()

    async def _signal(self, name: str) -> None:
        number = getattr(signal.Signals, f"SIG{name}", None)
        if isinstance(number, signal.Signals):
            await self._control(Signal(number))

    async def _control(self, control: Signal | Stdin | Resize) -> bool:
        return await self._place.host.control(self._place.devbox_id, self._id, control)

    async def _leave(self) -> None:
        """Hang up after the client has gone, and kill a terminal's process that ignores the hangup."""
        host, devbox_id = self._place.host, self._place.devbox_id
        await self._place.engine.ssh_keys.hang_up(devbox_id, self._id)
        if self._size:
            with suppress(BenchyardError):
                await host.wait(devbox_id, self._id, _CLOSE_SECONDS)
                await host.control(devbox_id, self._id, Kill(tree=False))

    def _say(self, message: str) -> None:
        line_end = "\r\n" if self._size else "\n"
        self._process.stderr.write(f"benchyard: {message}{line_end}".encode())


def _size(given: tuple[int, int, int, int]) -> tuple[int, int]:
    return valid_size(given[0], given[1]) or _USUAL_SIZE


def _environment(process: SshProcess) -> Mapping[str, str]:
    """Return the variables that a client may set: terminal type, colors and language."""
    variables = {
        name: value for name, value in process.env.items() if _LOCALE.fullmatch(name) and "\0" not in value
    }
    if process.term_type and _TERM.fullmatch(process.term_type):
        variables["TERM"] = process.term_type
    return variables
