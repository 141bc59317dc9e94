"""Means to find and end all descendants of a process, wherever they forked to."""

import ctypes
import functools
import os
import signal
from typing import NamedTuple

_DEAD = (b"Z", b"X")
STOPPED = (b"T", b"t")
_STILL = (*STOPPED, b"D", *_DEAD)
"""States in which a program does nothing; one that waits for the kernel stops before it goes on."""
WALL = 0x40000000
"""Wait for children whatever signal their end sends."""


def set_title(title: str) -> None:
    """Show `title` as this process's command line instead of the paths it was started with."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    text = title.encode()[: end - start - 1]
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, text, len(text))


@functools.cache
def boot_id() -> str:
    """Return the id of the machine's current boot."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def start_time(pid: int) -> int | None:
    """Return the start time of a process, in ticks since boot; None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read(4096).rpartition(b")")[2].split()
    except OSError:
        return None
    # A process that is only waiting to be reaped counts as gone.
    return int(fields[19]) if len(fields) > 19 and fields[0] not in (b"Z", b"X") else None


def is_stopped(pid: int) -> bool:
    """Tell whether a process was stopped by a signal, so that it does nothing until it is continued."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read(4096).rpartition(b")")[2].split()[:1] == [b"T"]
    except OSError:
        return False


def open_same(pid: int, started: int, boot: str) -> int | None:
    """Return a descriptor of a process, if it is still the one started then; the caller closes it."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    if boot_id() == boot and start_time(pid) == started:
        return descriptor
    os.close(descriptor)
    return None


def wake_on_child() -> int:
    """Return a descriptor that becomes readable whenever a child of this process ends."""
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    return reader


class ProcessStat(NamedTuple):
    """A process, as the kernel reports it."""

    pid: int
    parent: int
    state: bytes
    threads: int
    name: bytes
    started: int
    """Start time, in ticks since boot."""

    @property
    def is_alive(self) -> bool:
        """Tell whether any of its threads goes on: the first may have ended before the others."""
        return self.state not in _DEAD or self.threads > 1

    @property
    def is_still(self) -> bool:
        """Tell whether all its threads stand still at the moment."""
        if self.state in _DEAD:
            return all(state in _STILL for state in thread_states(self.pid))
        return self.state in _STILL


def read_process(pid: int) -> ProcessStat | None:
    """Look at a process; return None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # A name may hold any characters; the text after the last parenthesis is safe to split.
            before, _separator, rest = file.read(4096).rpartition(b")")
    except OSError:
        return None
    fields = rest.split()
    if len(fields) < 20:
        return None
    name = before.partition(b"(")[2]
    return ProcessStat(pid, int(fields[1]), fields[0], int(fields[17]), name, int(fields[19]))


def thread_states(pid: int) -> list[bytes]:
    """Return the state of each visible thread of a process."""
    states = []
    try:
        names = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    for name in names:
        try:
            with open(f"/proc/{pid}/task/{name}/stat", "rb") as file:
                states += file.read(4096).rpartition(b")")[2].split()[:1]
        except OSError:
            continue
    return states


def living() -> dict[int, ProcessStat]:
    """Return every visible process that has not ended, by pid."""
    processes = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (seen := read_process(int(name))) and seen.is_alive:
            processes[seen.pid] = seen
    return processes


def parents() -> dict[int, int]:
    """Return pid -> parent's pid of every visible process."""
    return {pid: seen.parent for pid, seen in living().items()}


def descendants(root: int, spared: frozenset[int] = frozenset()) -> list[int]:
    """Return every live process below `root`, which must be a child subreaper for this to be complete.

    Processes in `spared` are left out, with everything below them. Processes forked meanwhile may be missed.
    """
    return below(root, living(), spared)


def below(root: int, seen: dict[int, ProcessStat], spared: frozenset[int] = frozenset()) -> list[int]:
    """Return the seen processes that descend from `root`, parents before their children.

    Processes in `spared` are left out, with everything below them.
    """
    children: dict[int, list[int]] = {}
    for pid, each in seen.items():
        if pid not in spared:
            children.setdefault(each.parent, []).append(pid)
    pids: list[int] = []
    queue = [root]
    while queue:
        for pid in children.get(queue.pop(), ()):
            pids.append(pid)
            queue.append(pid)
    return pids


def signal_each(pids: list[int], number: int) -> None:
    """Send a signal to each process that still exists and may be signalled."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def kill_round(root: int) -> bool:
    """Kill everything below `root` that a scan finds, and return whether there was any.

    Stopping it first keeps it from forking meanwhile.
    """
    pids = descendants(root)
    signal_each(pids, signal.SIGSTOP)
    # Parents last: the kernel continues the stopped children of a parent that ends.
    signal_each(pids[::-1], signal.SIGKILL)
    return bool(pids)
