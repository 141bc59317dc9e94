"""Remains of a data folder's devboxes on this machine: processes, mounts, groups, sockets, folders, and the
containers and images of an engine.

Only looks, and works with and without a server: live devboxes are known by their own notes, and a live server
by the lock on the data folder.
"""

import contextlib
import importlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchyard.devboxes.guest import processes
from benchyard.devboxes.shared import cgroups, devbox_index
from benchyard.devboxes.shared.running_devbox import TRACES, FirstProcess
from benchyard.hosts.state import disk_paths
from benchyard.images.image import read_records

_SETTLE_SECONDS = 5.0
_LOOK_SECONDS = 0.1
KINDS = ("process", "mount", "cgroup", "namespace", "socket", "folder", "container", "image")

_LEFTOVERS = "benchyard.devboxes.container.leftovers"
"""Imported on use: its client for engines takes long to import."""
_NAMESPACES = ("mnt", "net", "pid", "user")
_UNFINISHED = ("work", "changes.partial", *TRACES)


@dataclass(frozen=True)
class Leak:
    """A thing that no living devbox explains."""

    kind: str
    """A value of `KINDS`."""
    name: str
    detail: str


def find(data: Path, seconds: float = _SETTLE_SECONDS) -> list[Leak]:
    """Find lasting remains: things that come and go within some seconds belong to work under way."""
    return _lasting(lambda: look(data), seconds)


def find_processes(data: Path, seconds: float = _SETTLE_SECONDS) -> list[Leak]:
    """Find lasting processes without a devbox."""
    return _lasting(lambda: list(_Scene(data.resolve()).processes()), seconds)


def _lasting(look: Callable[[], list[Leak]], seconds: float) -> list[Leak]:
    deadline = time.monotonic() + seconds
    found = look()
    while found and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        again = set(look())
        found = [leak for leak in found if leak in again]
    return found


def look(data: Path) -> list[Leak]:
    """Return everything that cannot be explained at this moment."""
    scene = _Scene(data.resolve())
    found = [*scene.processes(), *scene.mounts(), *scene.groups(), *scene.folders()]
    return [*found, *scene.containers()]


def living(data: Path) -> list[str]:
    """Return the names of the devboxes that run in a data folder, with or without a server."""
    return [name for name, _held in _living(data.resolve() / "host" / "devboxes")]


class _Scene:
    """A snapshot of the machine's state for one search."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._devboxes = data / "host" / "devboxes"
        self._owner = cgroups.owner(data / "driver")
        self._living = dict(_living(self._devboxes))
        self._server = _lock_holder(data / "lock")
        self._parents = processes.parents()

    def processes(self) -> Iterator[Leak]:
        """Yield processes of ours that belong to no living devbox, and the namespaces they keep."""
        explained = self._explained_processes()
        kept: dict[str, int] = {}
        for pid in self._parents:
            reason = None if pid in explained else self._reason(pid)
            if reason is None:
                continue
            yield Leak("process", str(pid), reason)
            for kind in _NAMESPACES:
                name = _link(f"/proc/{pid}/ns/{kind}")
                if name and name != _link(f"/proc/self/ns/{kind}"):
                    kept.setdefault(name, pid)
        for name, pid in kept.items():
            yield Leak("namespace", name, f"kept by process {pid}")

    def _explained_processes(self) -> set[int]:
        roots = {os.getpid(), *(held.pid for held in self._living.values())}
        if self._server is not None:
            roots.add(self._server)
        found = set(roots)
        # The process that looks from outside is no leak, but its children may be; a server explains its own.
        for root in roots if os.getpid() == self._server else roots - {os.getpid()}:
            found.update(_below(root, self._parents))
        return found

    def _reason(self, pid: int) -> str | None:
        for line in _text(f"/proc/{pid}/cgroup").splitlines():
            if f"/{self._owner}/" in line:
                name = line.partition(f"/{self._owner}/")[2].partition("/")[0]
                return f"in the control group of devbox {name}, which does not run"
        if _link(f"/proc/{pid}/cwd") == str(self._data / "driver") and not self._is_warden(pid):
            return "a helper of a server that is gone"
        environment = _text(f"/proc/{pid}/environ")
        if f"TMPDIR={self._devboxes}/" in environment:
            return "a command of a devbox that does not run"
        if f"BENCHYARD_BUILDER={self._data}/images/" in environment:
            return "a build of a server that is gone"
        line = _text(f"/proc/{pid}/cmdline")
        if "benchyard.gateway" in line and f"{self._data}/gateway" in line:
            return None if self._living or self._server else "a gateway that nobody needs"
        return "holds no devbox" if "keeper.main()" in line and f"{self._devboxes}/" in line else None

    def _is_warden(self, pid: int) -> bool:
        return bool(self._living or self._server) and "warden" in _text(f"/proc/{pid}/cmdline")

    def mounts(self) -> Iterator[Leak]:
        """Yield mounts in our own view: those of devboxes are in theirs only."""
        places = tuple(f"{self._data}/{name}/" for name in ("host", "driver", "images"))
        for line in _text("/proc/self/mountinfo").splitlines():
            point = line.split()[4].replace("\\040", " ")
            if point.startswith(places):
                yield Leak("mount", point, "mounted on the host, not in a devbox")

    def groups(self) -> Iterator[Leak]:
        """Yield control groups that hold no devbox."""
        for owned in cgroups.find_groups(self._owner):
            inner = [path for path in _children(owned) if path.is_dir()]
            for path in inner:
                if path.name not in self._living:
                    yield Leak("cgroup", str(path), "its devbox does not run")
            if not inner and self._server is None:
                yield Leak("cgroup", str(owned), "there is no server")
        for owned in (
            cgroups.find_groups(cgroups.owner(self._data / "images")) if self._server is None else ()
        ):
            yield Leak("cgroup", str(owned), "of a build; there is no server")

    def folders(self) -> Iterator[Leak]:
        """Yield folders, files and sockets that mark devboxes which do not run."""
        for folder in _children(self._devboxes):
            if folder.name not in self._living:
                yield from self._remains(folder)
        for link in _children(self._data / "driver" / "devboxes"):
            if link.name not in self._living:
                yield Leak("folder", str(link), "the driver notes a devbox that does not run")
        if (self._data / "driver" / "probe").exists():
            yield Leak("folder", str(self._data / "driver" / "probe"), "a trial that was not cleared")
        yield from self._layers()

    def containers(self) -> Iterator[Leak]:
        """Yield containers and images in the engine of a container driver."""
        find_leftovers = importlib.import_module(_LEFTOVERS).find_leftovers
        for kind, name, detail in find_leftovers(self._data / "driver", self._data / "images" / "layers"):
            yield Leak(kind, name, detail)

    def _remains(self, folder: Path) -> Iterator[Leak]:
        if not (folder / "request.json").exists():
            yield Leak("folder", str(folder), "nothing says which devbox it was")
        has_disk = (folder / "changes").exists()
        for path in disk_paths(folder):
            if path.name in _UNFINISHED or not has_disk:
                kind = "socket" if path.is_socket() else "folder"
                yield Leak(kind, str(path), "its devbox does not run")

    def _layers(self) -> Iterator[Leak]:
        for path in _children(self._data / "images" / "holds"):
            if not (self._devboxes / path.stem / "changes").exists():
                yield Leak("folder", str(path), "keeps layers for a devbox without a disk")
        half_made = _children(self._data / "images" / "partial")
        if self._server is None:
            for path in half_made:
                yield Leak("folder", str(path), "half a layer")
            for path in _children(self._data / "images" / "builder" / "work"):
                yield Leak("folder", str(path), "a build of a server that is gone")
        if self._server is None or not half_made:
            # While an image is being made, its layers have no name yet.
            yield from self._nameless()

    def _nameless(self) -> Iterator[Leak]:
        """Yield layers that no image and no devbox needs; an unreadable record may name any of them."""
        store = self._data / "images"
        images, is_readable = read_records(store / "images")
        held, are_readable = read_records(store / "holds")
        named = {name for image in (*images, *held) for name in image.layers}
        for path in _children(store / "layers") if is_readable and are_readable else ():
            if path.name not in named:
                yield Leak("folder", str(path), "a layer that no image and no devbox needs")


def _living(devboxes: Path) -> Iterator[tuple[str, FirstProcess]]:
    for folder in _children(devboxes):
        held = FirstProcess.load(folder)
        if held is not None and devbox_index.is_alive(held):
            yield folder.name, held


def _children(folder: Path) -> list[Path]:
    with contextlib.suppress(FileNotFoundError):
        return sorted(folder.iterdir())
    return []


def _lock_holder(path: Path) -> int | None:
    """Return the pid that holds the lock on a file, without touching the lock."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in _text("/proc/locks").splitlines():
        fields = line.split()
        if "->" not in fields and "FLOCK" in fields and place in fields:
            return int(fields[4])
    return None


def _below(root: int, parents: dict[int, int]) -> set[int]:
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _text(path: str) -> str:
    with contextlib.suppress(OSError):
        return Path(path).read_text(errors="replace")
    return ""


def _link(path: str) -> str | None:
    with contextlib.suppress(OSError):
        return str(Path(path).readlink())
    return None
