"""Escape attempts by reaching out, run inside a devbox: for processes, files, devices and terminals."""

import ctypes
import fcntl
import os
import pty
import signal
import stat
import struct
import termios
from pathlib import Path
from typing import Any

from benchyard.testing.escapes.runner import call, main

Facts = dict[str, Any]

_CHARACTER_DEVICES = {"kmsg": (1, 11), "mem": (1, 1), "port": (1, 4), "fuse": (10, 229), "console": (5, 1)}
_DEVICES = frozenset({"null", "zero", "full", "random", "urandom", "tty", "pts", "ptmx", "shm", "fd"}) | {
    "stdin",
    "stdout",
    "stderr",
}
_PTRACE_ATTACH, _PTRACE_SEIZE = 16, 0x4206


def _machinery() -> list[int]:
    """Return the first process, and every other one of the devbox's own (the supervisors)."""
    pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
    found = [pid for pid in pids if _cmdline(pid).startswith(b"benchyard")]
    assert len(found) > 1, f"this devbox hides its own machinery: {found}"
    return found


def _open_any(paths: list[str], flags: int) -> str | None:
    opened = []
    for path in paths:
        try:
            os.close(os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC))
            opened.append(path)
        except OSError:
            continue
    return f"opened {opened}" if opened else None


def trace_the_machinery(_facts: Facts) -> str | None:
    traced = []
    for pid in _machinery():
        for request in (_PTRACE_ATTACH, _PTRACE_SEIZE):
            try:
                call((101, 117), request, pid, 0, 0)
                traced.append(pid)
            except PermissionError:
                continue
    return f"traced {traced}" if traced else None


def open_the_memory_of_the_machinery(_facts: Facts) -> str | None:
    paths = [f"/proc/{pid}/mem" for pid in _machinery()]
    return _open_any(paths, os.O_RDONLY) or _open_any(paths, os.O_RDWR)


def read_the_memory_of_the_machinery(_facts: Facts) -> str | None:
    buffer = ctypes.create_string_buffer(16)
    here = struct.pack("QQ", ctypes.addressof(buffer), 16)
    for pid in _machinery():
        try:
            call((310, 270), pid, here, 1, struct.pack("QQ", 0x400000, 16), 1, 0)
        except PermissionError:
            continue
        return f"read the memory of {pid}"
    return None


def write_the_memory_of_the_machinery(_facts: Facts) -> str | None:
    buffer = ctypes.create_string_buffer(16)
    here = struct.pack("QQ", ctypes.addressof(buffer), 16)
    for pid in _machinery():
        try:
            call((311, 271), pid, here, 1, struct.pack("QQ", 0x400000, 16), 1, 0)
        except PermissionError:
            continue
        return f"wrote the memory of {pid}"
    return None


def take_descriptors_of_the_machinery(_facts: Facts) -> str | None:
    for pid in _machinery():
        process = os.pidfd_open(pid)
        for number in range(32):
            try:
                call((438, 438), process, number, 0)
            except PermissionError:
                continue
            return f"took descriptor {number} of {pid}"
    return None


def look_into_the_machinery(_facts: Facts) -> str | None:
    names = ("environ", "maps", "exe", "cwd", "root/etc/passwd", "fd/0", "ns/user", "ns/mnt", "auxv")
    return _open_any([f"/proc/{pid}/{name}" for pid in _machinery() for name in names], os.O_RDONLY)


def see_what_is_open_in_the_machinery(_facts: Facts) -> str | None:
    seen = []
    for pid in _machinery():
        try:
            seen += [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]
        except PermissionError:
            continue
    return f"listed {seen}" if seen else None


def kill_the_first_process(_facts: Facts) -> str | None:
    for number in (
        signal.SIGKILL,
        signal.SIGSTOP,
        signal.SIGTERM,
        signal.SIGINT,
        signal.SIGSEGV,
        signal.SIGUSR1,
    ):
        try:
            os.kill(1, number)
        except PermissionError:
            continue
    # The reader of this result checks whether the devbox is still there.
    state = Path("/proc/1/stat").read_text().rpartition(")")[2].split()[0]
    return "the first process was stopped" if state in "TtZX" else None


def see_processes_of_others(facts: Facts) -> str | None:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    seen = [pid for pid in pids if facts["foreign_marker"].encode() in _cmdline(pid)]
    return f"saw {seen}" if seen else None


def _cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def signal_processes_of_others(facts: Facts) -> str | None:
    for pid in facts["foreign_pids"]:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            continue
        if facts["foreign_marker"].encode() in _cmdline(pid):
            return f"could signal {pid}"
    return None


def read_files_of_the_host(facts: Facts) -> str | None:
    prefixes = ("", "/proc/1/root", "/proc/self/root", "/proc/self/cwd/../../../../..", "/../../../..")
    paths = []
    for path in facts["host_files"]:
        for prefix in prefixes:
            try:
                paths.append(Path(prefix + path).read_bytes()[:20])
            except OSError:
                continue
    return f"read {paths}" if facts["secret"].encode() in b" ".join(paths) else None


def break_out_of_a_second_root(facts: Facts) -> str | None:
    os.makedirs("/tmp/inner", exist_ok=True)
    outside = os.open("/", os.O_RDONLY)
    os.chroot("/tmp/inner")
    os.fchdir(outside)
    for _ in range(64):
        os.chdir("..")
    os.chroot(".")
    seen = [path for path in facts["host_files"] if os.path.exists(path)]
    return f"reached {seen}" if seen else None


def write_to_proc(_facts: Facts) -> str | None:
    """Open every file of /proc that concerns the machine, not a process, for writing."""
    paths = []
    for folder, folders, files in os.walk("/proc"):
        if folder == "/proc":
            folders[:] = [
                name for name in folders if not name.isdigit() and name not in ("self", "thread-self")
            ]
        paths += [f"{folder}/{name}" for name in files]
    assert len(paths) > 100, "there is hardly anything in /proc"
    masked = {os.stat("/dev/null").st_rdev}
    return _open_any([path for path in paths if os.stat(path).st_rdev not in masked], os.O_WRONLY)


def read_what_proc_hides(_facts: Facts) -> str | None:
    paths = []
    for name in ("kcore", "keys", "kmsg", "kpagecount", "kpageflags", "kpagecgroup", "timer_list", "vmcore"):
        try:
            descriptor = os.open(f"/proc/{name}", os.O_RDONLY | os.O_NONBLOCK)
            if os.read(descriptor, 64):
                paths.append(name)
        except OSError:
            continue
    return f"read {paths}" if paths else None


def write_to_control_groups(_facts: Facts) -> str | None:
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    places = [line.split()[4] for line in mounts if " - cgroup" in line]
    if places:
        return f"control groups are mounted at {places}"
    return _open_any(
        ["/sys/fs/cgroup/cgroup.procs", "/sys/kernel/uevent_helper", "/sys/power/state"], os.O_WRONLY
    )


def make_device_nodes(_facts: Facts) -> str | None:
    nodes = []
    for folder in ("/tmp", "/dev", "/dev/shm"):
        for name, (major, minor) in _CHARACTER_DEVICES.items():
            try:
                os.mknod(f"{folder}/node-{name}", 0o666 | stat.S_IFCHR, os.makedev(major, minor))
                nodes.append(name)
            except OSError:
                continue
        try:
            os.mknod(f"{folder}/node-disk", 0o666 | stat.S_IFBLK, os.makedev(254, 0))
            nodes.append("disk")
        except OSError:
            continue
    return f"made {nodes}" if nodes else None


def make_a_whiteout(_facts: Facts) -> str | None:
    os.mknod("/tmp/whiteout", stat.S_IFCHR, 0)
    return "made a whiteout"


def find_devices_of_the_host(_facts: Facts) -> str | None:
    more = set(os.listdir("/dev")) - _DEVICES
    return f"found {sorted(more)}" if more else None


def change_the_hosts_devices(_facts: Facts) -> str | None:
    changed = []
    for name in ("null", "zero", "urandom", "tty"):
        path = f"/dev/{name}"
        for change in (lambda path: os.chmod(path, 0o666), lambda path: os.chown(path, 0, 0), os.utime):
            try:
                change(path)
                changed.append(name)
            except OSError:
                continue
    return f"changed {changed}" if changed else None


def become_more_than_allowed(_facts: Facts) -> str | None:
    text = Path("/proc/self/status").read_text()
    sets = {
        line.split(":")[0]: int(line.split()[1], 16) for line in text.splitlines() if line.startswith("Cap")
    }
    # sys_admin, sys_ptrace, sys_module, sys_rawio, mknod, net_admin, net_raw, sys_boot, sys_time,
    # sys_resource, dac_read_search, mac_admin, syslog, bpf, perfmon
    forbidden = sum(1 << number for number in (21, 19, 16, 17, 27, 12, 13, 22, 25, 24, 2, 33, 34, 39, 38))
    over = {name: hex(bits & forbidden) for name, bits in sets.items() if bits & forbidden}
    return f"holds {over}" if over else None


def be_without_a_filter(_facts: Facts) -> str | None:
    text = Path("/proc/self/status").read_text()
    return None if "Seccomp:\t2" in text else "no system call filter is on"


def type_into_a_terminal(_facts: Facts) -> str | None:
    pid, master = pty.fork()
    if pid == 0:
        try:
            fcntl.ioctl(0, termios.TIOCSTI, b"x")
        except OSError:
            os._exit(0)
        os._exit(1)
    _pid, status = os.waitpid(pid, 0)
    os.close(master)
    return "typed" if status else None


def type_into_a_terminal_by_a_wide_number(_facts: Facts) -> str | None:
    """Use a request number whose upper half the kernel ignores; so must the filter."""
    _master, slave = pty.openpty()
    call((16, 29), slave, termios.TIOCSTI | 1 << 32, b"x")
    return "typed"


def replace_the_hosts_python(_facts: Facts) -> str | None:
    return _open_any([f"/proc/{pid}/exe" for pid in _machinery()], os.O_WRONLY)


ATTEMPTS = [
    trace_the_machinery,
    open_the_memory_of_the_machinery,
    read_the_memory_of_the_machinery,
    write_the_memory_of_the_machinery,
    take_descriptors_of_the_machinery,
    look_into_the_machinery,
    see_what_is_open_in_the_machinery,
    kill_the_first_process,
    see_processes_of_others,
    signal_processes_of_others,
    read_files_of_the_host,
    break_out_of_a_second_root,
    write_to_proc,
    read_what_proc_hides,
    write_to_control_groups,
    make_device_nodes,
    make_a_whiteout,
    find_devices_of_the_host,
    change_the_hosts_devices,
    become_more_than_allowed,
    be_without_a_filter,
    type_into_a_terminal,
    type_into_a_terminal_by_a_wide_number,
    replace_the_hosts_python,
]

if __name__ == "__main__":
    main(ATTEMPTS)
