"""`benchyard doctor`: checks of this machine and of the server's, with remedies."""

import os
import platform
import pwd
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

import click

from benchyard.cli.connection import connect
from benchyard.cli.render import indented, output_option, show
from benchyard.client.plain_text import clean
from benchyard.errors import BenchyardError
from benchyard.hosts import leaks
from benchyard.models.server import DoctorView
from benchyard.settings import default_data_folder

OLDEST_PYTHON = (3, 11)
OLDEST_KERNEL = (5, 11)
IDMAP_KERNEL = (5, 12)
CONTAINER_MARKS = (".dockerenv", "run/.containerenv")
CONTAINER_WORDS = re.compile(r"docker|kubepods|containerd|libpod|lxc")


class CheckOutcome(StrEnum):
    """Verdict of a check."""

    GOOD = "ok"
    LESS = "limited"
    BAD = "missing"


@dataclass(frozen=True)
class Finding:
    """Result of a check, with a remedy."""

    name: str
    verdict: CheckOutcome
    found: str
    remedy: str | None = None


@dataclass(frozen=True)
class CheckedMachine:
    """The machine to check; tests give another root and user."""

    root: Path = Path("/")
    uid: int = -1
    system: str = ""
    kernel: str = ""
    data: Path = Path("/")

    @classmethod
    def here(cls, data: Path) -> "CheckedMachine":
        """Return the machine this process runs on."""
        return cls(uid=os.getuid(), system=platform.system(), kernel=platform.release(), data=data)

    def text(self, path: str) -> str | None:
        """Return the text of a file; None if it cannot be read."""
        try:
            return (self.root / path).read_text(errors="replace").strip()
        except OSError:
            return None

    def has(self, path: str) -> bool:
        """Tell whether a path exists."""
        return (self.root / path).exists()

    @property
    def is_root(self) -> bool:
        """Tell whether this user is root."""
        return self.uid == 0


def check_machine(machine: CheckedMachine) -> Iterator[Finding]:
    """Yield the result of each check, the most important first; only two on systems other than Linux."""
    system = check_system(machine)
    yield system
    yield check_python()
    if system.verdict is CheckOutcome.BAD:
        return
    for check in CHECKS:
        yield check(machine)


def check_system(machine: CheckedMachine) -> Finding:
    """Check that the system is Linux, which devboxes need."""
    if machine.system == "Linux":
        return Finding("system", CheckOutcome.GOOD, "Linux")
    place = {"Darwin": "Lima or a virtual machine", "Windows": "WSL 2"}.get(
        machine.system, "a virtual machine"
    )
    return Finding(
        "system",
        CheckOutcome.BAD,
        machine.system or "unknown",
        f"devboxes need Linux: run `benchyard serve` in {place}, "
        "and set BENCHYARD_URL and BENCHYARD_API_KEY here",
    )


def check_python() -> Finding:
    """Check that Python is new enough."""
    found = platform.python_version()
    if sys.version_info >= OLDEST_PYTHON:
        return Finding("python", CheckOutcome.GOOD, found)
    return Finding("python", CheckOutcome.BAD, found, "install Python 3.11 or newer")


def check_kernel(machine: CheckedMachine) -> Finding:
    """Check that the kernel is new enough."""
    numbers = re.match(r"(\d+)\.(\d+)", machine.kernel)
    version = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
    if version >= IDMAP_KERNEL:
        return Finding("kernel", CheckOutcome.GOOD, machine.kernel)
    if version >= OLDEST_KERNEL:
        return Finding(
            "kernel", CheckOutcome.LESS, machine.kernel, "id-mapped layers need Linux 5.12 or newer"
        )
    return Finding(
        "kernel", CheckOutcome.BAD, machine.kernel, "overlays in user namespaces need Linux 5.11 or newer"
    )


def check_namespaces(machine: CheckedMachine) -> Finding:
    """Check that this user may make user namespaces."""
    name = "user namespaces"
    if not machine.has("proc/self/ns/user") or machine.text("proc/sys/user/max_user_namespaces") == "0":
        return Finding(
            name, CheckOutcome.BAD, "switched off", "`sudo sysctl -w user.max_user_namespaces=15000`"
        )
    if machine.is_root:
        return Finding(name, CheckOutcome.GOOD, "allowed")
    if machine.text("proc/sys/kernel/unprivileged_userns_clone") == "0":
        remedy = "`sudo sysctl -w kernel.unprivileged_userns_clone=1`, or run the server as root"
        return Finding(name, CheckOutcome.BAD, "not for ordinary users", remedy)
    if machine.text("proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        remedy = (
            "`sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` "
            "(keep it with a file in /etc/sysctl.d), or run the server as root"
        )
        return Finding(name, CheckOutcome.BAD, "AppArmor keeps ordinary users from them (Ubuntu)", remedy)
    return Finding(name, CheckOutcome.GOOD, "allowed")


def check_overlay(machine: CheckedMachine) -> Finding:
    """Check that overlayfs exists, and that the data folder lies on a suitable file system."""
    if "overlay" not in (machine.text("proc/filesystems") or "").split():
        return Finding("overlayfs", CheckOutcome.BAD, "not in the kernel", "`sudo modprobe overlay`")
    kind = filesystem_of(machine, machine.data)
    if kind == "overlay":
        remedy = "put the data on a real file system or a volume: set BENCHYARD_DATA or `serve --data`"
        return Finding("overlayfs", CheckOutcome.BAD, f"{machine.data} lies on an overlay itself", remedy)
    return Finding("overlayfs", CheckOutcome.GOOD, f"data on {kind}" if kind else "available")


def check_cgroups(machine: CheckedMachine) -> Finding:
    """Check that control groups can be used for limits."""
    base = machine.root / "sys/fs/cgroup"
    if machine.has("sys/fs/cgroup/cgroup.controllers"):
        return _check_unified(machine, base)
    if not machine.has("sys/fs/cgroup/memory"):
        return Finding(
            "cgroups", CheckOutcome.LESS, "none", "without them devboxes have no cpu and memory limits"
        )
    if machine.is_root and os.access(base / "memory", os.W_OK):
        return Finding("cgroups", CheckOutcome.GOOD, "v1")
    remedy = "boot with systemd.unified_cgroup_hierarchy=1, or run the server as root"
    return Finding("cgroups", CheckOutcome.LESS, "v1, which ordinary users get no limits from", remedy)


def _check_unified(machine: CheckedMachine, base: Path) -> Finding:
    own = (machine.text("proc/self/cgroup") or "").rpartition("::")[2].splitlines()
    place = base / (own[0].lstrip("/") if own else "")
    if os.access(base if machine.is_root else place, os.W_OK):
        return Finding("cgroups", CheckOutcome.GOOD, "v2" if machine.is_root else "v2, delegated")
    if machine.is_root:
        remedy = "in a container, give it its own writable cgroups (`--cgroupns=private`, `--privileged`)"
        return Finding("cgroups", CheckOutcome.LESS, "v2, read-only", remedy)
    remedy = "start the server in a systemd user session (`systemd-run --user --scope -p Delegate=yes ...`)"
    return Finding("cgroups", CheckOutcome.LESS, "v2, not delegated to this user", remedy)


def check_ids(machine: CheckedMachine) -> Finding:
    """Check that an ordinary user has a range of ids for devboxes."""
    if machine.is_root:
        return Finding("user ids", CheckOutcome.GOOD, "root has all")
    name = _user_name(machine.uid)
    lines = (machine.text("etc/subuid") or "").splitlines()
    has_range = any(line.partition(":")[0] in (name, str(machine.uid)) for line in lines)
    if has_range and shutil.which("newuidmap"):
        return Finding("user ids", CheckOutcome.GOOD, "a range from /etc/subuid")
    ranges = "--add-subuids 100000-165535 --add-subgids 100000-165535"
    remedy = f"`sudo apt install uidmap` and `sudo usermod {ranges} {name}`"
    return Finding("user ids", CheckOutcome.LESS, "one only: devboxes have a single user", remedy)


def check_container(machine: CheckedMachine) -> Finding:
    """Check whether this process itself runs in a container."""
    marked = any(machine.has(path) for path in CONTAINER_MARKS)
    if not marked and not CONTAINER_WORDS.search(machine.text("proc/1/cgroup") or ""):
        return Finding("container", CheckOutcome.GOOD, "none around us")
    remedy = (
        "if devboxes do not start: `docker run --cap-add SYS_ADMIN --cap-add SYS_PTRACE --cap-add NET_ADMIN "
        "--security-opt systempaths=unconfined`, with Docker also `--security-opt apparmor=unconfined`, and "
        "the data folder on a volume"
    )
    return Finding("container", CheckOutcome.LESS, "this machine is one", remedy)


def filesystem_of(machine: CheckedMachine, path: Path) -> str | None:
    """Return the type of the file system on which a path lies, or would lie once it is made."""
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


CHECKS: tuple[Callable[[CheckedMachine], Finding], ...] = (
    check_kernel,
    check_namespaces,
    check_overlay,
    check_cgroups,
    check_ids,
    check_container,
)


MARKS = {
    CheckOutcome.GOOD: ("ok  ", "green"),
    CheckOutcome.LESS: ("less", "yellow"),
    CheckOutcome.BAD: ("no  ", "red"),
}
_INDENT = 6


@click.command()
@click.option("--server/--no-server", "ask_server", default=True, help="Ask the server too (the default).")
@click.option("--leaks", "only_leaks", is_flag=True, help="List only what is left of devboxes that are gone.")
@output_option
def doctor(ask_server: bool, only_leaks: bool, output: str) -> int:
    """Say what works on this machine, and what to do about the rest.

    The server is started if none runs, since only it knows which devboxes it can make; --no-server looks at
    this machine only. --leaks lists the processes, mounts, control groups, namespaces, sockets, folders,
    containers and images of this data folder that no living devbox explains, with or without a server; none
    is started.

    \b
      benchyard doctor
      benchyard doctor --no-server -o json
      benchyard doctor --leaks
    """
    data = default_data_folder(os.environ).absolute()
    if only_leaks:
        return list_leaks(data, output)
    findings = [*check_machine(CheckedMachine.here(data))]
    if ask_server:
        findings += read_server()
    worst = any(finding.verdict is CheckOutcome.BAD for finding in findings)
    show({"ok": not worst, "findings": [asdict(finding) for finding in findings]}, output, _lines(findings))
    return 1 if worst else 0


def list_leaks(data: Path, output: str) -> int:
    """Show remains of devboxes; returns the exit status."""
    found = leaks.find(data)
    lines = [f"{leak.kind}  {clean(leak.name)}: {clean(leak.detail)}" for leak in found]
    lines.append(
        "start a server on this folder: it clears what an earlier one left" if found else "nothing is left"
    )
    show({"ok": not found, "leaks": [asdict(leak) for leak in found]}, output, "\n".join(lines))
    return 1 if found else 0


def read_server() -> list[Finding]:
    """Return the server's findings about itself; an unreachable server is a finding, too."""
    try:
        with connect() as client:
            return list(server_findings(client.doctor(), client.server.url))
    except BenchyardError as error:
        return [Finding("server", CheckOutcome.BAD, error.message, _text(error.details.get("remedy")))]


def server_findings(view: DoctorView, url: str) -> Iterator[Finding]:
    """Yield the server's answer as findings."""
    mode = f", mode {view.mode}" if view.mode else ""
    yield Finding("server", CheckOutcome.GOOD, f"{url}, driver {view.driver}{mode}")
    for failed in view.tried:
        yield Finding(f"mode {failed.mode}", CheckOutcome.LESS, "did not work", failed.reason)
    yield Finding("devboxes have", CheckOutcome.GOOD, ", ".join(view.capabilities) or "nothing")
    for missing in view.missing:
        yield Finding(missing.capability, CheckOutcome.LESS, "not in devboxes", missing.remedy)
    if view.builder_remedy:
        yield Finding("dockerfiles", CheckOutcome.LESS, "cannot be built", view.builder_remedy)
    elif view.builder:
        yield Finding("dockerfiles", CheckOutcome.GOOD, f"built by {view.builder}")
    here = ", ".join(dependency.name for dependency in view.dependencies if dependency.is_here)
    if here:
        yield Finding("programs", CheckOutcome.GOOD, here)
    for lacking in view.dependencies:
        if not lacking.is_here:
            found = f"not on the server; needed for {lacking.needed_for}"
            yield Finding(lacking.name, CheckOutcome.LESS, found, lacking.remedy)
    for stand_in in view.stand_ins:
        yield Finding("stand-in", CheckOutcome.GOOD, stand_in)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _lines(findings: Iterable[Finding]) -> str:
    lines = []
    for finding in findings:
        mark, colour = MARKS[finding.verdict]
        first, *rest = indented(f"{clean(finding.name)}: {clean(finding.found)}", _INDENT)
        lines += [f"{click.style(mark, fg=colour)}  {first}", *rest]
        if finding.remedy and finding.verdict is not CheckOutcome.GOOD:
            first, *rest = indented(clean(finding.remedy), _INDENT)
            lines += [" " * _INDENT + first, *rest]
    return "\n".join(lines)
