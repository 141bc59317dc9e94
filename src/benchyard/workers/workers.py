"""Workers as the server uses them: a function over some content, run in a separate process.

Content from agents, datasets and clients is foreign. A pattern may search it for ever, a parser may take all
memory, and both hold the lock that all threads of the server need: so the server itself never reads it.
"""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from benchyard.errors import BenchyardError, WorkerFailed
from benchyard.workers import program

SMALL_BYTES = 64 * 1024
"""Size up to which foreign content may be parsed on the event loop."""
_FEW_PARAMETERS = 16 * 1024
"""Size up to which parameters are written as JSON on the event loop."""
_VALUE_BYTES = 8
"""Least size that a value counts with."""
_TRIES = 3
_CLOCK_FACTOR = 6
"""Factor of a worker's time by the clock, compared with its processor time, for busy machines."""


@dataclass(frozen=True)
class WorkerLimits:
    """The limits of a job."""

    seconds: float = 10.0
    """Processor time."""
    memory_bytes: int = 1024**3
    output_bytes: int = program.MOST_MESSAGE_BYTES // 2
    """Size of the result."""


USUAL_LIMITS = WorkerLimits()


class WorkerCall(Protocol):
    """Runs a function in a worker."""

    async def __call__(
        self,
        function: str,
        content: bytes | int,
        parameters: Mapping[str, Any] | None = None,
        limits: WorkerLimits = USUAL_LIMITS,
    ) -> Any:
        """Return the result of `module:name` for a content: JSON values, or bytes.

        The content is bytes, or a descriptor to read from, which stays open. The function gets it as a
        file, and the parameters, JSON values, by their names. Raises WorkerFailed when the worker dies,
        raises or exceeds its limits, and BenchyardError when the machine does not let it run.
        """


class Workers:
    """Starts a limited number of workers at the same time; use as an async context manager.

    The process that forks them is started with the first job, and again if it was killed.
    """

    def __init__(self, at_once: int | None = None) -> None:
        self._turns = asyncio.Semaphore(at_once or max(4, os.cpu_count() or 1))
        self._starting = asyncio.Lock()
        self._starter: _Starter | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._starter is not None:
            await self._starter.close()

    async def call(
        self,
        function: str,
        content: bytes | int,
        parameters: Mapping[str, Any] | None = None,
        limits: WorkerLimits = USUAL_LIMITS,
    ) -> Any:
        """Run a function in a worker; see `WorkerCall`."""
        result = await self._made(function, content, parameters, limits)
        if not isinstance(result, _Made):
            return result
        try:
            return await asyncio.to_thread(_read, result.descriptor, result.size)
        finally:
            os.close(result.descriptor)

    async def make_file(
        self,
        function: str,
        content: bytes | int,
        parameters: Mapping[str, Any] | None = None,
        limits: WorkerLimits = USUAL_LIMITS,
    ) -> int:
        """Return a descriptor, closed by the caller, of the bytes a function makes; see `WorkerCall`."""
        result = await self._made(function, content, parameters, limits)
        if not isinstance(result, _Made):
            raise WorkerFailed(f"the worker made no bytes but {type(result).__name__}", limit=None)
        os.lseek(result.descriptor, 0, os.SEEK_SET)
        return result.descriptor

    async def _made(
        self, function: str, content: bytes | int, parameters: Mapping[str, Any] | None, limits: WorkerLimits
    ) -> Any:
        encoded = await _encoded(parameters or {})
        async with self._turns, _input(encoded) as given, _input(content) as read:
            return await self._tried(function, (given, read), limits)

    async def _tried(self, function: str, inputs: tuple[int, int], limits: WorkerLimits) -> Any:
        for _ in range(_TRIES):
            starter = await self._running()
            try:
                return await starter.run(function, inputs, limits)
            except _StarterGone:
                # The starter reads no content, so its death was not caused by a job.
                await starter.close()
        raise BenchyardError("workers are killed as soon as they start; look at the machine's log")

    async def _running(self) -> "_Starter":
        async with self._starting:
            if self._starter is not None and self._starter.is_gone:
                await self._starter.close()
                self._starter = None
            if self._starter is None:
                self._starter = await _start()
            return self._starter


async def call_once(
    function: str,
    content: bytes | int,
    parameters: Mapping[str, Any] | None = None,
    limits: WorkerLimits = USUAL_LIMITS,
) -> Any:
    """Run a function in a worker that exists for this call alone; see `WorkerCall`."""
    async with Workers() as workers:
        return await workers.call(function, content, parameters, limits)


@dataclass(frozen=True)
class _Made:
    """The bytes of a worker's result, in a file in memory."""

    descriptor: int
    size: int


class _StarterGone(Exception):
    """The process that forks workers has ended."""


class _Starter:
    """The process that forks workers."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._is_closed = False

    @property
    def is_gone(self) -> bool:
        return self._is_closed or self._process.returncode is not None

    async def close(self) -> None:
        """End the process with all its workers."""
        self._is_closed = True
        self._control.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def run(self, function: str, inputs: tuple[int, int], limits: WorkerLimits) -> Any:
        """Have a job done; raises _StarterGone if this process prevents that."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            ours.setblocking(False)
            job = {
                "function": function,
                "seconds": limits.seconds,
                "memory_bytes": limits.memory_bytes,
                "output_bytes": limits.output_bytes,
            }
            with theirs:
                for descriptor in inputs:
                    os.lseek(descriptor, 0, os.SEEK_SET)
                try:
                    socket.send_fds(self._control, [json.dumps(job).encode()], [theirs.fileno(), *inputs])
                except OSError as error:
                    raise _StarterGone from error
            try:
                async with asyncio.timeout(limits.seconds * _CLOCK_FACTOR):
                    return await self._answer(ours, limits)
            except TimeoutError as error:
                raise _exceeded("time", limits) from error

    async def _answer(self, ours: socket.socket, limits: WorkerLimits) -> Any:
        results: list[Any] = []
        with contextlib.ExitStack() as opened:
            while True:
                reply, descriptors = await _receive(ours)
                for descriptor in descriptors:
                    opened.callback(os.close, descriptor)
                if reply is None:
                    raise _StarterGone
                if "unstarted" in reply:
                    raise BenchyardError(f"a worker could not be started: {reply['unstarted']}")
                if "exceeded" in reply:
                    raise _exceeded(reply["exceeded"], limits)
                if "failed" in reply:
                    raise WorkerFailed(f"the worker failed: {reply['failed']}", limit=None)
                if "made" in reply:
                    results = [reply["made"]]
                elif "size" in reply:
                    results = [_Made(descriptors[0], reply["size"])]
                else:
                    value = _ended(results, reply["ended"], limits)
                    if isinstance(value, _Made):
                        opened.pop_all()
                    return value


async def _encoded(parameters: Mapping[str, Any]) -> bytes:
    """Return parameters as JSON: many or long ones are written in a thread."""
    if _room_left(parameters, _FEW_PARAMETERS) > 0:
        return json.dumps(parameters).encode()
    return await asyncio.to_thread(_encoded_slowly, parameters)


def _encoded_slowly(parameters: Mapping[str, Any]) -> bytes:
    # In small pieces: one call for all of it would hold the lock that all threads of the server need.
    return "".join(json.JSONEncoder().iterencode(parameters)).encode()


def _room_left(value: Any, room: int) -> int:
    """Return the part of a number of bytes that a value leaves, about; 0 or less as soon as none is left."""
    if isinstance(value, str):
        return room - len(value)
    parts: Iterable[Any] = ()
    if isinstance(value, Mapping):
        parts = itertools.chain.from_iterable(value.items())
    elif isinstance(value, list | tuple):
        parts = value
    for part in parts:
        if room <= 0:
            break
        room = _room_left(part, room)
    return room - _VALUE_BYTES


def _ended(made: list[Any], status: int, limits: WorkerLimits) -> Any:
    if made and status == 0:
        return made[0]
    if status == -signal.SIGXCPU:
        raise _exceeded("time", limits)
    if status == -signal.SIGXFSZ:
        raise _exceeded("output", limits)
    problem = f"was ended by signal {-status}" if status < 0 else f"exited with {status}"
    raise WorkerFailed(f"the worker {problem}", limit=None)


def _exceeded(limit: str, limits: WorkerLimits) -> WorkerFailed:
    problems = {
        "time": f"took longer than {limits.seconds:g} s",
        "memory": f"took more than {limits.memory_bytes} bytes of memory",
        "output": f"made more than {limits.output_bytes} bytes",
    }
    return WorkerFailed(f"the worker {problems[limit]}", limit=limit)


async def _start() -> _Starter:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-X", "utf8", program.__file__, str(theirs.fileno())),
            pass_fds=(theirs.fileno(),),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
        )
    except BaseException as error:
        ours.close()
        if isinstance(error, OSError):
            raise BenchyardError(f"workers cannot be started: {error.strerror}") from error
        raise
    finally:
        theirs.close()
    return _Starter(process, ours)


@contextlib.asynccontextmanager
async def _input(content: bytes | int) -> AsyncIterator[int]:
    """Yield a descriptor of a content; a given descriptor is left open."""
    if isinstance(content, int):
        yield content
        return
    descriptor = os.memfd_create("content", os.MFD_CLOEXEC)
    try:
        if len(content) <= SMALL_BYTES:
            os.write(descriptor, content)
        else:
            await asyncio.to_thread(_write, descriptor, content)
        yield descriptor
    finally:
        os.close(descriptor)


async def _receive(ours: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Return the next message with its descriptors; None at the end."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(ours, _set, ready)
    try:
        await ready
    finally:
        loop.remove_reader(ours)
    message, descriptors, _, _ = socket.recv_fds(ours, program.MOST_MESSAGE_BYTES, 1)
    return (json.loads(message) if message else None), list(descriptors)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _read(descriptor: int, size: int) -> bytes:
    with open(os.dup(descriptor), "rb") as file:  # noqa: PTH123  (a descriptor)
        file.seek(0)
        return file.read(size)


def _write(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
