"""A running devbox: the connection to its first process, and the watch on that process."""

import asyncio
import base64
import contextlib
import errno
import json
import os
import select
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchyard.devboxes.base import (
    Command,
    Control,
    DevboxSpec,
    Kill,
    Network,
    NewFolder,
    OpenFile,
    Resize,
    Signal,
    Stdin,
)
from benchyard.devboxes.guest import processes, syscalls, wire
from benchyard.devboxes.shared import connections
from benchyard.devboxes.shared.channel import Channel
from benchyard.errors import BenchyardError, DevboxGone, DiskFull, Forbidden, NotFound, UsageError

_DISMISS_SECONDS = 5.0
_NICE = 10
_GREET_SECONDS = 2.0
_GREETED_TOGETHER = 500
_RELEASE_SECONDS = 2.0
_STATUS_BYTES = 4096
_STDIN_CHUNK = 64 * 1024
_NOT_SPILLED = ("op", "id", "timeout", "output_bytes", "spare_bytes", "strict")
_SPILL_BYTES = wire.MAX_MESSAGE - 16 * 1024
_SOCKET = "agent.sock"
FROZEN = "frozen"
TRACES = ("box.json", "box.json.part", _SOCKET, FROZEN)
"""Files that mark a running devbox in its folder."""
_ERRORS: dict[int, type[BenchyardError]] = {
    errno.ENOENT: NotFound,
    errno.ENOTDIR: NotFound,
    errno.EACCES: Forbidden,
    errno.EPERM: Forbidden,
    errno.ENOSPC: DiskFull,
    errno.EDQUOT: DiskFull,
}


@dataclass(frozen=True)
class FirstProcess:
    """The identity of the first process: enough to reattach after a restart. Stored in `box.json`."""

    pid: int
    start_time: int
    boot_id: str
    slot: int
    mode: str
    lease: float = 3600.0
    groups: list[str] = field(default_factory=list)
    """Its control groups, for ending it while it is frozen."""

    def save(self, folder: Path) -> None:
        """Write it atomically."""
        part = folder / "box.json.part"
        part.write_text(json.dumps(self.__dict__))
        part.rename(folder / "box.json")

    @classmethod
    def load(cls, folder: Path) -> "FirstProcess | None":
        """Read it; None if there is none."""
        try:
            return cls(**json.loads((folder / "box.json").read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def open(self) -> int | None:
        """Return a descriptor of the process, if it is still the same one."""
        return processes.open_same(self.pid, self.start_time, self.boot_id)


def listen(folder: Path) -> socket.socket:
    """Return the socket on which a devbox's first process will take requests."""
    return bind(folder, _SOCKET)


def bind(folder: Path, name: str) -> socket.socket:
    """Return a socket that listens under a name in a folder with a path of any length."""
    (folder / name).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with _Short(folder) as short:
        listener.bind(f"{short}/{name}")
    listener.listen(64)
    return listener


def connect(folder: Path) -> socket.socket:
    """Return a connection to a devbox's first process."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with _Short(folder) as short:
            connection.connect(f"{short}/{_SOCKET}")
    except OSError:
        connection.close()
        raise
    return connection


def dismiss(folder: Path, seconds: float = _DISMISS_SECONDS) -> None:
    """Ask a first process to end itself, if it listens, and wait for its end (blocks)."""
    try:
        with connect(folder) as connection:
            connection.settimeout(seconds)
            wire.send(connection, {"op": "end"})
            connection.recv(1)
    except OSError:
        # The process does not listen or does not answer: no request can be made.
        return


def greeting_delay(earlier: int) -> float:
    """Return the delay before one more idle devbox is greeted: a starting server has more urgent work."""
    return _GREET_SECONDS * (1 + earlier / _GREETED_TOGETHER)


class _Short:
    """A short name for a folder: addresses of sockets are limited to 107 bytes."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> str:
        return f"/proc/self/fd/{self._descriptor}"

    def __exit__(self, *_error: object) -> None:
        os.close(self._descriptor)


@dataclass
class RunningDevbox:
    """A devbox whose first process answers."""

    spec: DevboxSpec
    held: FirstProcess
    pidfd: int
    on_command_end: Callable[[str, str], None]
    on_end: Callable[["RunningDevbox"], None]
    can_change_user: bool = True
    commands: dict[str, Path] = field(default_factory=dict)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    frozen: bool = False
    _replies: dict[int, asyncio.Future[tuple[dict[str, Any], list[int]]]] = field(default_factory=dict)
    _sequence: int = 0
    _channel: Channel | None = None
    _greeting: asyncio.TimerHandle | None = None

    def open(self, delay: float = 0.0) -> None:
        """Begin to watch that the first process lives, and connect to it, now or once needed.

        Raises OSError if it does not listen. The delay is for one of many devboxes without commands.
        """
        if delay:
            self._greeting = asyncio.get_running_loop().call_later(delay, self._greet)
        else:
            self._connect()
        asyncio.get_running_loop().add_reader(self.pidfd, self._gone)

    def _connect(self) -> Channel:
        if self._channel is None:
            self._channel = Channel(connect(self.spec.folder), self._heard)
        return self._channel

    def _greet(self) -> None:
        try:
            self._connect()
        except OSError:
            # The process lives but does not listen: it cannot be used any more.
            self.kill()

    def close(self) -> None:
        """Release the connection; the devbox lives on."""
        if self._greeting is not None:
            self._greeting.cancel()
        if self.pidfd >= 0:
            asyncio.get_running_loop().remove_reader(self.pidfd)
            os.close(self.pidfd)
            self.pidfd = -1
        if self._channel is not None:
            self._channel.close()
        self._fail_replies()

    def _gone(self) -> None:
        asyncio.get_running_loop().remove_reader(self.pidfd)
        self._fail_replies()
        self.ended.set()
        self.on_end(self)

    def _fail_replies(self) -> None:
        for future in self._replies.values():
            if not future.done():
                future.set_exception(DevboxGone(f"devbox {self.spec.id} ended"))
        self._replies.clear()

    def _heard(self, message: dict[str, Any] | None, descriptors: list[int]) -> None:
        if message is None:
            return
        if "ended" in message:
            self.on_command_end(self.spec.id, message["ended"])
            return
        future = self._replies.pop(message["seq"], None)
        if future is None or future.done():
            for descriptor in descriptors:
                os.close(descriptor)
        else:
            future.set_result((message, descriptors))

    async def ask(self, message: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """Send a request and return its answer."""
        self._sequence += 1
        future: asyncio.Future[tuple[dict[str, Any], list[int]]] = asyncio.get_running_loop().create_future()
        self._replies[self._sequence] = future
        await self.tell({**message, "seq": self._sequence})
        return await future

    async def tell(self, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
        """Send a request that has no answer."""
        try:
            if self.pidfd < 0 or self.ended.is_set():
                raise BrokenPipeError
            await self._connect().send(message, descriptors)
        except OSError as error:
            raise DevboxGone(f"devbox {self.spec.id} does not run") from error

    @property
    def was_frozen(self) -> bool:
        """Tell whether it was frozen when the last server ended."""
        return (self.spec.folder / FROZEN).exists()

    def note_frozen(self, *, frozen: bool) -> None:
        """Note, for the next server too, whether it is frozen."""
        self.frozen = frozen
        mark = self.spec.folder / FROZEN
        if frozen:
            mark.touch()
        else:
            mark.unlink(missing_ok=True)

    def mounts(self) -> int | None:
        """Return a descriptor that keeps its mounts after its processes have ended, or None.

        Without it, the first process unmounts them itself before it ends.
        """
        try:
            descriptor = os.open(f"/proc/{self.held.pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        end = select.poll()
        end.register(self.pidfd, select.POLLIN)
        if end.poll(0):
            # The process has ended already: the mounts may be those of another process.
            os.close(descriptor)
            return None
        return descriptor

    def kill(self) -> None:
        """End the first process, and with it every process of the devbox."""
        try:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        except ProcessLookupError:
            return

    async def exec(self, command: Command) -> None:
        """Hand over a command, with the files for its output."""
        request = {
            "op": "exec",
            "id": command.id,
            "argv": command.argv,
            "user": command.user,
            "cwd": command.cwd,
            "env": dict(command.env),
            "stdin": command.attach_stdin,
            "pty": command.pty,
            "timeout": command.timeout_seconds,
            "strict": command.strict,
            "output_bytes": (
                self.spec.limits.output_bytes if command.output_bytes is None else command.output_bytes
            ),
            "spare_bytes": command.spare_bytes,
            "max_file_bytes": self.spec.limits.disk_bytes,
            "can_change_user": self.can_change_user,
        }
        descriptors: list[int] = []
        try:
            if len(json.dumps(request)) > _SPILL_BYTES:
                descriptors.append(_spill(request))
                request_kept = {name: request[name] for name in _NOT_SPILLED}
                request = {**request_kept, "spilled": True}
            for name in ("stdout", "stderr", "status.json"):
                descriptors.append(_open_for_write(command.folder / name))
            # However full the disk is when the command ends, its status can be written.
            syscalls.set_aside(descriptors[-1], _STATUS_BYTES)
            for path, direction in command.extra_files:
                descriptors.append(os.open(path, os.O_RDONLY) if direction == "r" else _open_for_write(path))
            self.commands[command.id] = command.folder
            await self.tell(request, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    async def control(self, execution_id: str, control: Control) -> bool:
        """Act on a command; return False if it has ended."""
        accepted = True
        for action in _actions(control):
            reply, _none = await self.ask({"op": "control", "id": execution_id, **action})
            accepted = accepted and bool(reply["ok"])
        return accepted

    async def open_files(self, requests: Sequence[OpenFile]) -> list[int]:
        """Return descriptors of regular files inside, all to be opened for the same user and purpose."""
        first, *more = (each.__dict__ for each in requests)
        reply, descriptors = await self.ask({"op": "open", **first, "more": more})
        if not reply["ok"]:
            path = reply.get("path", first["path"])
            raise _ERRORS.get(reply["errno"], UsageError)(f"cannot open {path}: {reply['text']}")
        signs = [descriptors.pop()] if first["write"] else []
        files = await _released(descriptors, signs)
        # The first process of an earlier version opens one at a time.
        for request in requests[len(files) :]:
            try:
                files += await self.open_files([request])
            except BaseException:
                _close(files)
                raise
        return files

    async def open_in_folders(
        self, folders: Sequence[NewFolder], requests: Sequence[OpenFile]
    ) -> list[int] | None:
        """Make folders, and return descriptors of files to write for one user; None if something failed."""
        first, *more = (each.__dict__ for each in requests)
        asked = {"op": "open", **first, "more": more, "folders": [each.__dict__ for each in folders]}
        reply, descriptors = await self.ask(asked)
        if not reply["ok"]:
            return None
        files = await _released(descriptors[:-1], descriptors[-1:])
        # The first process of an earlier version makes no folders, and may open one file only.
        if reply.get("folders", 0) == len(folders) and len(files) == len(requests):
            return files
        _close(files)
        return None

    async def network(self) -> int:
        """Return a descriptor of its network namespace."""
        _reply, (descriptor,) = await self.ask({"op": "network"})
        return descriptor

    async def connect(self, port: int) -> int:
        """Return a descriptor connected to a port of its loopback."""
        return await connections.connect(self.ask, self.spec.id, port)


def release_mounts(mounts: int) -> None:
    """Release the mounts of an ended devbox while the processor is idle (blocks)."""
    # A thread's lowered priority cannot be raised again: use a thread of its own.
    thread = threading.Thread(target=_close_slowly, args=(mounts,), name="mounts")
    thread.start()
    thread.join()


def _close_slowly(descriptor: int) -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
    os.close(descriptor)


@contextlib.asynccontextmanager
async def joined(spec: DevboxSpec, get: Callable[[str], RunningDevbox]) -> AsyncIterator[list[int]]:
    """Yield a descriptor of the network shared with another devbox; none for its own or the host's."""
    if spec.network_of is None or spec.network is not Network.NONE:
        yield []
        return
    network = await get(spec.network_of).network()
    try:
        yield [network]
    finally:
        os.close(network)


async def _released(files: list[int], signs: list[int]) -> list[int]:
    """Return files once the process that opened them inside is gone; wait briefly, as it may be stopped."""
    loop = asyncio.get_running_loop()
    try:
        for sign in signs:
            gone = asyncio.Event()
            loop.add_reader(sign, gone.set)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RELEASE_SECONDS):
                    await gone.wait()
    except BaseException:
        _close(files)
        raise
    finally:
        for sign in signs:
            loop.remove_reader(sign)
            os.close(sign)
    return files


def _close(files: list[int]) -> None:
    for file in files:
        os.close(file)


def _open_for_write(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)


def _spill(request: dict[str, Any]) -> int:
    descriptor = os.memfd_create("benchyard-request", os.MFD_CLOEXEC)
    view = memoryview(json.dumps(request).encode())
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _actions(control: Control) -> list[dict[str, Any]]:
    if isinstance(control, Signal):
        return [{"do": "signal", "number": control.number}]
    if isinstance(control, Kill):
        return [{"do": "kill", "tree": control.tree}]
    if isinstance(control, Resize):
        return [{"do": "resize", "columns": control.columns, "rows": control.rows}]
    assert isinstance(control, Stdin)
    pieces = [control.data[at : at + _STDIN_CHUNK] for at in range(0, len(control.data), _STDIN_CHUNK)] or [
        b""
    ]
    actions = [{"do": "stdin", "data": base64.b64encode(piece).decode(), "close": False} for piece in pieces]
    actions[-1]["close"] = control.close
    return actions
