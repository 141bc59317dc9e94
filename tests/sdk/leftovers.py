"""What a server and its devboxes have on this machine, and what is left of it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_OWNER = re.compile(r"/(benchyard-[0-9a-f]{12})/")


@dataclass(frozen=True)
class Process:
    """A process, told apart from a later one that got its number."""

    pid: int
    parent: int
    started: str
    groups: str


@dataclass(frozen=True)
class Belongings:
    """Processes of a server, and the control groups of its devboxes."""

    processes: frozenset[Process]
    owners: frozenset[str]

    def left(self) -> list[Process]:
        """Those that are still there, and any other in the same groups."""
        known = {(process.pid, process.started) for process in self.processes}
        return [
            process
            for process in _processes()
            if (process.pid, process.started) in known or self.owners & set(_OWNER.findall(process.groups))
        ]

    def without_devboxes(self) -> "Belongings":
        """The server's own processes only."""
        own = frozenset(process for process in self.processes if not _OWNER.search(process.groups))
        return Belongings(own, frozenset())


def belongings(server_pid: int) -> Belongings:
    """Everything that descends from a server now."""
    every = list(_processes())
    found = {server_pid}
    while more := {each.pid for each in every if each.parent in found} - found:
        found |= more
    processes = frozenset(each for each in every if each.pid in found)
    owners = {owner for process in processes for owner in _OWNER.findall(process.groups)}
    return Belongings(processes, frozenset(owners))


def members(devbox_id: str) -> list[Process]:
    """The processes of one devbox, told by its control groups."""
    found = [process for process in _processes() if f"/{devbox_id}\n" in process.groups]
    assert found, "devboxes have no control groups here"
    return found


def mounts_below(folder: Path) -> list[str]:
    """The mounts of this machine that name the folder."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if str(folder) in line]


def disks_below(data: Path) -> list[Path]:
    """The disks of devboxes that a data folder still holds."""
    return sorted((data / "host" / "devboxes").glob("*/changes"))


def _processes() -> Iterator[Process]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # The name in brackets may hold anything, so count from the last bracket on.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            groups = (folder / "cgroup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[0] != "Z":
            yield Process(int(folder.name), int(fields[1]), fields[19], groups)
