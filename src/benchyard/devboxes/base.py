"""The driver contract: what a way of holding devboxes on this machine owes.

A driver keeps devboxes alive without the server: `find` takes one up again after a restart.
Every command is a folder on the host's disk holding `stdout`, `stderr` and `status.json`, which stays
missing or empty until the command has ended (`read_status`); the driver writes them, everybody else
reads them. `events` are hints that something ended; the folder is the truth.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from benchyard.errors import ImageError, NotFound, NotSupported


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
    output_bytes: int | None = None
    """What each of its streams may say; None is what the devbox's limits grant."""
    spare_bytes: int = 0
    """How much of the disk that its output lies on is left to others: where there is less, it is cut."""
    """Files of the host handed over as descriptors 8, 9, ...: (path, "r" | "w")."""
    strict: bool = False
    """Output counts only up to the end of the command's own process; what it leaves behind is killed then.

    Not for commands on a terminal.
    """


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
    signal: int | None = None
    """The signal that ended it, if one did."""


def read_status(folder: Path) -> Status | None:
    """How the command of this execution folder ended; None while it runs."""
    try:
        with open(f"{folder}/status.json", "rb", buffering=0) as file:  # noqa: PTH123  (for every command)
            text = file.read()
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
    truncate: bool = True
    """Whether what a file that is written held before is gone as soon as it is open."""
    fresh: bool = False
    """Of a file to write: it is made anew, and what had its name is gone, unless that is a directory."""
    emptied_for: str = ""
    """Of a fresh file: its folder is made anew first, for this user; whatever had its name is gone."""
    group_of: str = ""
    """Of a fresh file: the user whose group it belongs to, so that a mode can tell that user from others."""


MOST_PROCESSES = 5000
"""More than a devbox may have unless it was asked for with more."""
MOST_WATCHED = 10_000


@dataclass(frozen=True)
class DevboxProcess:
    """A process of a devbox that is not our own; what it says of itself is only shown, never believed."""

    pid: int
    ppid: int
    uid: int
    user: str
    """What the devbox's own list of users calls it; else its number."""
    command: str
    """Its command line, or its name in brackets where it shows none; 200 characters at most."""
    start_seconds_ago: float


class DevboxProcesses(list[DevboxProcess]):
    """The processes of a devbox in the order of their pids, and how many there are in all."""

    def __init__(self, listed: Iterable[DevboxProcess] = (), total: int | None = None) -> None:
        super().__init__(listed)
        self.total = len(self) if total is None else total


@dataclass(frozen=True)
class NewFolder:
    """A folder that a devbox is to have, which all may read."""

    path: str
    owner: str | None = None
    """None is root."""
    only_new: bool = False
    """Leave one that is there as it is."""


class OpenWatch(ABC):
    """Some files of a devbox that are watched."""

    unwatched: Sequence[str] = ()
    """Of those that were asked for, what is there and cannot be watched."""

    @abstractmethod
    def close(self) -> list[str] | None:
        """Stop, and tell which of them were opened or executed; None if that is not known."""


class Inside:
    """What a driver can tell of what goes on in a devbox."""

    async def processes(self, devbox_id: str) -> DevboxProcesses:
        """What runs, without the driver's own processes: `MOST_PROCESSES` at most, and the number of all.

        One whose first thread has ended runs as long as another goes on; one of a chain in which each forks
        the next and ends is among them. Where not all are listed, one of each command line goes first.
        """
        raise NotSupported(f"this driver cannot tell what runs in {devbox_id}; use the native driver")

    async def kill_all(self, devbox_id: str) -> None:
        """Kill every process but the driver's own."""
        raise NotSupported(f"this driver cannot end what runs in {devbox_id} only; stop the devbox")

    async def set_tracing(self, devbox_id: str, *, allowed: bool) -> None:
        """Refuse from now on that processes trace or look into each other, or allow it again.

        Of a devbox that was started with `tracing_switch`, as far as the capabilities `REFUSE_TRACING` and
        `OUT_OF_REACH` say; raises DevboxError where it cannot be, NotSupported by drivers with neither.
        """
        raise NotSupported(f"this driver cannot refuse tracing in {devbox_id}; use the native driver")

    async def make_folders(self, devbox_id: str, folders: Sequence[NewFolder]) -> bool:
        """Make folders, and those above them, by no program of the devbox; False where that cannot be."""
        return False

    async def files(
        self, devbox_id: str, folder: str, user: str, newer_than: str | None, most: int
    ) -> list[str] | None:
        """The paths of plain files below a folder, from there on, as a user sees them; so many at most.

        Only those that were changed later than the file `newer_than`. No program of the devbox is run; None
        where that cannot be.
        """
        return None

    async def listen(self, devbox_id: str, port: int = 0) -> tuple[int, int]:
        """A descriptor of a socket that listens on the devbox's loopback, and its port; the caller closes it.

        Served from outside, it is a door out of a devbox that has no network. The devbox keeps the socket
        open: asked again for a port that it already listens on for us, it gives the same one, with whoever
        waits there. Port 0 takes a free one. Raises Conflict if a program of the devbox has the port,
        DevboxGone.
        """
        raise NotSupported(f"this driver cannot open a door out of {devbox_id}; use the native driver")

    async def watch(self, devbox_id: str, paths: Sequence[str]) -> OpenWatch | None:
        """Watch files for being opened or executed; None where that cannot be.

        A link tells when the file it leads to is opened, or something in the folder that it leads to. Where
        there is no room for all, those that come first are watched.
        """
        return None


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
    SHARED_NETWORK = "shared_network"
    """A devbox can share another one's network."""
    IMAGES = "images"
    """Devboxes can start from layers other than the host's own system."""
    SNAPSHOTS = "snapshots"
    """The changed layer can be copied out."""
    HOST_VIEW = "host_view"
    """Devboxes can start from a view of the host's own system, which is the default image then."""
    LIMIT_CPU = "limit_cpu"
    LIMIT_MEMORY = "limit_memory"
    LIMIT_PIDS = "limit_pids"
    LIMIT_DISK = "limit_disk"
    FREEZE = "freeze"
    PTY = "pty"
    MOUNTS = "mounts"
    """Folders of the host can be shown in a devbox, to be read only."""
    NO_TRACING = "no_tracing"
    """A devbox can be started in which no process may trace or look into another one."""
    REFUSE_TRACING = "refuse_tracing"
    """The same can be had of a devbox that runs, and be undone: `Inside.set_tracing`."""
    OUT_OF_REACH = "out_of_reach"
    """What is started while that holds cannot be traced or looked into by what ran before, by any means."""


@dataclass(frozen=True)
class DevboxLimits:
    """What one devbox may use; a driver enforces those it has the capability for."""

    cpus: float = 1.0
    memory_bytes: int = 2 * 1024**3
    disk_bytes: int = 4 * 1024**3
    disk_entries: int = 1_000_000
    """Files, folders and links it may add: each takes an inode, of which a filesystem has only so many."""
    pids: int = 4096
    output_bytes: int = 256 * 1024**2
    """Per stream and execution; what comes after is read and thrown away, and marked as truncated."""
    all_output_bytes: int | None = None
    """Of all executions together; None is no limit. The host keeps to it, by what it grants each of them."""


@dataclass(frozen=True)
class Rootfs:
    """The read-only layers a devbox starts from, topmost first."""

    layers: tuple[Path, ...]
    host_dirs: tuple[str, ...] = ()
    """Top-level directories of this machine below all layers (`usr`, `lib64`): the default image."""


@dataclass(frozen=True)
class HostFolder:
    """A folder of the host that a devbox sees, and cannot change."""

    source: Path
    """What others may read of it can be read by every user of the devbox."""
    target: str
    """An absolute path inside, made where it is missing; what it has on the way must not be a link.

    Below `/dev` it is on nobody's disk: no image can have anything there, and no snapshot an empty folder.
    """


@dataclass(frozen=True)
class DevboxSpec:
    """Everything a driver needs to start one devbox; `id` makes it idempotent."""

    id: str
    folder: Path
    """The devbox's own folder, made by the host (0700). The driver keeps its disk and sockets there."""
    rootfs: Rootfs
    network: Network = Network.NONE
    limits: DevboxLimits = field(default_factory=DevboxLimits)
    hostname: str = "devbox"
    network_of: str | None = None
    """A running devbox whose network this one shares, loopback and all, unless it has the host's."""
    mounts: tuple[HostFolder, ...] = ()
    """Folders of the host to read; without the capability `MOUNTS` a start with any raises NotSupported."""
    tracing: bool = True
    """Whether a process may trace another; refused by drivers with the capability `NO_TRACING` only."""
    tracing_switch: bool = False
    """Whether `Inside.set_tracing` will be asked for; without it, calls for tracing cost nothing more."""

    @property
    def changes(self) -> Path:
        """The layer of what the devbox changed, or a folder that stands for it: see `Storage`."""
        return self.folder / "changes"


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
class DevboxUsage:
    """What a devbox uses now; None where the driver cannot tell."""

    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    processes: int | None = None
    out_of_memory_kills: int = 0


@dataclass(frozen=True)
class DriverReport:
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
    async def copy(self, source: Path, target: Path, *, link: bool = False) -> None:
        """Copy a tree with owners, modes, times, xattrs, hard links and whiteouts to a new `target`.

        With `link`, for trees that never change again, files are shared with the source where possible.
        """

    @abstractmethod
    async def remove(self, path: Path) -> None:
        """Remove a tree; no error if it is not there. Cancelled, it leaves what it had not come to."""

    @abstractmethod
    async def usage(self, path: Path, most: int | None = None) -> tuple[int, int]:
        """Bytes on disk and number of entries of a tree."""

    @abstractmethod
    async def unpack(self, archive: Path, target: Path) -> None:
        """Unpack one layer's tar (plain or compressed) with OCI whiteouts into an existing folder.

        Raises ImageError for anything that would leave `target`, and for what is not a tar.
        """

    @abstractmethod
    async def pack(
        self, source: Path, archive: Path, names: tuple[str, ...] = (), *, plain: bool = False
    ) -> tuple[str, int]:
        """Write one layer as a tar with OCI whiteouts to a new file; returns its sha256 and size.

        With `names` only these top-level entries of a system are packed, as far as they may be read. With
        `plain`, holes in files are filled: engines that save an image again need that. Raises ImageError for
        a layer that is too large.
        """

    @abstractmethod
    async def merge(self, stack: Rootfs, count: int, target: Path) -> None:
        """Make a new `target` of the topmost `count` layers that shows, over the rest, what they show.

        Files are shared with the layers, which must never change. Raises ImageError for too many of them.
        """

    @abstractmethod
    async def carry(self, source: Rootfs, onto: Rootfs, paths: tuple[str, ...], target: Path) -> Path:
        """Make a new layer `target` that shows, over `onto`, these absolute paths as `source` shows them.

        Returns where it wrote, as JSON, what was carried and what was refused.
        """

    @abstractmethod
    async def carry_work(
        self, source: Rootfs, onto: Rootfs, paths: tuple[str, ...], home: str | None, target: Path
    ) -> Path:
        """Make a new layer `target` that shows, over `onto`, the work as `source` shows it.

        The work is these absolute paths, and what is visible of a home. Returns where it wrote, as JSON, what
        was carried and what was not.
        """

    @abstractmethod
    async def note(self, tree: Path, manifest: Path) -> bool:
        """Write down what a tree that stands still holds; False if that is too much to be whole."""

    @abstractmethod
    async def compare(
        self,
        noted: tuple[Path, Path],
        below: Rootfs,
        report: Path,
        aside: tuple[str, ...],
        counted: tuple[str, ...] = (),
    ) -> None:
        """Write what is different in a tree since its manifest, both `noted`, to a new `report`, as JSON.

        `below` is what lies under it; what is in the folders `aside` does not count.
        """

    @abstractmethod
    async def sync(self, path: Path) -> None:
        """Return once everything written to the filesystem of `path` is on disk."""


class Storage:
    """What a driver keeps of devboxes outside their folders, and of images outside the store."""

    is_in_folder: bool = True
    """Whether `DevboxSpec.changes` is the disk itself, which can be moved away from a stopped devbox."""

    @asynccontextmanager
    async def changes(self, spec: DevboxSpec) -> AsyncIterator[Path]:
        """The folder of what a devbox, running or stopped, has changed: to be read, as long as this is open.

        A driver that keeps the disk elsewhere has `spec.changes` stand for it: a folder that is there as long
        as the disk is.
        """
        yield spec.changes

    async def discard(self, devbox_id: str) -> None:
        """Take away what is kept of a stopped devbox outside its folder. Idempotent."""

    async def default_image(self) -> str:
        """What devboxes that name no image start from, for drivers without `HOST_VIEW`.

        An image of the store, or one to `export`. Raises ImageError where nothing says which it is.
        """
        raise ImageError("this driver has no default image; name one when you create a devbox")

    async def export(self, name: str, target: Path) -> None:
        """Write an image that the driver has by itself to an archive; raises NotFound if it has none."""
        raise NotFound(f"this driver has no image {name!r} for {target.name}")


class Driver(ABC):
    """One way of holding devboxes on this machine. Use as an async context manager."""

    capabilities: frozenset[Capability] = frozenset()
    pretends: bool = False
    """Whether nothing is real: then what is done in a devbox is scored in it, without any walls."""
    trees: Trees
    storage: Storage = Storage()
    inside: Inside = Inside()

    @abstractmethod
    async def __aenter__(self) -> Self:
        """Get ready; raises StartFailed with a remedy where this machine does not allow it."""

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of everything but the devboxes, which live on."""

    def report(self) -> DriverReport:
        """What works here and what does not."""
        absent = sorted(set(Capability) - self.capabilities)
        return DriverReport(missing={name.value: "this driver does not have it" for name in absent})

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

    async def connect(self, devbox_id: str, port: int) -> int:
        """A descriptor of a stream connected to a TCP port of the devbox's loopback; the caller closes it.

        Raises NotFound if nothing listens there, DevboxGone, and StillWaiting when a devbox that stands
        still, or a program that accepts nobody, lets it through in no reasonable time.
        """
        raise NotSupported(
            "this driver cannot connect to ports of a devbox; use the native driver", port=port
        )

    @abstractmethod
    async def freeze(self, devbox_id: str) -> None:
        """Stop every process where it stands. Undone by `thaw`; `stop` works on a frozen devbox."""

    @abstractmethod
    async def thaw(self, devbox_id: str) -> None:
        """Let a frozen devbox go on."""

    @abstractmethod
    async def usage(self, devbox_id: str) -> DevboxUsage:
        """What the devbox uses now."""

    def network_refusals(self, devbox_id: str) -> int | None:
        """How often programs tried to leave a devbox that has no network; None where it is not known."""
        return None

    @abstractmethod
    def events(self) -> AsyncIterator[Event]:
        """What ended, as it ends; one reader."""
