"""The executions of one devbox, each a folder on disk; and hints about failed ones."""

import asyncio
import errno
import json
import logging
import os
import re
import shlex
import shutil
import signal
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchyard.devboxes.base import DevboxLimits, Network, Status, read_status
from benchyard.errors import StoreError, UsageError
from benchyard.hosts import output
from benchyard.hosts.output import size, tree_bytes
from benchyard.hosts.requests import ExecRequest, ExecutionState
from benchyard.hosts.shells import Capture
from benchyard.hosts.state import check_name
from benchyard.store.vault import Vault

_LOOKED_AT_BYTES = 4096
_NEEDED_NETWORK = re.compile(
    rb"could not resolve|name resolution|name or service not known|network is unreachable|unknown host"
    rb"|nodename nor servname|getaddrinfo|enotfound|eai_again|failed to resolve|no such host"
    rb"|temporary failure resolving|could not connect to server|no route to host",
    re.IGNORECASE,
)
_NEEDED_DISK = re.compile(
    rb"no space left on device|disk quota exceeded|file too large|file size limit exceeded", re.IGNORECASE
)
_OUTPUT = "output was "
_STOPPED_AT_FILE_LIMIT = 128 + signal.SIGXFSZ

OUT_OF_MEMORY = "A process was killed because the devbox ran out of memory: create it with a larger size."
OUT_OF_DISK = "The devbox's disk is full, or a file became as large as it: create it with a larger size."
NO_NETWORK = (
    "The command seems to have needed the network, and this devbox has none: create it with the metadata "
    "`benchyard.network=host`, or start the server with `benchyard serve --devbox-network host`."
)
REACHED_OUT = (
    "A program in this devbox looked a name up or called an address outside, and this devbox has no network: "
    "what it was to fetch is missing, whatever its exit status. Create the devbox with a network policy or "
    "with the metadata `benchyard.network=host`, or start the server with "
    "`benchyard serve --devbox-network host`."
)


def hint_from_status(status: Status, output_bytes: int) -> str | None:
    """Return a hint from the status alone, for a command with this limit of output."""
    if status.timed_out:
        return "The command ran into its time limit; it and everything it had started was killed."
    if status.error and status.error.startswith(_OUTPUT):
        return f"The command was not stopped, but its {status.error}."
    if status.error:
        return f"The command was cut short: {status.error}."
    if status.stdout_truncated or status.stderr_truncated:
        return f"The output was cut after {output_bytes} bytes; send it to a file and download that."
    return None


def hint_from_output(status: Status, network: Network, folder: Path) -> str | None:
    """Return a hint from the end of the output of a command that failed."""
    if status.exit_status == 0 or status.killed:
        return None
    ends = [_end(folder / name) for name in ("stderr", "stdout")]
    if status.exit_status == _STOPPED_AT_FILE_LIMIT or any(_NEEDED_DISK.search(end) for end in ends):
        return OUT_OF_DISK
    if network is Network.NONE and any(_NEEDED_NETWORK.search(end) for end in ends):
        return NO_NETWORK
    return None


def _end(path: Path) -> bytes:
    length = size(path)
    if not length:
        return b""
    with path.open("rb") as file:
        file.seek(max(0, length - _LOOKED_AT_BYTES))
        return file.read(_LOOKED_AT_BYTES)


_logger = logging.getLogger(__name__)

_REMEMBERED = 256
"""Number of completed executions kept in memory; the others are read from their folders again."""


def now_ms() -> int:
    """Return milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def command_line(request: ExecRequest) -> str:
    """Return the command as a line of text."""
    return request.command if request.argv is None else shlex.join(request.argv)


@dataclass
class HostExecution:
    """An execution on this host."""

    folder: Path
    request: ExecRequest
    created_ns: int
    is_started: bool = False
    status: Status | None = None
    hint: str | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)
    capture: Capture | None = None
    output_bytes: int | None = None
    """Limit of each stream, if known: for one from an earlier server it is not."""
    final_bytes: tuple[int, int] | None = None
    """Bytes of both streams, once no more can come."""

    def stream_bytes(self) -> tuple[int, int]:
        """Return the bytes of its standard output, and of its standard error."""
        if self.final_bytes is not None:
            return self.final_bytes
        return output.size(f"{self.folder}/stdout"), output.size(f"{self.folder}/stderr")

    @property
    def kept_bytes(self) -> int:
        """Return the bytes of its output."""
        return sum(self.stream_bytes())

    def state(self, devbox_id: str, limits: DevboxLimits) -> ExecutionState:
        """Return the state reported to the server."""
        status = self.status
        state = "completed" if status else "running" if self.is_started else "queued"
        stdout_bytes, stderr_bytes = self.stream_bytes()
        hint = self.hint
        if status and not hint:
            granted = self.output_bytes
            if granted is None:
                granted = max(stdout_bytes, stderr_bytes) or limits.output_bytes
            hint = hint_from_status(status, granted)
        return ExecutionState(
            id=self.request.id,
            devbox_id=devbox_id,
            command=command_line(self.request),
            status=state,
            shell_name=self.request.shell_name,
            exit_status=status.exit_status if status else None,
            start_ms=self.created_ns // 1_000_000,
            end_ms=status.ended_ms if status else None,
            stdout_bytes=stdout_bytes,
            stderr_bytes=stderr_bytes,
            stdout_truncated=bool(status and status.stdout_truncated),
            stderr_truncated=bool(status and status.stderr_truncated),
            hint=hint,
            signal=status.signal if status else None,
            timed_out=bool(status and status.timed_out),
        )


class HostExecutions:
    """All executions of one devbox; the variables of each are sealed."""

    def __init__(self, folder: Path, vault: Vault) -> None:
        self._folder = folder
        self._vault = vault
        self.active: dict[str, HostExecution] = {}
        self._recent: OrderedDict[str, HostExecution] = OrderedDict()
        self._ended_bytes: int | None = None
        """Bytes of the output of all ended executions; None until first needed."""

    def used_bytes(self) -> int:
        """Return the output bytes of ended executions, plus the most that running ones may add."""
        if self._ended_bytes is None:
            active = sum(each.kept_bytes for each in self.active.values())
            self._ended_bytes = tree_bytes(self._folder) - active
        running = [each for each in self.active.values() if each.is_started]
        return self._ended_bytes + sum(2 * (each.output_bytes or 0) for each in running)

    def add(self, request: ExecRequest) -> tuple[HostExecution, bool]:
        """Return the execution of that id, and True if new; raise UsageError if the id is of another."""
        folder = self._folder / check_name(request.id)
        known = self.active.get(request.id) or self._recent.get(request.id)
        if known is None and not _make(folder):
            known = _load(folder, self._vault)
        if known is not None:
            if known.request.request_hash != request.request_hash:
                raise UsageError(
                    f"execution {request.id} was started by another request; use a new id for a new command"
                )
            return known, False
        execution = HostExecution(folder, request, time.time_ns())
        env = self._vault.seal_variables(request.env)
        noted = {**vars(request), "env": env, "created_ns": execution.created_ns}
        try:
            _write(f"{folder}/request.json", json.dumps(noted))
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self.active[request.id] = execution
        return execution, True

    def find(self, execution_id: str) -> HostExecution | None:
        """Return the execution of that id, from memory or from disk."""
        known = self.active.get(execution_id) or self._recent.get(execution_id)
        return known or _load(self._folder / check_name(execution_id), self._vault)

    async def all(self) -> list[HostExecution]:
        """Return every execution, oldest first."""
        known = {**self._recent, **self.active}
        found = await asyncio.to_thread(_load_all, self._folder, known, self._vault)
        return sorted(found, key=lambda one: one.created_ns)

    def unfinished(self) -> list[HostExecution]:
        """Return executions on disk without a status, oldest first; blocks, but reads no others' requests."""
        folders = self._folder.iterdir() if self._folder.is_dir() else ()
        found = [_load(folder, self._vault) for folder in folders if read_status(folder) is None]
        return sorted((one for one in found if one), key=lambda one: one.created_ns)

    def begin(self, execution: HostExecution) -> None:
        """Mark it as started; after a restart, the output files made by the driver show that."""
        execution.is_started = True

    def finish(self, execution: HostExecution, status: Status, hint: str | None = None) -> None:
        """Note how it ended, and wake everything that waits for it."""
        if hint:
            _try_to_write(execution.folder / "hint", hint)
        execution.status = status
        execution.hint = hint
        execution.final_bytes = execution.stream_bytes()
        execution.done.set()
        if self._ended_bytes is not None:
            self._ended_bytes += execution.kept_bytes
        self.active.pop(execution.request.id, None)
        self._recent[execution.request.id] = execution
        while len(self._recent) > _REMEMBERED:
            self._recent.popitem(last=False)

    def cut_short(self, execution: HostExecution, status: Status) -> None:
        """Write a status for an execution that cannot get one any more, unless it has one after all."""
        found = read_status(execution.folder)
        if found is None:
            found = status
            # An attempt only: without space for it, the next server comes to the same end.
            _try_to_write(execution.folder / "status.json", json.dumps(asdict(status)))
        if execution.capture is not None:
            execution.capture.close()
        self.finish(execution, found)

    def discard(self, execution: HostExecution) -> None:
        """Undo `add` for an execution that could not be handed over."""
        self.active.pop(execution.request.id, None)
        shutil.rmtree(execution.folder, ignore_errors=True)

    def take_up(self, execution: HostExecution) -> None:
        """Track an unfinished execution found on disk."""
        self.active[execution.request.id] = execution


def _try_to_write(path: Path, text: str) -> None:
    """Write a file whose failure must not keep an execution from ending; in place, into reserved space."""
    try:
        _write(os.fspath(path), text)
    except OSError as error:
        _logger.warning("%s could not be written: %s", path, error)


def _write(path: str, text: str) -> None:
    """Write a small file in place, into reserved space."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        data = text.encode()
        written = os.write(descriptor, data)
        if written < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)


def _load_all(folder: Path, known: Mapping[str, HostExecution], vault: Vault) -> list[HostExecution]:
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    found = [known.get(name) or _load(folder / name, vault) for name in names]
    return [execution for execution in found if execution]


def _make(folder: Path) -> bool:
    """Make a folder; return False if it exists."""
    path = str(folder)
    try:
        os.mkdir(path, 0o700)  # noqa: PTH102  (done for every command)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        os.mkdir(path, 0o700)  # noqa: PTH102
    except FileExistsError:
        return False
    return True


def _load(folder: Path, vault: Vault) -> HostExecution | None:
    try:
        noted: dict[str, Any] = json.loads((folder / "request.json").read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        # The server was killed while writing it: the execution was never reported to a caller.
        return None
    created_ns = noted.pop("created_ns")
    for name in ("pty", "argv"):
        if noted.get(name):
            noted[name] = tuple(noted[name])
    status = read_status(folder)
    # An ended execution needs none any more.
    noted["env"] = {} if status else _variables(folder, noted["env"], vault)
    execution = HostExecution(folder, ExecRequest(**noted), created_ns)
    execution.is_started = (folder / "stdout").exists()
    execution.status = status
    hint = folder / "hint"
    execution.hint = hint.read_text() if hint.exists() else None
    if execution.status:
        execution.done.set()
    return execution


def _variables(folder: Path, sealed: str | dict[str, str], vault: Vault) -> dict[str, str]:
    try:
        return vault.open_variables(sealed)
    except StoreError as error:
        _logger.error("execution %s goes on without its variables: %s", folder.name, error.message)
        return {}
