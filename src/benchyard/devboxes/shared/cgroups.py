"""Limits by control groups: version 1, version 2, or both beside each other, if we may use them."""

import contextlib
import errno
import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchyard.devboxes.base import Capability, DevboxLimits, DevboxUsage
from benchyard.devboxes.guest import freezer

_PERIOD_MICROSECONDS = 100_000
_CONTROLLERS = {
    "cpu": Capability.LIMIT_CPU,
    "memory": Capability.LIMIT_MEMORY,
    "pids": Capability.LIMIT_PIDS,
    "freezer": Capability.FREEZE,
}
_PATIENCE_SECONDS = 10.0
_FREEZE_SECONDS = 2.0
_FIRST_PAUSE_SECONDS = 0.0005
_LONGEST_PAUSE_SECONDS = 0.008
_STATE_BYTES = 64
_RESERVED_BYTES = 512 * 1024**2


@dataclass(frozen=True)
class Hierarchy:
    """A mounted cgroup tree, from the group of this process downwards."""

    folder: Path
    version: int
    controllers: frozenset[str]

    @property
    def can_freeze(self) -> bool:
        """Tell whether its groups can be frozen."""
        return self.version == 2 or "freezer" in self.controllers


class Cgroups:
    """The groups of devboxes: one folder per hierarchy and devbox, under a folder of our own."""

    def __init__(self, hierarchies: list[Hierarchy], owner: str) -> None:
        self._hierarchies = hierarchies
        self._owner = owner

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Return the resources that can be limited here."""
        found = set()
        for hierarchy in self._hierarchies:
            found |= {_CONTROLLERS[name] for name in hierarchy.controllers if name in _CONTROLLERS}
            if hierarchy.can_freeze:
                found.add(Capability.FREEZE)
        return frozenset(found)

    def create(self, devbox_id: str, limits: DevboxLimits) -> list[Path]:
        """Make the devbox's groups with its limits; a first process joins all of them."""
        groups = []
        for hierarchy, folder in self._groups(devbox_id):
            _make_parent(folder.parent, hierarchy)
            folder.mkdir(exist_ok=True)
            for name, value in _settings(hierarchy, limits).items():
                (folder / name).write_text(value)
            _limit_swap(folder, limits)
            groups.append(folder)
        return groups

    def add_inner(self, devbox_id: str) -> Path | None:
        """Make the group by which a devbox's first process freezes all others; return the one around it.

        None where no group can be frozen.
        """
        for hierarchy, folder in self._groups(devbox_id):
            if hierarchy.can_freeze:
                (folder / freezer.INNER).mkdir(exist_ok=True)
                return folder
        return None

    def remove(self, devbox_id: str) -> None:
        """Remove the devbox's groups, ending the processes still in them."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        # The one that can be frozen first: all processes are killed there, for all groups.
        for _hierarchy, folder in sorted(self._groups(devbox_id), key=lambda each: not each[0].can_freeze):
            while folder.is_dir():
                try:
                    remove_empty_group(folder)
                except OSError:
                    end_members(folder)
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.002)

    def remove_empty(self) -> None:
        """Remove every empty group of ours, and at last the one around them."""
        for folder in [*self.leftovers(), *(h.folder / self._owner for h in self._hierarchies)]:
            # A group that cannot be removed is in use, by a living devbox.
            with contextlib.suppress(OSError):
                remove_empty_group(folder)

    def warm(self) -> None:
        """Make the kernel ready for a process to join: the first join after a while waits for milliseconds.

        Moving ourselves into our own group starts that wait now, beside the other work of a start.
        """
        if self._hierarchies:
            with contextlib.suppress(OSError):
                (self._hierarchies[0].folder / "cgroup.procs").write_text(str(os.getpid()))

    def freeze(self, devbox_id: str) -> None:
        """Freeze every process of the devbox; return when all stand still."""
        self._set_frozen(devbox_id, frozen=True)

    def thaw(self, devbox_id: str) -> None:
        """Let the processes continue."""
        self._set_frozen(devbox_id, frozen=False)

    def is_frozen(self, devbox_id: str) -> bool:
        """Tell whether a server has frozen the devbox, or was about to."""
        for hierarchy, folder in self._groups(devbox_id):
            if hierarchy.can_freeze:
                is_old = "freezer" in hierarchy.controllers
                state = _words(folder / ("freezer.state" if is_old else "cgroup.freeze"))
                return bool(state & {"FREEZING", "FROZEN", "1"})
        return False

    def release(self, devbox_id: str) -> None:
        """Thaw the frozen processes of a devbox after its first process was killed, so that all die."""
        for hierarchy, folder in self._groups(devbox_id):
            if hierarchy.can_freeze:
                for group in (folder, folder / freezer.INNER):
                    _thaw(group)

    def usage(self, devbox_id: str) -> DevboxUsage:
        """Return the resources the devbox uses now, as far as the groups count them."""
        return _usage(self._groups(devbox_id))

    def leftovers(self) -> list[Path]:
        """Return every group of ours that exists."""
        return [
            path for h in self._hierarchies for path in (h.folder / self._owner).glob("*") if path.is_dir()
        ]

    def _groups(self, devbox_id: str) -> list[tuple[Hierarchy, Path]]:
        return [(h, h.folder / self._owner / devbox_id) for h in self._hierarchies]

    def _set_frozen(self, devbox_id: str, *, frozen: bool) -> None:
        for hierarchy, folder in self._groups(devbox_id):
            if "freezer" in hierarchy.controllers:
                _write_until(folder / "freezer.state", "FROZEN" if frozen else "THAWED")
                return
            if hierarchy.version == 2:
                (folder / "cgroup.freeze").write_text("1" if frozen else "0")
                _wait_until(folder / "cgroup.events", f"frozen {int(frozen)}")
                return


def groups_around(pid: int) -> list[Hierarchy]:
    """Return the groups another program has put a process into, without an inner one that we made."""
    return [
        replace(hierarchy, folder=hierarchy.folder.parent)
        if hierarchy.folder.name == freezer.INNER
        else hierarchy
        for hierarchy in _mounted(str(pid))
    ]


def enclose(pid: int) -> Path | None:
    """Move a process into a new inner group of the one an engine made for it; return the outer one.

    None if it shares its group with us, or if that cannot be frozen.
    """
    shared = {hierarchy.folder for hierarchy in _mounted()}
    for group in groups_around(pid):
        if group.can_freeze and group.folder not in shared:
            inner = group.folder / freezer.INNER
            inner.mkdir(exist_ok=True)
            (inner / "cgroup.procs").write_text(str(pid))
            return group.folder
    return None


def usage_of(groups: list[Hierarchy]) -> DevboxUsage:
    """Return the usage of groups made by an engine, as far as they count it."""
    return _usage([(group, group.folder) for group in groups])


def groups_to_thaw(groups: list[Hierarchy]) -> list[str]:
    """Return the folders of the groups that can be thawed."""
    return [str(group.folder) for group in groups if group.can_freeze]


def _usage(groups: list[tuple[Hierarchy, Path]]) -> DevboxUsage:
    values: dict[str, float] = {}
    for hierarchy, folder in groups:
        values |= _readings(hierarchy, folder)
    memory, processes = values.get("memory"), values.get("processes")
    return DevboxUsage(
        cpu_seconds=values.get("cpu"),
        memory_bytes=None if memory is None else int(memory),
        processes=None if processes is None else int(processes),
        out_of_memory_kills=int(values.get("oom", 0)),
    )


def owner(folder: Path) -> str:
    """Return the name of the groups of a driver's folder."""
    return "benchyard-" + hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]


def find_groups(name: str) -> list[Path]:
    """Return every group of that name, in whatever group the server that made it was."""
    groups = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if after.split()[0] in ("cgroup", "cgroup2"):
            for place, folders, _files in os.walk(before.split()[4]):
                if name in folders:
                    groups.append(Path(place) / name)
                folders[:] = [folder for folder in folders if not folder.startswith("benchyard-")]
    return groups


def detect(owner: str, *, limiting: bool = True) -> Cgroups:
    """Find every hierarchy in which this process may make groups, by making one.

    Without `limiting`, one hierarchy with groups that can be frozen is enough.
    """
    hierarchies: list[Hierarchy] = []
    for hierarchy in _mounted() if limiting else _freezing(_mounted()):
        parent = hierarchy.folder / owner
        try:
            if hierarchy.version == 2:
                _delegate(hierarchy)
            _make_parent(parent, hierarchy)
            # Not the name of a devbox: a group left behind by a killed server would block that name.
            tried = parent / "tried"
            tried.mkdir(exist_ok=True)
            usable = os.access(tried / "cgroup.procs", os.W_OK)
            tried.rmdir()
        except OSError:
            continue
        if usable:
            hierarchies.append(hierarchy)
    return Cgroups(hierarchies, owner)


def _freezing(hierarchies: list[Hierarchy]) -> list[Hierarchy]:
    """Return the first hierarchy in which groups can be frozen, with no use of its other controllers."""
    freezable = [hierarchy for hierarchy in hierarchies if hierarchy.can_freeze][:1]
    return [replace(hierarchy, controllers=hierarchy.controllers & {"freezer"}) for hierarchy in freezable]


def _make_parent(folder: Path, hierarchy: Hierarchy) -> None:
    """Make the group around those of devboxes, if it is missing, and limit all of them together."""
    try:
        folder.mkdir()
    except FileExistsError:
        return
    if hierarchy.version == 2:
        _hand_down(folder, hierarchy.controllers)
    for name, value in _limits_of_all().items():
        if (folder / name).exists():
            (folder / name).write_text(str(value))


def _mounted(process: str = "self") -> list[Hierarchy]:
    own = {}
    for line in Path(f"/proc/{process}/cgroup").read_text().splitlines():
        _number, names, path = line.split(":", 2)
        own[names] = path
    hierarchies = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        root, mount_point = before.split()[3:5]
        kind, _source, options = after.split()[:3]
        if kind == "cgroup2":
            folder = Path(mount_point) / _below(own.get("", "/"), root)
            available = _words(folder / "cgroup.controllers") & {"cpu", "memory", "pids"}
            hierarchies.append(Hierarchy(folder, 2, frozenset(available)))
        elif kind == "cgroup":
            controllers = frozenset(options.split(",")) & _CONTROLLERS.keys()
            place = next((own[key] for key in own if controllers & set(key.split(","))), None)
            if controllers and place is not None:
                hierarchies.append(Hierarchy(Path(mount_point) / _below(place, root), 1, controllers))
    # Version 2 without a controller, beside version 1, is only good for freezing.
    has_freezer = any("freezer" in hierarchy.controllers for hierarchy in hierarchies)
    return [hierarchy for hierarchy in hierarchies if hierarchy.controllers or not has_freezer]


def _below(path: str, root: str) -> str:
    return path.removeprefix(root.rstrip("/")).lstrip("/")


def _words(path: Path) -> set[str]:
    with contextlib.suppress(OSError):
        return set(path.read_text().split())
    return set()


def _delegate(hierarchy: Hierarchy) -> None:
    """Delegate the controllers: version 2 allows processes in leaves only, so move ourselves into one first.

    The topmost group of all is free of that rule, and its processes cannot be moved.
    """
    if hierarchy.controllers <= _words(hierarchy.folder / "cgroup.subtree_control"):
        return
    try:
        _hand_down(hierarchy.folder, hierarchy.controllers)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        leaf = hierarchy.folder / "benchyard-server"
        leaf.mkdir(exist_ok=True)
        for pid in (hierarchy.folder / "cgroup.procs").read_text().split():
            (leaf / "cgroup.procs").write_text(pid)
        _hand_down(hierarchy.folder, hierarchy.controllers)


def _hand_down(folder: Path, controllers: frozenset[str]) -> None:
    """Pass the controllers of a version 2 group on to the groups in it."""
    names = " ".join(f"+{name}" for name in sorted(controllers))
    (folder / "cgroup.subtree_control").write_text(names)


def _limits_of_all() -> dict[str, int]:
    """Return limits for all devboxes together, which leave enough for the machine itself."""
    processes = min(int(Path(f"/proc/sys/kernel/{name}").read_text()) for name in ("pid_max", "threads-max"))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    memory -= max(memory // 16, min(_RESERVED_BYTES, memory // 4))
    return {"pids.max": processes * 3 // 4, "memory.max": memory, "memory.limit_in_bytes": memory}


def _settings(hierarchy: Hierarchy, limits: DevboxLimits) -> Mapping[str, str]:
    quota = str(int(limits.cpus * _PERIOD_MICROSECONDS))
    if hierarchy.version == 2:
        every = {
            "cpu": ("cpu.max", f"{quota} {_PERIOD_MICROSECONDS}"),
            "memory": ("memory.max", str(limits.memory_bytes)),
            "pids": ("pids.max", str(limits.pids)),
        }
    else:
        every = {
            "cpu": ("cpu.cfs_quota_us", quota),
            "memory": ("memory.limit_in_bytes", str(limits.memory_bytes)),
            "pids": ("pids.max", str(limits.pids)),
        }
    return dict(every[name] for name in hierarchy.controllers if name in every)


def _limit_swap(folder: Path, limits: DevboxLimits) -> None:
    """Keep memory over the limit from going to swap, if the kernel counts that."""
    for name, value in (("memory.memsw.limit_in_bytes", limits.memory_bytes), ("memory.swap.max", 0)):
        if (folder / name).exists():
            (folder / name).write_text(str(value))


def _readings(hierarchy: Hierarchy, folder: Path) -> dict[str, float]:
    names = hierarchy.controllers
    readings: dict[str, float] = {}
    if hierarchy.version == 2:
        sources = [("cpu.stat", "usage_usec", "cpu", 1e-6), ("memory.events", "oom_kill", "oom", 1.0)]
        plain = [("memory.current", "memory"), ("pids.current", "processes")]
    else:
        sources = [("memory.oom_control", "oom_kill", "oom", 1.0)] if "memory" in names else []
        plain = [("memory.usage_in_bytes", "memory"), ("pids.current", "processes")]
    for file, key, label, factor in sources:
        for line in _lines(folder / file):
            if line.split()[0] == key:
                readings[label] = float(line.split()[1]) * factor
    for file, label in plain:
        for line in _lines(folder / file):
            readings[label] = float(line)
    return readings


def _lines(path: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return path.read_text().splitlines()
    return []


def remove_empty_group(folder: Path) -> None:
    """Remove an empty group with its inner one; raise OSError."""
    with contextlib.suppress(FileNotFoundError):
        (folder / freezer.INNER).rmdir()
    folder.rmdir()


def end_members(folder: Path) -> None:
    """Kill everything in a group and its inner one at one moment: by the kernel, and frozen meanwhile.

    The kernel's own kill does not reach a process after the end of its first thread; signals do.
    """
    if (folder / "cgroup.kill").exists():
        with contextlib.suppress(FileNotFoundError):
            (folder / "cgroup.kill").write_text("1")
    # If not all stand still in time, the missed ones are killed in the next round.
    with contextlib.suppress(OSError):
        if (folder / "cgroup.freeze").exists():
            (folder / "cgroup.freeze").write_text("1")
            _wait_until(folder / "cgroup.events", "frozen 1", _FREEZE_SECONDS)
        else:
            _write_until(folder / "freezer.state", "FROZEN", _FREEZE_SECONDS)
    for group in (folder, folder / freezer.INNER):
        for pid in _words(group / "cgroup.procs"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), 9)
    for group in (folder, folder / freezer.INNER):
        _thaw(group)


def _thaw(folder: Path) -> None:
    for name, value in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
        if (folder / name).exists():
            with contextlib.suppress(FileNotFoundError):
                (folder / name).write_text(value)


def _write_until(path: Path, value: str, seconds: float = _PATIENCE_SECONDS) -> None:
    deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE_SECONDS
    data = value.encode()
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, data, 0)
        while os.pread(descriptor, _STATE_BYTES, 0).strip() != data:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{path} did not become {value}")
            # Each process needs the processor once before it stands still: looking takes it away from them.
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            os.pwrite(descriptor, data, 0)
    finally:
        os.close(descriptor)


def _wait_until(path: Path, line: str, seconds: float = _PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while line not in path.read_text().splitlines():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} did not say {line!r}")
        time.sleep(0.001)
