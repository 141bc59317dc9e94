"""The host: one machine that holds devboxes. The server touches a devbox only through this class."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from benchyard.devboxes.base import Control, Driver, Event, Limits, Network, Usage
from benchyard.images.store import ImageStore


@dataclass(frozen=True)
class StartRequest:
    """A devbox to find or start, as the server asks for it; kept on disk as `request.json` (the host's journal)."""

    id: str
    image: str
    """An image id or name of the image store; a snapshot is an image too (its id is the snapshot's)."""
    network: Network = Network.NONE
    limits: Limits = field(default_factory=Limits)
    user: str = "user"
    """Who runs commands unless a request says otherwise."""
    uid: int | None = None
    """When given, that user is made inside the devbox if it is not there."""
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ExecRequest:
    """A command to run in a devbox: a login shell's `-c`, from the user's home, unless a shell is named."""

    id: str
    command: str
    shell_name: str | None = None
    attach_stdin: bool = False
    user: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    pty: tuple[int, int] | None = None
    """Columns and rows: an interactive login shell when `command` is empty."""
    timeout_seconds: float | None = None
    request_hash: str | None = None
    """What identifies the caller's request; the same id with another hash is refused."""


@dataclass(frozen=True)
class ExecutionState:
    """One execution, read from its folder."""

    id: str
    devbox_id: str
    command: str
    status: str
    """`queued` (behind others in a named shell), `running` or `completed`."""
    shell_name: str | None = None
    exit_status: int | None = None
    start_ms: int = 0
    end_ms: int | None = None
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    hint: str | None = None
    """What to do about it, when that can be told: out of memory, no network, output cut, timed out."""


class Host:
    """Drivers, image store and execution files of one machine. Use as an async context manager."""

    def __init__(self, folder: Path, driver: Driver, images: ImageStore) -> None: ...

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def start(self, request: StartRequest) -> None:
        """Find or start a devbox; idempotent by id. Also resumes one that was stopped with its disk kept."""

    async def stop(self, devbox_id: str, *, keep_disk: bool) -> None:
        """End every process; without `keep_disk` the disk goes too (execution files stay). Idempotent."""

    async def forget(self, devbox_id: str) -> None:
        """Remove everything that is left of a stopped devbox, its execution files too."""

    def running(self) -> set[str]:
        """The ids of devboxes that run here now (after a restart: those found again)."""

    async def exec(self, devbox_id: str, request: ExecRequest) -> ExecutionState:
        """Start a command (or queue it in its named shell); the same id again returns what there is."""

    async def execution(self, devbox_id: str, execution_id: str) -> ExecutionState:
        """Look one up; raises NotFound."""

    async def executions(self, devbox_id: str) -> list[ExecutionState]:
        """All executions of a devbox, oldest first."""

    async def wait(self, devbox_id: str, execution_id: str, timeout: float) -> ExecutionState:
        """Wait until it has completed or the time is over; returns the state then."""

    async def control(self, devbox_id: str, execution_id: str, control: Control) -> bool:
        """Send input, a signal or a size to a running command; False if it has ended."""

    def output(
        self, devbox_id: str, execution_id: str, stream: str, offset: int = 0, *, follow: bool = True
    ) -> AsyncIterator[bytes]:
        """Raw bytes of `stdout` or `stderr` from a byte offset; with `follow` until the execution has completed."""

    async def tail(self, devbox_id: str, execution_id: str, stream: str, lines: int) -> tuple[str, bool]:
        """The last lines as text (invalid bytes as U+FFFD), and whether anything was left out."""

    async def open_read(self, devbox_id: str, path: str, user: str | None = None) -> int:
        """A descriptor to read a file of the devbox; the caller closes it."""

    async def open_write(self, devbox_id: str, path: str, user: str | None = None, mode: int = 0o644) -> int:
        """A descriptor to write a file of the devbox, truncated; the caller closes it."""

    async def snapshot(self, devbox_id: str, snapshot_id: str) -> int:
        """Keep the devbox's disk as an image of that id; returns its size in bytes once it is synced to disk."""

    async def usage(self, devbox_id: str) -> Usage:
        """What the devbox uses now."""

    def events(self) -> AsyncIterator[Event]:
        """What ended on this machine, as it ends; one reader."""
