"""What runs in a devbox, seen and ended from outside it, and doors out of it: part of the driver contract."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchyard.errors import NotSupported

MOST_PROCESSES = 5000
"""More than a devbox may have unless it was asked for with more."""
MOST_WATCHED = 10_000


@dataclass(frozen=True)
class Process:
    """A process of a devbox that is not our own; what it says of itself is only shown, never believed."""

    pid: int
    ppid: int
    uid: int
    user: str
    """What the devbox's own list of users calls it; else its number."""
    command: str
    """Its command line, or its name in brackets where it shows none; 200 characters at most."""
    start_seconds_ago: float


class Processes(list[Process]):
    """The processes of a devbox in the order of their pids, and how many there are in all."""

    def __init__(self, listed: Iterable[Process] = (), total: int | None = None) -> None:
        super().__init__(listed)
        self.total = len(self) if total is None else total


@dataclass(frozen=True)
class Folder:
    """A folder that a devbox is to have, which all may read."""

    path: str
    owner: str | None = None
    """None is root."""
    only_new: bool = False
    """Leave one that is there as it is."""


class Watch(ABC):
    """Some files of a devbox that are watched."""

    unwatched: Sequence[str] = ()
    """Of those that were asked for, what is there and cannot be watched."""

    @abstractmethod
    def close(self) -> list[str] | None:
        """Stop, and tell which of them were opened or executed; None if that is not known."""


class Inside:
    """What a driver can tell of what goes on in a devbox."""

    async def processes(self, devbox_id: str) -> Processes:
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

    async def make_folders(self, devbox_id: str, folders: Sequence[Folder]) -> bool:
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

    async def watch(self, devbox_id: str, paths: Sequence[str]) -> Watch | None:
        """Watch files for being opened or executed; None where that cannot be.

        A link tells when the file it leads to is opened, or something in the folder that it leads to. Where
        there is no room for all, those that come first are watched.
        """
        return None
