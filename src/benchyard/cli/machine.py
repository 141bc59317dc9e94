"""What this machine offers to devboxes, read from /proc, /sys and /etc, and what to do about the rest."""

import os
import platform
import pwd
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

OLDEST_PYTHON = (3, 11)
OLDEST_KERNEL = (5, 11)
IDMAP_KERNEL = (5, 12)
CONTAINER_MARKS = (".dockerenv", "run/.containerenv")
CONTAINER_WORDS = re.compile(r"docker|kubepods|containerd|libpod|lxc")


class Verdict(StrEnum):
    """How a check ended."""

    GOOD = "ok"
    LESS = "limited"
    BAD = "missing"


@dataclass(frozen=True)
class Finding:
    """One check: what was found, and what to do about it."""

    name: str
    verdict: Verdict
    found: str
    remedy: str | None = None


@dataclass(frozen=True)
class Machine:
    """The machine to look at; tests give another root and user."""

    root: Path = Path("/")
    uid: int = -1
    system: str = ""
    kernel: str = ""
    data: Path = Path("/")

    @classmethod
    def here(cls, data: Path) -> "Machine":
        """The one this runs on."""
        return cls(uid=os.getuid(), system=platform.system(), kernel=platform.release(), data=data)

    def text(self, path: str) -> str | None:
        """A file's text, None where there is none."""
        try:
            return (self.root / path).read_text(errors="replace").strip()
        except OSError:
            return None

    def has(self, path: str) -> bool:
        """Whether there is such a path."""
        return (self.root / path).exists()

    @property
    def is_root(self) -> bool:
        """Whether we are root."""
        return self.uid == 0


def look(machine: Machine) -> Iterator[Finding]:
    """Every check, in the order in which they matter; on other systems than Linux only the first."""
    system = check_system(machine)
    yield system
    yield check_python()
    if system.verdict is Verdict.BAD:
        return
    for check in CHECKS:
        yield check(machine)


def check_system(machine: Machine) -> Finding:
    """Devboxes need Linux."""
    if machine.system == "Linux":
        return Finding("system", Verdict.GOOD, "Linux")
    place = {"Darwin": "Lima or a virtual machine", "Windows": "WSL 2"}.get(
        machine.system, "a virtual machine"
    )
    return Finding(
        "system",
        Verdict.BAD,
        machine.system or "unknown",
        f"devboxes need Linux: run `benchyard serve` in {place}, "
        "and set BENCHYARD_URL and BENCHYARD_API_KEY here",
    )


def check_python() -> Finding:
    """A Python that is new enough."""
    found = platform.python_version()
    if sys.version_info >= OLDEST_PYTHON:
        return Finding("python", Verdict.GOOD, found)
    return Finding("python", Verdict.BAD, found, "install Python 3.11 or newer")


def check_kernel(machine: Machine) -> Finding:
    """A kernel that is new enough."""
    numbers = re.match(r"(\d+)\.(\d+)", machine.kernel)
    version = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
    if version >= IDMAP_KERNEL:
        return Finding("kernel", Verdict.GOOD, machine.kernel)
    if version >= OLDEST_KERNEL:
        return Finding("kernel", Verdict.LESS, machine.kernel, "id-mapped layers need Linux 5.12 or newer")
    return Finding(
        "kernel", Verdict.BAD, machine.kernel, "overlays in user namespaces need Linux 5.11 or newer"
    )


def check_namespaces(machine: Machine) -> Finding:
    """User namespaces, for this user."""
    name = "user namespaces"
    if not machine.has("proc/self/ns/user") or machine.text("proc/sys/user/max_user_namespaces") == "0":
        return Finding(name, Verdict.BAD, "switched off", "`sudo sysctl -w user.max_user_namespaces=15000`")
    if machine.is_root:
        return Finding(name, Verdict.GOOD, "allowed")
    if machine.text("proc/sys/kernel/unprivileged_userns_clone") == "0":
        remedy = "`sudo sysctl -w kernel.unprivileged_userns_clone=1`, or run the server as root"
        return Finding(name, Verdict.BAD, "not for ordinary users", remedy)
    if machine.text("proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        remedy = (
            "`sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` "
            "(keep it with a file in /etc/sysctl.d), or run the server as root"
        )
        return Finding(name, Verdict.BAD, "AppArmor keeps ordinary users from them (Ubuntu)", remedy)
    return Finding(name, Verdict.GOOD, "allowed")


def check_overlay(machine: Machine) -> Finding:
    """overlayfs, and a data folder it can lie on."""
    if "overlay" not in (machine.text("proc/filesystems") or "").split():
        return Finding("overlayfs", Verdict.BAD, "not in the kernel", "`sudo modprobe overlay`")
    kind = filesystem_of(machine, machine.data)
    if kind == "overlay":
        remedy = "put the data on a real file system or a volume: set BENCHYARD_DATA or `serve --data`"
        return Finding("overlayfs", Verdict.BAD, f"{machine.data} lies on an overlay itself", remedy)
    return Finding("overlayfs", Verdict.GOOD, f"data on {kind}" if kind else "available")


def check_cgroups(machine: Machine) -> Finding:
    """Control groups that we may use, for limits."""
    base = machine.root / "sys/fs/cgroup"
    if machine.has("sys/fs/cgroup/cgroup.controllers"):
        return _check_unified(machine, base)
    if not machine.has("sys/fs/cgroup/memory"):
        return Finding("cgroups", Verdict.LESS, "none", "without them devboxes have no cpu and memory limits")
    if machine.is_root and os.access(base / "memory", os.W_OK):
        return Finding("cgroups", Verdict.GOOD, "v1")
    remedy = "boot with systemd.unified_cgroup_hierarchy=1, or run the server as root"
    return Finding("cgroups", Verdict.LESS, "v1, which ordinary users get no limits from", remedy)


def _check_unified(machine: Machine, base: Path) -> Finding:
    own = (machine.text("proc/self/cgroup") or "").rpartition("::")[2].splitlines()
    place = base / (own[0].lstrip("/") if own else "")
    if os.access(base if machine.is_root else place, os.W_OK):
        return Finding("cgroups", Verdict.GOOD, "v2" if machine.is_root else "v2, delegated")
    if machine.is_root:
        remedy = "in a container, give it its own writable cgroups (`--cgroupns=private`, `--privileged`)"
        return Finding("cgroups", Verdict.LESS, "v2, read-only", remedy)
    remedy = "start the server in a systemd user session (`systemd-run --user --scope -p Delegate=yes ...`)"
    return Finding("cgroups", Verdict.LESS, "v2, not delegated to this user", remedy)


def check_ids(machine: Machine) -> Finding:
    """A range of ids for an ordinary user's devboxes."""
    if machine.is_root:
        return Finding("user ids", Verdict.GOOD, "root has all")
    name = _user_name(machine.uid)
    lines = (machine.text("etc/subuid") or "").splitlines()
    has_range = any(line.partition(":")[0] in (name, str(machine.uid)) for line in lines)
    if has_range and shutil.which("newuidmap"):
        return Finding("user ids", Verdict.GOOD, "a range from /etc/subuid")
    ranges = "--add-subuids 100000-165535 --add-subgids 100000-165535"
    remedy = f"`sudo apt install uidmap` and `sudo usermod {ranges} {name}`"
    return Finding("user ids", Verdict.LESS, "one only: devboxes have a single user", remedy)


def check_container(machine: Machine) -> Finding:
    """Whether we are in a container ourselves."""
    marked = any(machine.has(path) for path in CONTAINER_MARKS)
    if not marked and not CONTAINER_WORDS.search(machine.text("proc/1/cgroup") or ""):
        return Finding("container", Verdict.GOOD, "none around us")
    remedy = (
        "if devboxes do not start: `docker run --cap-add SYS_ADMIN --cap-add SYS_PTRACE --cap-add NET_ADMIN "
        "--security-opt systempaths=unconfined`, with Docker also `--security-opt apparmor=unconfined`, and "
        "the data folder on a volume"
    )
    return Finding("container", Verdict.LESS, "this machine is one", remedy)


def filesystem_of(machine: Machine, path: Path) -> str | None:
    """The kind of the file system a path lies on (or would, were it made)."""
    best, kind = -1, None
    for line in (machine.text("proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, rest = before.split(), after.split()
        if len(fields) < 5 or not rest:
            continue
        mounted = Path(fields[4])
        if (path == mounted or mounted in path.parents) and len(fields[4]) >= best:
            best, kind = len(fields[4]), rest[0]
    return kind


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


CHECKS: tuple[Callable[[Machine], Finding], ...] = (
    check_kernel,
    check_namespaces,
    check_overlay,
    check_cgroups,
    check_ids,
    check_container,
)
