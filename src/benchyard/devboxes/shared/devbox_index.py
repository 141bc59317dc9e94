"""The index of the devboxes a driver holds, as links in its folder, and the lock that marks a live server.

The links are made before anything of a devbox exists and removed after all of it is gone: they lead to all
remains of a killed server.
"""

import fcntl
import os
import time
from collections.abc import Mapping
from pathlib import Path

from benchyard.devboxes.base import DevboxSpec
from benchyard.devboxes.guest import lease
from benchyard.devboxes.shared.running_devbox import TRACES, FirstProcess, dismiss
from benchyard.errors import Conflict, UsageError

DEFAULT_LEASE_SECONDS = 3600.0
_LOCK_SECONDS = 30.0


class DevboxIndex:
    """The index of one driver's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._links = folder / lease.INDEX
        self._lock: int | None = None

    def open(self) -> None:
        """Take the lock (blocks while a warden has it); raise Conflict if another server keeps it."""
        self._links.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(self._folder / lease.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + _LOCK_SECONDS
        while not self._take():
            if time.monotonic() > deadline:
                self.close()
                raise Conflict(f"another server uses {self._folder}; stop it, or choose another --data")
            time.sleep(0.01)

    def _take(self) -> bool:
        assert self._lock is not None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Release the lock: from now on a warden looks after the devboxes."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def add(self, devbox_id: str, folder: Path) -> None:
        """Note a devbox."""
        link = self._links / devbox_id
        if not link.is_symlink():
            link.symlink_to(folder)

    def drop(self, devbox_id: str) -> None:
        """Forget a devbox."""
        (self._links / devbox_id).unlink(missing_ok=True)

    def dead(self) -> dict[str, Path]:
        """Return the folders of devboxes with a first process that is gone or was never recorded."""
        links = {link.name: link.readlink() for link in self._links.iterdir()}
        notes = {name: FirstProcess.load(folder) for name, folder in links.items()}
        return {name: links[name] for name, held in notes.items() if held is None or not is_alive(held)}


def is_alive(held: FirstProcess) -> bool:
    """Tell whether the first process is still the one that was noted."""
    descriptor = held.open()
    if descriptor is None:
        return False
    os.close(descriptor)
    return True


def clear_traces(folder: Path) -> None:
    """Remove the files of a running devbox from the folder of a devbox that does not run (blocks)."""
    if folder.is_dir():
        dismiss(folder)
    for name in TRACES:
        (folder / name).unlink(missing_ok=True)


def lease_from_options(options: Mapping[str, str]) -> float:
    """Return the seconds for which a devbox waits for a server; raise UsageError."""
    given = options.get("lease", str(DEFAULT_LEASE_SECONDS))
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"a lease of {given!r} is not a number of seconds greater than zero")
    return seconds


def make_folders(spec: DevboxSpec) -> None:
    """Make the folders a start needs: the changed layer (kept), fresh work folders, a place to mount."""
    for path in (spec.changes, spec.folder / "root", spec.folder / "work"):
        path.mkdir(exist_ok=True)
        path.chmod(0o755)
    for name in ("root", *spec.rootfs.host_dirs):
        (spec.folder / "work" / name).mkdir()
