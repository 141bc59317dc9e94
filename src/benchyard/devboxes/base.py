"""The driver contract: the duties of a way of holding devboxes on this machine.

A driver keeps devboxes alive without the server: `find` reattaches to one after a restart. Every command is a
folder on the host's disk holding `stdout`, `stderr` and `status.json`, which stays missing or empty until the
command has ended (`read_status`); only the driver writes them. `events` are hints that a command or devbox
ended; the folder is the truth.
"""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchyard.errors import ImageError, NotFound, NotSupported


@dataclass(frozen=True)
class Command:
    """A process to start in a devbox; `folder` exists and receives stdout, stderr and status.json."""

    id: str
    argv: tuple[str, ...]
    folder: Path
    user: str = "root"
    """A name from the devbox's own /etc/passwd, or a number."""
    cwd: str | None = None
    """Working directory; None is the user's home. A missing directory fails the command with status 126."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the user's basic environment (HOME, USER, LOGNAME, SHELL, PATH, LANG, TERM)."""
    attach_stdin: bool = False
    """Connect standard input; else it is /dev/null."""
    pty: tuple[int, int] | None = None
    """Columns and rows: run on a terminal; all output goes to `stdout`, and input is attached."""
    timeout_seconds: float | None = None
    """After this the command and all its descendants are killed and `timed_out` is set."""
    extra_files: tuple[tuple[Path, str], ...] = ()
    """Files of the host handed over as descriptors 8, 9, ...: (path, "r" | "w")."""
    output_bytes: int | None = None
    """Most bytes kept of each stream; None takes the devbox's limit."""
    spare_bytes: int = 0
    """Free bytes to leave on the disk that holds the output: with less, the output is cut off."""
    strict: bool = False
    """Count output only up to the end of the command's own process, and kill its remaining children then.

    Not for commands on a terminal.
    """


@dataclass(frozen=True)
class Status:
    """The end of a command, as written to `status.json`."""

    exit_status: int
    """0 to 255; 128 + n when signal n ended it; 126 or 127 when it could not be started."""
    timed_out: bool = False
    killed: bool = False
    """True when `Kill` was asked for."""
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    ended_ms: int = 0
    error: str | None = None
    """The reason why it could not be started, or was cut short (for example out of memory)."""
    signal: int | None = None
    """The signal that ended it, if one did."""


_MOST_STATUS_BYTES = 64 * 1024


def read_status(folder: Path) -> Status | None:
    """Return how the command of this execution folder ended; None while it runs."""
    try:
        descriptor = os.open(f"{folder}/status.json", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        text = os.read(descriptor, _MOST_STATUS_BYTES)
    finally:
        os.close(descriptor)
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
    """Create or truncate the file, making missing parent directories; else read."""
    mode: int = 0o644
    truncate: bool = True
    """Drop the previous content of a file to write as soon as it is open."""
    fresh: bool = False
    """For a file to write: create it anew, replacing any entry of that name but a directory."""
    emptied_for: str = ""
    """For a fresh file: first create its folder anew for this user, replacing any entry of that name."""
    group_of: str = ""
    """For a fresh file: the user whose group it gets, so that its mode can tell that user from others."""


MOST_OPENED = 12
"""Most files to open by one request."""
MOST_PROCESSES = 5000
"""Most processes to list: more than a devbox may have unless a higher limit was requested."""
MOST_WATCHED = 10_000


@dataclass(frozen=True)
class DevboxProcess:
    """A process of a devbox, other than our own; its own statements are only shown, never trusted."""

    pid: int
    ppid: int
    uid: int
    user: str
    """The user's name in the devbox's own list of users; else the number."""
    command: str
    """Its command line, or its name in brackets if it shows none; 200 characters at most."""
    start_seconds_ago: float


class DevboxProcesses(list[DevboxProcess]):
    """The processes of a devbox in the order of their pids; `total` is the number of all."""

    def __init__(self, listed: Iterable[DevboxProcess] = (), total: int | None = None) -> None:
        super().__init__(listed)
        self.total = len(self) if total is None else total


@dataclass(frozen=True)
class NewFolder:
    """A folder to create in a devbox, readable by all."""

    path: str
    owner: str | None = None
    """User who owns the folder; None is root."""
    only_new: bool = False
    """Leave an existing folder as it is."""


class OpenWatch(ABC):
    """A watch on some files of a devbox."""

    unwatched: Sequence[str] = ()
    """Requested files that exist and cannot be watched."""

    @abstractmethod
    def close(self) -> list[str] | None:
        """Stop, and return the files that were opened or executed; None if that is not known."""


class Inside:
    """A driver's view into a running devbox: its processes, files, sockets and watches."""

    async def processes(self, devbox_id: str) -> DevboxProcesses:
        """Return the processes, without the driver's own: `MOST_PROCESSES` at most, and the number of all.

        A process whose first thread has ended counts as running while another thread goes on; members of a
        chain in which each process forks the next and ends are included. If not all are listed, one process
        of each command line comes first.
        """
        raise NotSupported(f"this driver cannot tell what runs in {devbox_id}; use the native driver")

    async def kill_all(self, devbox_id: str) -> None:
        """Kill every process but the driver's own."""
        raise NotSupported(f"this driver cannot end what runs in {devbox_id} only; stop the devbox")

    async def set_tracing(self, devbox_id: str, *, allowed: bool) -> None:
        """Forbid processes to trace or look into each other from now on, or allow it again.

        Works on devboxes started with `tracing_switch`, as far as the capabilities `REFUSE_TRACING` and
        `OUT_OF_REACH` say; raises DevboxError if it fails, NotSupported if the driver has neither capability.
        """
        raise NotSupported(f"this driver cannot refuse tracing in {devbox_id}; use the native driver")

    async def make_folders(self, devbox_id: str, folders: Sequence[NewFolder]) -> bool:
        """Make folders and their parents without a program of the devbox; False if not possible."""
        return False

    async def open_in_folders(
        self, devbox_id: str, folders: Sequence[NewFolder], requests: Sequence[OpenFile]
    ) -> list[int] | None:
        """Make folders as `make_folders` does, then open files to write, at once; None if not possible.

        The files are for one user, at most `MOST_OPENED`. If something fails, none stays open, some folders
        and files may have been made, and the result is None too: each by itself tells why.
        """
        return None

    async def files(
        self, devbox_id: str, folder: str, user: str, newer_than: str | None, most: int
    ) -> list[str] | None:
        """List the plain files below a folder, as relative paths, as a user sees them; `most` at most.

        Only files changed later than the file `newer_than` are listed. No program of the devbox is run;
        returns None if that is not possible.
        """
        return None

    async def listen(self, devbox_id: str, port: int = 0) -> tuple[int, int]:
        """Return a descriptor of a socket listening on the devbox's loopback, and its port.

        Served from outside, the socket is a door out of a devbox that has no network. The caller closes the
        descriptor; the devbox keeps its own open: a later request for the same port returns the same socket,
        with its waiting connections. Port 0 takes a free port. Raises Conflict if a program of the devbox has
        the port, DevboxGone.
        """
        raise NotSupported(f"this driver cannot open a door out of {devbox_id}; use the native driver")

    async def watch(self, devbox_id: str, paths: Sequence[str]) -> OpenWatch | None:
        """Watch files for being opened or executed; None if that is not possible.

        A link reports when the file it leads to is opened, or a file in the folder it leads to. If there is
        not room for all, the first ones are watched.
        """
        return None


class Network(StrEnum):
    """The network a devbox may reach."""

    NONE = "none"
    HOST = "host"


class Capability(StrEnum):
    """A feature of a driver in the mode it found; ask for these, never for a driver's name."""

    ISOLATION = "isolation"
    """Processes, files and network are walled off from the host."""
    USERS = "users"
    """More than one user id inside the devbox."""
    SUDO = "sudo"
    """`sudo` works inside the default image."""
    NO_NETWORK = "no_network"
    """The network can be taken away."""
    SHARED_NETWORK = "shared_network"
    """A devbox can share another one's network."""
    IMAGES = "images"
    """Devboxes can start from layers other than the host's own system."""
    SNAPSHOTS = "snapshots"
    """The layer of changes can be copied out."""
    HOST_VIEW = "host_view"
    """Devboxes can start from a view of the host's own system, which is the default image then."""
    LIMIT_CPU = "limit_cpu"
    LIMIT_MEMORY = "limit_memory"
    LIMIT_PIDS = "limit_pids"
    LIMIT_DISK = "limit_disk"
    FREEZE = "freeze"
    PTY = "pty"
    MOUNTS = "mounts"
    """Folders of the host can be shown in a devbox, read-only."""
    NO_TRACING = "no_tracing"
    """A devbox can be started in which no process may trace or look into another."""
    REFUSE_TRACING = "refuse_tracing"
    """Tracing can also be refused and allowed again in a running devbox: `Inside.set_tracing`."""
    OUT_OF_REACH = "out_of_reach"
    """Processes started while tracing is refused are out of reach of older ones, by any means."""


@dataclass(frozen=True)
class DevboxLimits:
    """Limits of one devbox; a driver enforces those it has the capability for."""

    cpus: float = 1.0
    memory_bytes: int = 2 * 1024**3
    disk_bytes: int = 4 * 1024**3
    disk_entries: int = 1_000_000
    """Files, folders and links the devbox may add: each takes an inode, which filesystems may run out of."""
    pids: int = 4096
    output_bytes: int = 256 * 1024**2
    """Per stream and execution; further output is read and thrown away, and marked as truncated."""
    all_output_bytes: int | None = None
    """For all executions together; None is no limit. The host enforces it by the limit of each of them."""


@dataclass(frozen=True)
class Rootfs:
    """The read-only layers a devbox starts from, topmost first."""

    layers: tuple[Path, ...]
    host_dirs: tuple[str, ...] = ()
    """Top-level directories of this machine below all layers (`usr`, `lib64`): the default image."""


@dataclass(frozen=True)
class HostFolder:
    """A folder of the host shown read-only in a devbox."""

    source: Path
    """Content that is readable for others can be read by every user of the devbox."""
    target: str
    """An absolute path inside, created if missing; no part of it may be a link.

    Below `/dev` it lies on no disk: images cannot have an entry there, and snapshots get no empty folder.
    """


@dataclass(frozen=True)
class DevboxSpec:
    """All that a driver needs to start one devbox; `id` makes starting idempotent."""

    id: str
    folder: Path
    """The devbox's own folder, made by the host (0700). The driver keeps its disk and sockets there."""
    rootfs: Rootfs
    network: Network = Network.NONE
    limits: DevboxLimits = field(default_factory=DevboxLimits)
    hostname: str = "devbox"
    network_of: str | None = None
    """A running devbox whose network this one shares, loopback included, unless it is the host's."""
    mounts: tuple[HostFolder, ...] = ()
    """Folders of the host to show; without the capability `MOUNTS`, a start with any raises NotSupported."""
    tracing: bool = True
    """Let processes trace each other; only drivers with the capability `NO_TRACING` can refuse it."""
    tracing_switch: bool = False
    """`Inside.set_tracing` will be used; without it, system calls for tracing have no extra cost."""

    @property
    def changes(self) -> Path:
        """The layer of the devbox's changes, or a folder that stands for it: see `Storage`."""
        return self.folder / "changes"


@dataclass(frozen=True)
class ExecutionEnded:
    """A hint that the folder of this command has its status."""

    devbox_id: str
    execution_id: str


@dataclass(frozen=True)
class DevboxEnded:
    """The devbox's first process ended without a request to stop."""

    devbox_id: str
    reason: str
    """`out_of_memory`, `out_of_disk` or `health_check_failed`."""
    detail: str


Event = ExecutionEnded | DevboxEnded


@dataclass(frozen=True)
class DevboxUsage:
    """Resources a devbox uses now; None where the driver cannot tell."""

    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    processes: int | None = None
    out_of_memory_kills: int = 0


@dataclass(frozen=True)
class DriverReport:
    """Findings of a driver about this machine, for `benchyard doctor`."""

    mode: str = ""
    tried: Mapping[str, str] = field(default_factory=dict)
    """Better modes that failed: the first failed step, and its remedy."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Missing capabilities, and how to get them."""


class Trees(ABC):
    """File trees of layers and disks, handled under the ids they are stored with.

    A rootless user cannot read or remove files that belong to its subordinate ids from outside; a driver
    offers these verbs from inside its id mapping.
    """

    @abstractmethod
    async def copy(self, source: Path, target: Path, *, link: bool = False) -> None:
        """Copy a tree with owners, modes, times, xattrs, hard links and whiteouts to a new `target`.

        With `link`, for trees that never change again, files are shared with the source where possible.
        """

    @abstractmethod
    async def remove(self, path: Path) -> None:
        """Remove a tree; no error if it is missing. If cancelled, the rest of the tree stays."""

    @abstractmethod
    async def usage(self, path: Path, most: int | None = None) -> tuple[int, int]:
        """Return bytes on disk and number of entries of a tree; counting stops beyond `most` bytes."""

    @abstractmethod
    async def unpack(self, archive: Path, target: Path) -> None:
        """Unpack one layer's tar (plain or compressed) with OCI whiteouts into an existing folder.

        Raises ImageError for entries that would leave `target`, and for files that are not a tar.
        """

    @abstractmethod
    async def pack(
        self, source: Path, archive: Path, names: tuple[str, ...] = (), *, plain: bool = False
    ) -> tuple[str, int]:
        """Write one layer as a tar with OCI whiteouts to a new file; return its sha256 and size.

        With `names` only these top-level entries of a system are packed, as far as they are readable. With
        `plain`, holes in files are filled: engines that save an image again need that. Raises ImageError for
        a layer that is too large.
        """

    @abstractmethod
    async def merge(self, stack: Rootfs, count: int, target: Path) -> None:
        """Merge the topmost `count` layers into a new `target` that shows the same over the other layers.

        Files are shared with the layers, which must never change. Raises ImageError for too many entries.
        """

    @abstractmethod
    async def carry(self, source: Rootfs, onto: Rootfs, paths: tuple[str, ...], target: Path) -> Path:
        """Make a new layer `target` that shows, over `onto`, these absolute paths as `source` shows them.

        Returns the path of a JSON report of the paths carried and refused.
        """

    @abstractmethod
    async def carry_work(
        self, source: Rootfs, onto: Rootfs, paths: tuple[str, ...], home: str | None, target: Path
    ) -> Path:
        """Make a new layer `target` that shows, over `onto`, the work as `source` shows it.

        The work is these absolute paths, and the visible (not hidden) part of a home. Returns the path of a
        JSON report of the paths carried and not carried.
        """

    @abstractmethod
    async def note(self, tree: Path, manifest: Path) -> bool:
        """Write a manifest of a tree that stands still; return False if it is too large to be complete."""

    @abstractmethod
    async def compare(
        self,
        noted: tuple[Path, Path],
        below: Rootfs,
        report: Path,
        aside: tuple[str, ...],
        counted: tuple[str, ...] = (),
    ) -> None:
        """Write the differences of a tree from its manifest, both in `noted`, to a new `report`, as JSON.

        `below` are the layers under it; content of the folders `aside` does not count. If not all differences
        can be listed, a second report has those outside of the folders that are `counted`.
        """

    @abstractmethod
    async def examine(self, final: Rootfs, start: Rootfs, wanted: Mapping[str, Any], report: Path) -> None:
        """Write what the first system has otherwise than the second to a new `report`; nothing is changed.

        `wanted` chooses paths, contents, or one file: see `layers/work_changes.py`.
        """

    @abstractmethod
    async def sync(self, path: Path) -> None:
        """Return once everything written to the filesystem of `path` is on disk."""


class Storage:
    """A driver's storage for devboxes outside their folders, and for images outside the store."""

    is_in_folder: bool = True
    """`DevboxSpec.changes` is the disk itself, which can be moved away from a stopped devbox."""

    @asynccontextmanager
    async def changes(self, spec: DevboxSpec) -> AsyncIterator[Path]:
        """Yield the folder of the changes of a devbox, running or stopped, for reading.

        If a driver keeps the disk elsewhere, the folder `spec.changes` stands for it, and exists as long as
        the disk.
        """
        yield spec.changes

    async def discard(self, devbox_id: str) -> None:
        """Remove the data of a stopped devbox that lies outside its folder. Idempotent."""

    async def default_image(self) -> str:
        """Return the image for devboxes that name none, for drivers without `HOST_VIEW`.

        It is an image of the store, or one to `export`. Raises ImageError if none is configured.
        """
        raise ImageError("this driver has no default image; name one when you create a devbox")

    async def export(self, name: str, target: Path) -> None:
        """Write an image of the driver's own to an archive; raise NotFound if it has none of that name."""
        raise NotFound(f"this driver has no image {name!r} for {target.name}")


class Driver(ABC):
    """A way of holding devboxes on this machine. Use as an async context manager."""

    capabilities: frozenset[Capability] = frozenset()
    pretends: bool = False
    """Devboxes are not real: a scorer then works in the devbox itself, without any walls."""
    trees: Trees
    storage: Storage = Storage()
    inside: Inside = Inside()

    @abstractmethod
    async def __aenter__(self) -> Self:
        """Get ready; raise StartFailed with a remedy if this machine does not allow it."""

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release all resources but the devboxes, which live on."""

    def report(self) -> DriverReport:
        """Return what works on this machine and what does not."""
        absent = sorted(set(Capability) - self.capabilities)
        return DriverReport(missing={name.value: "this driver does not support it" for name in absent})

    @abstractmethod
    async def start(self, spec: DevboxSpec) -> None:
        """Start a devbox, or do nothing if it runs. If `spec.changes` exists (resume), it becomes the disk.

        Raises StartFailed; a failed or cancelled start leaves nothing behind but the folder.
        """

    @abstractmethod
    async def find(self, spec: DevboxSpec) -> bool:
        """Reattach to a devbox started by an earlier server process; return False if it does not run."""

    @abstractmethod
    async def stop(self, devbox_id: str) -> None:
        """End every process of the devbox and unmount it; its disk stays. Idempotent."""

    @abstractmethod
    async def exec(self, devbox_id: str, command: Command) -> None:
        """Start a command and return once it is under way. A command that cannot start ends with 126 or 127.

        Raises DevboxGone if the devbox does not run.
        """

    @abstractmethod
    async def control(self, devbox_id: str, execution_id: str, control: Control) -> bool:
        """Act on a command; return False if it has ended (or never existed)."""

    @abstractmethod
    async def open_file(self, devbox_id: str, request: OpenFile) -> int:
        """Open a regular file inside the devbox and return a descriptor that the caller closes.

        Raises NotFound, UsageError (a directory, a device, no permission), DevboxGone.
        """

    async def open_files(self, devbox_id: str, requests: Sequence[OpenFile]) -> list[int]:
        """Open files for one user, at most `MOST_OPENED`, all of them to be written or all to be read.

        Like `open_file` for each of them; if one of them fails, none stays open.
        """
        opened: list[int] = []
        try:
            for request in requests:
                opened.append(await self.open_file(devbox_id, request))
        except BaseException:
            for descriptor in opened:
                os.close(descriptor)
            raise
        return opened

    async def connect(self, devbox_id: str, port: int) -> int:
        """Return a descriptor of a stream connected to a TCP port of the devbox's loopback.

        The caller closes it. Raises NotFound if nothing listens there, DevboxGone, and StillWaiting if a
        frozen devbox, or a program that does not accept connections, keeps it waiting too long.
        """
        raise NotSupported(
            "this driver cannot connect to ports of a devbox; use the native driver", port=port
        )

    @abstractmethod
    async def freeze(self, devbox_id: str) -> None:
        """Freeze every process. Undone by `thaw`; `stop` works on a frozen devbox."""

    @abstractmethod
    async def thaw(self, devbox_id: str) -> None:
        """Let a frozen devbox continue."""

    @abstractmethod
    async def usage(self, devbox_id: str) -> DevboxUsage:
        """Return the resources the devbox uses now."""

    def network_refusals(self, devbox_id: str) -> int | None:
        """Return how often programs tried to leave a devbox without a network; None if that is not known."""
        return None

    @abstractmethod
    def events(self) -> AsyncIterator[Event]:
        """Yield an event whenever a command or a devbox ends; for a single reader."""
