"""User namespaces of devboxes: the mapping of ids of the host to ids inside."""

import contextlib
import os
import pwd
from collections.abc import Callable

from benchyard.devboxes.guest import syscalls

ROOT_IDMAP = "root-idmap"
ROOT = "root"
ROOTLESS_RANGE = "rootless-range"
ROOTLESS_SINGLE = "rootless-single"

_FIRST_ID = 1_000_000
_IDS = 65_536
_KEEP_RIGHTS = 1 << 2
"""SECBIT_NO_SETUID_FIXUP."""


class UserNamespaces:
    """User namespaces, made once and reused: a slot is a range of ids, used by one devbox at a time."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], int] = {}

    def get(self, mode: str, slot: int) -> int | None:
        """Return a descriptor of the namespace; None in the mode that has none."""
        if mode == ROOT:
            return None
        key = (mode, slot if mode == ROOT_IDMAP else 0)
        if key not in self._known:
            writers: dict[str, Callable[[int], None]] = {
                ROOT_IDMAP: lambda pid: _write_range(pid, slot),
                ROOTLESS_RANGE: _ask_for_range,
                ROOTLESS_SINGLE: _write_single,
            }
            owner = _FIRST_ID + slot * _IDS if mode == ROOT_IDMAP else None
            self._known[key] = _make(writers[mode], owner)
        return self._known[key]


def enter(namespace: int, *, can_change_user: bool) -> None:
    """Enter a user namespace as its root."""
    syscalls.setns(namespace, syscalls.CLONE_NEWUSER)
    if can_change_user:
        os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def _make(write_maps: Callable[[int], None], owner: int | None) -> int:
    ready, tell = os.pipe2(os.O_CLOEXEC)
    hold, release = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            if owner is not None:
                _turn_into(owner)
            syscalls.unshare(syscalls.CLONE_NEWUSER)
            os.write(tell, b"x")
            os.close(release)
            os.read(hold, 1)
        finally:
            os._exit(0)
    try:
        os.close(tell)
        if os.read(ready, 1) != b"x":
            raise OSError(1, "user namespaces are not allowed here", "unshare")
        write_maps(pid)
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        for descriptor in (ready, hold, release):
            os.close(descriptor)


def _turn_into(owner: int) -> None:
    """Become the user who will own the namespace, with all rights kept.

    The kernel counts some resources per user (watches of inotify, for one), also against a namespace's owner:
    if that were root, a devbox would use up the resources of the host's own root.
    """
    syscalls.prctl(syscalls.PR_SET_SECUREBITS, _KEEP_RIGHTS)
    os.setresgid(owner, owner, owner)
    os.setresuid(owner, owner, owner)


def _write(pid: int, name: str, text: str) -> None:
    descriptor = os.open(f"/proc/{pid}/{name}", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _write_range(pid: int, slot: int) -> None:
    line = f"0 {_FIRST_ID + slot * _IDS} {_IDS}"
    _write(pid, "uid_map", line)
    _write(pid, "gid_map", line)


def _write_single(pid: int) -> None:
    _write(pid, "setgroups", "deny")
    _write(pid, "uid_map", f"0 {os.getuid()} 1")
    _write(pid, "gid_map", f"0 {os.getgid()} 1")


def _ask_for_range(pid: int) -> None:
    """Map the ranges that /etc/subuid and /etc/subgid grant this user, by newuidmap and newgidmap."""
    for tool, granted, own in (
        ("newuidmap", "/etc/subuid", os.getuid()),
        ("newgidmap", "/etc/subgid", os.getgid()),
    ):
        start, count = _granted(granted)
        arguments = [tool, str(pid), "0", str(own), "1", "1", str(start), str(min(count, _IDS - 1))]
        if _run(arguments) != 0:
            raise OSError(1, f"{tool} refused the ids that {granted} grants", tool)


def _granted(path: str) -> tuple[int, int]:
    user = pwd.getpwuid(os.getuid()).pw_name
    try:
        with open(path, encoding="utf-8") as file:
            rows = [line.strip().split(":") for line in file]
    except FileNotFoundError:
        rows = []
    for row in rows:
        if len(row) == 3 and row[0] in (user, str(os.getuid())):
            return int(row[1]), int(row[2])
    raise OSError(2, f"{path} grants no ids to {user}", path)


def _run(arguments: list[str]) -> int:
    for folder in ("/usr/bin", "/bin", "/usr/local/bin"):
        program = f"{folder}/{arguments[0]}"
        if os.path.exists(program):
            pid = os.posix_spawn(program, arguments, {"PATH": "/usr/bin:/bin"}, setsigdef=[17])
            # The zygote lets the kernel reap its children, so there is no status: look at the maps.
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
            return 0 if _mapped(arguments) else 1
    raise OSError(2, "not installed", arguments[0])


def _mapped(arguments: list[str]) -> bool:
    name = "uid_map" if arguments[0] == "newuidmap" else "gid_map"
    with open(f"/proc/{arguments[1]}/{name}", encoding="ascii") as file:
        return len(file.readlines()) == 2
