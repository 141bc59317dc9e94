"""The driver contract: what a way of holding devboxes on this machine owes.

A driver keeps devboxes alive without the server: `find` takes one up again after a restart.
Every command is a folder on the host's disk holding `stdout`, `stderr` and `status.json`, which stays
missing or empty until the command has ended (`read_status`); the driver writes them, everybody else
reads them. `events` are hints that something ended; the folder is the truth.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

from benchyard.devboxes.commands import (
    Command,
    Control,
    Kill,
    OpenFile,
    Resize,
    Signal,
    Status,
    Stdin,
    read_status,
)
from benchyard.devboxes.inside import Inside, Process, Watch
from benchyard.errors import ImageError, NotFound, NotSupported

__all__ = [
    "Capability",
    "Command",
    "Control",
    "DevboxEnded",
    "DevboxSpec",
    "Driver",
    "Event",
    "ExecutionEnded",
    "Inside",
    "Kill",
    "Limits",
    "Network",
    "OpenFile",
    "Process",
    "Report",
    "Resize",
    "Rootfs",
    "Shown",
    "Signal",
    "Status",
    "Stdin",
    "Storage",
    "Trees",
    "Usage",
    "Watch",
    "read_status",
]


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
    all_output_bytes: int | None = None
    """Of all executions together; None is no limit. The host keeps to it, by what it grants each of them."""


@dataclass(frozen=True)
class Rootfs:
    """The read-only layers a devbox starts from, topmost first."""

    layers: tuple[Path, ...]
    host_dirs: tuple[str, ...] = ()
    """Top-level directories of this machine below all layers (`usr`, `lib64`): the default image."""


@dataclass(frozen=True)
class Shown:
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
    limits: Limits = field(default_factory=Limits)
    hostname: str = "devbox"
    network_of: str | None = None
    """A running devbox whose network this one shares, loopback and all, unless it has the host's."""
    mounts: tuple[Shown, ...] = ()
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
    async def usage(self, devbox_id: str) -> Usage:
        """What the devbox uses now."""

    def network_refusals(self, devbox_id: str) -> int | None:
        """How often programs tried to leave a devbox that has no network; None where it is not known."""
        return None

    @abstractmethod
    def events(self) -> AsyncIterator[Event]:
        """What ended, as it ends; one reader."""
