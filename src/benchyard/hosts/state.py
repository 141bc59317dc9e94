"""The host's state on disk: the devboxes it holds, and the soundness of stopped ones' disks."""

import contextlib
import json
import logging
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from benchyard.devboxes.base import DevboxLimits, HostFolder, Network
from benchyard.devboxes.guest import processes
from benchyard.errors import StoreError, UsageError
from benchyard.hosts.output import tree_bytes
from benchyard.hosts.requests import StartRequest
from benchyard.hosts.shells import seal_states
from benchyard.store.vault import Vault

_logger = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}")
_KEPT_WITHOUT_DISK = frozenset({"request.json", "executions"})
_PAGE_BYTES = 4096
_ENCODER = json.JSONEncoder(default=os.fspath)


def check_name(name: str) -> str:
    """Return an id that is safe as the name of a folder; raise UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name[:200]!r} cannot be an id: use up to 128 letters, digits, '_', '-' and '.', no '.' first"
        )
    return name


def _write_atomically(path: str, data: bytes) -> None:
    """Write a small file so that no reader sees half of it, even if the writer is killed."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if max(size, len(data)) <= _PAGE_BYTES:
            # One page is written at once, over the old content: a new file would cost the disk more.
            os.write(descriptor, data.ljust(size))
            return
    finally:
        os.close(descriptor)
    part = Path(f"{path}.part")
    part.write_bytes(data)
    part.rename(path)


def disk_paths(folder: str | Path) -> list[Path]:
    """Return all entries in the folder of a devbox that are not records of its past."""
    try:
        names = os.listdir(folder)  # noqa: PTH208  (names, of which hardly any becomes a path)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [Path(folder, name) for name in names if name not in _KEPT_WITHOUT_DISK]


@dataclass(frozen=True)
class DevboxEntry:
    """A devbox this host was asked to hold."""

    request: StartRequest
    image_id: str
    should_run: bool


class HostState:
    """Folders of devboxes, each with the request it was started by; its variables are sealed."""

    def __init__(self, folder: Path, vault: Vault) -> None:
        self._folder = folder
        self._vault = vault

    @property
    def root(self) -> Path:
        """Return the parent of all devboxes' folders."""
        return self._folder

    def open(self) -> None:
        """Make the folder, closed to other users, and clear remains of forgotten devboxes."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in self._folder.iterdir():
            # Fails for folders that are not empty, which is all but a few.
            with contextlib.suppress(OSError):
                folder.rmdir()
            if (shells := folder / "shells").is_dir():
                # An earlier version left the states of shells in plain text.
                if (folder / "changes").exists():
                    seal_states(shells, self._vault)
                else:
                    shutil.rmtree(shells, ignore_errors=True)

    def folder(self, devbox_id: str) -> Path:
        """Return the folder of a devbox."""
        return self._folder / check_name(devbox_id)

    def _path(self, devbox_id: str) -> str:
        """Return the folder as text, which is made for every devbox several times."""
        return f"{self._folder}/{check_name(devbox_id)}"

    def write(self, entry: DevboxEntry) -> None:
        """Note a devbox, and whether it should run."""
        folder = self._path(entry.request.id)
        # Its variables may be secrets: an ended or resting devbox needs none until it is started anew.
        env = self._vault.seal_variables(entry.request.env if entry.should_run else {})
        # Not `asdict`, which copies everything below too.
        request = {**vars(entry.request), "limits": vars(entry.request.limits), "env": env}
        request["mounts"] = [vars(mount) for mount in entry.request.mounts]
        noted = _ENCODER.encode({**vars(entry), "request": request}).encode()
        try:
            _write_atomically(f"{folder}/request.json", noted)
        except FileNotFoundError:
            os.mkdir(folder, 0o700)  # noqa: PTH102  (done for every devbox)
            _write_atomically(f"{folder}/request.json", noted)

    def read(self, devbox_id: str) -> DevboxEntry | None:
        """Return the entry of a devbox; None if there is none."""
        try:
            found = json.loads((self.folder(devbox_id) / "request.json").read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            # A power cut can leave a file empty; its devbox ended with the machine.
            _logger.warning("the note of devbox %s cannot be read, it counts as ended", devbox_id)
            return None
        request = dict(found["request"])
        try:
            request["env"] = self._vault.open_variables(request["env"])
        except StoreError as error:
            # The devbox lives, and its files can still be fetched.
            _logger.error("devbox %s goes on without its variables: %s", devbox_id, error.message)
            request["env"] = {}
        request["network"] = Network(request["network"])
        request["limits"] = DevboxLimits(**request["limits"])
        shown = request.get("mounts", ())
        request["mounts"] = tuple(HostFolder(Path(each["source"]), each["target"]) for each in shown)
        return DevboxEntry(StartRequest(**request), found["image_id"], found["should_run"])

    def disk(self, devbox_id: str) -> list[Path]:
        """Return all entries in a devbox's folder that are not records of its past."""
        return disk_paths(self._path(devbox_id))

    def has_changes(self, devbox_id: str) -> bool:
        """Tell whether a devbox has changed files here."""
        return os.path.exists(f"{self._path(devbox_id)}/changes")  # noqa: PTH110  (done for every devbox)

    def with_disk(self) -> set[str]:
        """Return the devboxes that have a disk here."""
        return {folder.name for folder in self._folder.iterdir() if (folder / "changes").exists()}

    def names(self, prefix: str) -> list[str]:
        """Return the devboxes with this prefix that have any files here."""
        return sorted(folder.name for folder in self._folder.glob(f"{check_name(prefix)}*"))

    def ended_before(self, seconds: float) -> set[str]:
        """Return the devboxes without a disk that were last recorded before that time."""
        notes = ((folder.name, folder / "request.json") for folder in self._folder.iterdir())
        old = {name for name, note in notes if note.exists() and note.stat().st_mtime < seconds}
        return old - self.with_disk()

    def ended_in_order(self) -> list[str]:
        """Return the devboxes without a disk, the ones recorded longest ago first."""
        ended = self.ended_before(float("inf"))
        notes = {name: self._folder / name / "request.json" for name in ended}
        return sorted(ended, key=lambda name: notes[name].stat().st_mtime)

    def output_sizes(self) -> dict[str, int]:
        """Return the bytes of the outputs of each devbox; blocks."""
        return {folder.name: tree_bytes(folder / "executions") for folder in self._folder.iterdir()}

    def clear_unnoted(self, devbox_id: str) -> None:
        """Remove the folder of a devbox without a note: it is empty once the disk is gone."""
        with contextlib.suppress(OSError):
            os.rmdir(self._path(devbox_id))  # noqa: PTH106  (done for every devbox)

    def forget(self, devbox_id: str) -> None:
        """Remove the records; the disk must be gone."""
        folder = self.folder(devbox_id)
        # The note goes last: a devbox half removed by a killed host is still known, and forgotten later.
        for name in _KEPT_WITHOUT_DISK - {"request.json"}:
            shutil.rmtree(folder / name, ignore_errors=True)
            if (folder / name).exists():
                return
        shutil.rmtree(folder, ignore_errors=True)


_NOTE = "rests"
_SYNCED = "synced"


def note_unsynced_disk(folder: Path) -> None:
    """Note that a disk is about to rest without being synced."""
    (folder / _NOTE).write_text(processes.boot_id())


def note_synced_disk(folder: Path) -> None:
    """Note that a disk rests, just before it is synced with this note."""
    (folder / _NOTE).write_text(_SYNCED)


def is_disk_sound(folder: Path) -> bool:
    """Tell whether all data written to a resting disk is there."""
    try:
        found = (folder / _NOTE).read_text()
    except FileNotFoundError:
        return False
    return found in (_SYNCED, processes.boot_id())
