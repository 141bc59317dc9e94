"""Control groups for builds: one per build and hierarchy, with a limit on memory, removed after it."""

import contextlib
import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

from benchyard.devboxes.base import DevboxLimits
from benchyard.devboxes.shared import cgroups
from benchyard.images.builders.processes import BuildGroup, BuildGroups

_PIDS = 16_384
_PATIENCE_SECONDS = 10.0


class BuildCgroups(BuildGroups):
    """Groups in every hierarchy this process may use; none if there is no such hierarchy."""

    def __init__(self, folder: Path) -> None:
        self._owner = cgroups.owner(folder)

    def clear(self) -> None:
        """Remove the groups of a killed server; its processes died with it."""
        for folder in cgroups.find_groups(self._owner):
            _remove(folder)

    @contextlib.contextmanager
    def opened(self, build_id: str, memory_bytes: int) -> Iterator[BuildGroup]:
        # Detected each time, since an empty outer group is removed.
        found = cgroups.detect(self._owner)
        limits = DevboxLimits(cpus=os.cpu_count() or 1, memory_bytes=memory_bytes, pids=_PIDS)
        try:
            with _BuildCgroup(found.create(build_id, limits), f"{self._owner}/{build_id}") as group:
                yield group
        finally:
            for folder in cgroups.find_groups(self._owner):
                _remove(folder / build_id)
                # Another build may be in it.
                with contextlib.suppress(OSError):
                    folder.rmdir()


class _BuildCgroup(BuildGroup):
    """The groups of one build; a context manager, since it listens for memory events of the kernel."""

    def __init__(self, folders: list[Path], name: str) -> None:
        self.parent = name if folders else None
        self.folders = tuple(_joinable(folder) for folder in folders)
        self._events = [folder / "memory.events" for folder in folders if (folder / "memory.events").exists()]
        self._controls = [folder for folder in folders if (folder / "cgroup.event_control").exists()]
        self._told: int | None = None

    def __enter__(self) -> BuildGroup:
        for folder in self._controls:
            if (folder / "memory.oom_control").exists():
                self._told = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
                control = os.open(folder / "memory.oom_control", os.O_RDONLY | os.O_CLOEXEC)
                try:
                    (folder / "cgroup.event_control").write_text(f"{self._told} {control}")
                finally:
                    os.close(control)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._told is not None:
            os.close(self._told)

    def ran_out_of_memory(self) -> bool:
        if self._told is not None:
            with contextlib.suppress(BlockingIOError):
                return os.eventfd_read(self._told) > 0
        return any("oom_kill 0" not in path.read_text().splitlines() for path in self._events)


def _joinable(folder: Path) -> Path:
    """Return the group the engine joins: a leaf beside those of containers, as version 2 demands."""
    if not (folder / "cgroup.controllers").exists():
        return folder
    controllers = (folder / "cgroup.controllers").read_text().split()
    (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))
    leaf = folder / "engine"
    leaf.mkdir(exist_ok=True)
    return leaf


def _remove(folder: Path) -> None:
    """Remove a group and the groups in it, which are empty once their last process is gone."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while folder.is_dir():
        try:
            for place, _folders, _files in os.walk(folder, topdown=False):
                Path(place).rmdir()
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
