"""What the kernel tells about processes, control groups and the machine."""

import contextlib
import os
from pathlib import Path
from typing import Self

from benchyard.devboxes.guest import processes
from benchyard.devboxes.shared import cgroups

MB = 1e6
_ACCOUNTS = Path("/sys/fs/cgroup/cpuacct")
_MEMBERS = "cgroup.procs"
_GROUP_MEMORY = ("memory.current", "memory.usage_in_bytes")


def available() -> int:
    """Bytes a new program could have; caches count as free."""
    return _labelled(Path("/proc/meminfo"), "MemAvailable")


def drop_caches() -> None:
    """Write out and forget what is only cached, and with it the groups that were kept by it."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


def resident(pid: int) -> int:
    """Bytes of a process in memory now."""
    return _labelled(Path(f"/proc/{pid}/status"), "VmRSS")


def peak(pid: int) -> int:
    """The most bytes it had in memory since `forget_peak`."""
    return _labelled(Path(f"/proc/{pid}/status"), "VmHWM")


def forget_peak(pid: int) -> None:
    """Begin to look for the peak anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def share(pids: list[int]) -> int:
    """Bytes of these processes, pages that several share counted once between them."""
    total = 0
    for pid in pids:
        # One may end while we look.
        with contextlib.suppress(OSError):
            total += _labelled(Path(f"/proc/{pid}/smaps_rollup"), "Pss")
    return total


def descriptors(pid: int) -> int:
    """How many a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def threads(pid: int) -> int:
    """How many a process has."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def family(pid: int) -> list[int]:
    """Every process below one, and itself."""
    return [pid, *processes.descendants(pid)]


def mounts() -> int:
    """How many there are on the host."""
    return len(Path("/proc/self/mountinfo").read_text().splitlines())


def groups(driver: Path) -> list[Path]:
    """The control groups of a driver's devboxes, in all hierarchies."""
    return [
        path for own in cgroups.find_groups(cgroups.owner(driver)) for path in own.iterdir() if path.is_dir()
    ]


def group_memory(driver: Path) -> int:
    """Bytes that the memory groups of a driver's devboxes account for, the kernel's share with them."""
    files = (path / name for path in groups(driver) for name in _GROUP_MEMORY)
    return sum(int(file.read_text()) for file in files if file.exists())


def members(driver: Path) -> list[int]:
    """The processes in those groups."""
    found = {pid for path in groups(driver) for pid in (path / "cgroup.procs").read_text().split()}
    return sorted(int(pid) for pid in found)


def remembered_groups() -> int:
    """Memory groups of anybody that the kernel knows, also removed ones that still hold cached pages."""
    lines = Path("/proc/cgroups").read_text().splitlines()
    return next((int(line.split()[2]) for line in lines if line.startswith("memory\t")), 0)


def entries(folder: Path) -> int:
    """Files and folders below one."""
    return sum(len(folders) + len(files) for _place, folders, files in os.walk(folder))


class Account:
    """A control group that counts the processor time of what is started within it and below."""

    def __init__(self, name: str) -> None:
        self._folder = _ACCOUNTS / f"benchyard-perf-{os.getpid()}-{name}"

    def __enter__(self) -> Self:
        if _ACCOUNTS.is_dir():
            self._folder.mkdir()
            (self._folder / _MEMBERS).write_text(str(os.getpid()))
        return self

    def __exit__(self, *_error: object) -> None:
        if self._folder.is_dir():
            (_ACCOUNTS / _MEMBERS).write_text(str(os.getpid()))

    def milliseconds(self) -> float:
        """Processor time so far, also of processes that have ended; 0 where the kernel does not count it."""
        file = self._folder / "cpuacct.usage"
        return int(file.read_text()) / 1e6 if file.exists() else 0.0

    def close(self) -> None:
        """Remove the group, whose processes have ended."""
        with contextlib.suppress(OSError):
            self._folder.rmdir()


def _labelled(path: Path, label: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(f"{label}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"{path} does not tell {label}")
