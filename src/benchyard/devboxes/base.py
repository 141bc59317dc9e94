"""The driver contract: what a way of holding devboxes on this machine owes.

A driver keeps devboxes alive without the server: `find` takes one up again after a restart.
Every command is a folder on the host's disk holding `stdout`, `stderr` and `status.json`, which stays
missing or empty until the command has ended (`read_status`); the driver writes them, everybody else
reads them. `events` are hints that something ended; the folder is the truth.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self


class Network(StrEnum):
    """What a devbox may reach."""

    NONE = "none"
    HOST = "host"


class Capability(StrEnum):
    """What a driver, in the mode it found, can do; ask for these, never for a driver's name."""

    ISOLATION = "isolation"
    """Processes, files and network are walled off from the host."""
    USERS = "users"
    """More than one user id inside the devbox."""
    SUDO = "sudo"
    """`sudo` works inside the default image."""
    NO_NETWORK = "no_network"
    """Network can be taken away."""
    IMAGES = "images"
    """Devboxes can start from layers other than the host's own system."""
    SNAPSHOTS = "snapshots"
    """The changed layer can be copied out."""
    LIMIT_CPU = "limit_cpu"
    LIMIT_MEMORY = "limit_memory"
    LIMIT_PIDS = "limit_pids"
    LIMIT_DISK = "limit_disk"
    FREEZE = "freeze"
    PTY = "pty"


@dataclass(frozen=True)
class Limits:
    """What one devbox may use; a driver enforces those it has the capability for."""

    cpus: float = 1.0
    memory_bytes: int = 2 * 1024**3
    disk_bytes: int = 4 * 1024**3
    disk_entries: int = 1_000_000
    """Files, folders and links it may add: each takes an inode, of which a filesystem has only so many."""
    pids: int = 4096
    output_bytes: int = 256 * 1024**2
    """Per stream and execution; what comes after is read and thrown away, and marked as truncated."""


@dataclass(frozen=True)
class Rootfs:
    """The read-only layers a devbox starts from, topmost first."""

    layers: tuple[Path, ...]
    host_dirs: tuple[str, ...] = ()
    """Top-level directories of this machine below all layers (`usr`, `lib64`): the default image."""


@dataclass(frozen=True)
class DevboxSpec:
    """Everything a driver needs to start one devbox; `id` makes it idempotent."""

    id: str
    folder: Path
    """The devbox's own folder, made by the host (0700). The driver keeps its disk and sockets there."""
    rootfs: Rootfs
    network: Network = Network.NONE
    limits: Limits = field(default_factory=Limits)
    hostname: str = "devbox"

    @property
    def changes(self) -> Path:
        """The layer of what the devbox changed."""
        return self.folder / "changes"


@dataclass(frozen=True)
class Command:
    """One process to start in a devbox; `folder` exists and receives stdout, stderr and status.json."""

    id: str
    argv: tuple[str, ...]
    folder: Path
    user: str = "root"
    """A name of the devbox's own /etc/passwd, or a number."""
    cwd: str | None = None
    """None is the user's home; a missing directory fails the command with status 126."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the user's basic environment (HOME, USER, LOGNAME, SHELL, PATH, LANG, TERM)."""
    attach_stdin: bool = False
    """Else standard input is /dev/null."""
    pty: tuple[int, int] | None = None
    """Columns and rows: run on a terminal; everything it prints goes to `stdout`, input is attached."""
    timeout_seconds: float | None = None
    """After this the command and all its descendants are killed and `timed_out` is set."""
    extra_files: tuple[tuple[Path, str], ...] = ()
    """Files of the host handed over as descriptors 8, 9, ...: (path, "r" | "w")."""


@dataclass(frozen=True)
class Status:
    """How a command ended: the content of `status.json`."""

    exit_status: int
    """0 to 255; 128 + n when signal n ended it; 126 or 127 when it could not be started."""
    timed_out: bool = False
    killed: bool = False
    """True when `Kill` was asked for."""
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    ended_ms: int = 0
    error: str | None = None
    """Why it could not be started, or why it was cut short (for example out of memory)."""


def read_status(folder: Path) -> Status | None:
    """How the command of this execution folder ended; None while it runs."""
    try:
        text = (folder / "status.json").read_bytes()
    except FileNotFoundError:
        return None
    return Status(**json.loads(text)) if text else None


@dataclass(frozen=True)
class Signal:
    """Send a signal to the command's process group (or its terminal's foreground group)."""

    number: int


@dataclass(frozen=True)
class Kill:
    """Kill the command; with `tree` also every descendant, wherever it forked to."""

    tree: bool = True


@dataclass(frozen=True)
class Stdin:
    """Bytes for the command's standard input; `close` after them is end of file."""

    data: bytes = b""
    close: bool = False


@dataclass(frozen=True)
class Resize:
    """A new size for the command's terminal."""

    columns: int
    rows: int


Control = Signal | Kill | Stdin | Resize


@dataclass(frozen=True)
class OpenFile:
    """A file to open inside the devbox, as one of its users; relative paths and `~` start at its home."""

    path: str
    user: str = "root"
    write: bool = False
    """Create or truncate, making missing parent directories; else read."""
    mode: int = 0o644


@dataclass(frozen=True)
class ExecutionEnded:
    """A hint that the folder of this command has its status."""

    devbox_id: str
    execution_id: str


@dataclass(frozen=True)
class DevboxEnded:
    """The devbox's first process is gone without having been asked to."""

    devbox_id: str
    reason: str
    """`out_of_memory`, `out_of_disk` or `health_check_failed`."""
    detail: str


Event = ExecutionEnded | DevboxEnded


@dataclass(frozen=True)
class Usage:
    """What a devbox uses now; None where the driver cannot tell."""

    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    processes: int | None = None
    out_of_memory_kills: int = 0


@dataclass(frozen=True)
class Report:
    """What a driver found on this machine, for `benchyard doctor`."""

    mode: str = ""
    tried: Mapping[str, str] = field(default_factory=dict)
    """Better modes that failed: the first step that did, and its remedy."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Capabilities that are not there, and what to do about it."""


class Trees(ABC):
    """File trees of layers and disks, handled under the ids they are stored with.

    A rootless user cannot read or remove files that belong to its subordinate ids from outside; a driver
    offers these verbs from inside its id mapping.
    """

    @abstractmethod
    async def copy(self, source: Path, target: Path) -> None:
        """Copy a tree with owners, modes, times, xattrs, hard links and whiteouts to a new `target`."""

    @abstractmethod
    async def remove(self, path: Path) -> None:
        """Remove a tree; no error if it is not there."""

    @abstractmethod
    async def usage(self, path: Path) -> tuple[int, int]:
        """Bytes on disk and number of entries of a tree."""

    @abstractmethod
    async def unpack(self, archive: Path, target: Path) -> None:
        """Unpack one layer's tar (plain or compressed) with OCI whiteouts into an existing folder.

        Raises ImageError for anything that would leave `target`, and for what is not a tar.
        """

    @abstractmethod
    async def sync(self, path: Path) -> None:
        """Return once everything written to the filesystem of `path` is on disk."""


class Driver(ABC):
    """One way of holding devboxes on this machine. Use as an async context manager."""

    capabilities: frozenset[Capability] = frozenset()
    trees: Trees

    @abstractmethod
    async def __aenter__(self) -> Self:
        """Get ready; raises StartFailed with a remedy where this machine does not allow it."""

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of everything but the devboxes, which live on."""

    def report(self) -> Report:
        """What works here and what does not."""
        absent = sorted(set(Capability) - self.capabilities)
        return Report(missing={name.value: "this driver does not have it" for name in absent})

    @abstractmethod
    async def start(self, spec: DevboxSpec) -> None:
        """Start a devbox, or do nothing if it runs. `spec.changes` may exist (resume) and is then its disk.

        Raises StartFailed; a start that failed or was cancelled leaves nothing behind but the folder.
        """

    @abstractmethod
    async def find(self, spec: DevboxSpec) -> bool:
        """Take up a devbox that an earlier process started; False if it does not run."""

    @abstractmethod
    async def stop(self, devbox_id: str) -> None:
        """End every process of the devbox and unmount it; its disk stays. Idempotent."""

    @abstractmethod
    async def exec(self, devbox_id: str, command: Command) -> None:
        """Start a command; returns when it is under way. One that cannot be started ends with 126 or 127.

        Raises DevboxGone if the devbox does not run.
        """

    @abstractmethod
    async def control(self, devbox_id: str, execution_id: str, control: Control) -> bool:
        """Act on a command; False if it has ended (or never was)."""

    @abstractmethod
    async def open_file(self, devbox_id: str, request: OpenFile) -> int:
        """Open a regular file inside the devbox and return a descriptor that the caller closes.

        Raises NotFound, UsageError (a directory, a device, no permission), DevboxGone.
        """

    @abstractmethod
    async def freeze(self, devbox_id: str) -> None:
        """Stop every process where it stands. Undone by `thaw`; `stop` works on a frozen devbox."""

    @abstractmethod
    async def thaw(self, devbox_id: str) -> None:
        """Let a frozen devbox go on."""

    @abstractmethod
    async def usage(self, devbox_id: str) -> Usage:
        """What the devbox uses now."""

    @abstractmethod
    def events(self) -> AsyncIterator[Event]:
        """What ended, as it ends; one reader."""
