"""Finding and ending everything that descends from a process, wherever it forked to."""

import ctypes
import functools
import os
import signal
import time
from collections.abc import Callable

_PATIENCE_SECONDS = 10.0


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
    """Which boot of the machine this is."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def start_time(pid: int) -> int | None:
    """When a process began, in ticks since boot; None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read(4096).rpartition(b")")[2].split()
    except OSError:
        return None
    # One that nobody has reaped yet is as good as gone.
    return int(fields[19]) if len(fields) > 19 and fields[0] not in (b"Z", b"X") else None


def is_stopped(pid: int) -> bool:
    """Whether somebody stopped a process, so that it does nothing until it is told to go on."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read(4096).rpartition(b")")[2].split()[:1] == [b"T"]
    except OSError:
        return False


def open_same(pid: int, started: int, boot: str) -> int | None:
    """A descriptor of a process, if it is still the one that began then; the caller closes it."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    if boot_id() == boot and start_time(pid) == started:
        return descriptor
    os.close(descriptor)
    return None


def wake_on_child() -> int:
    """A descriptor that becomes readable whenever a child of this process ends."""
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    return reader


def parents() -> dict[int, int]:
    """pid -> parent's pid of every process that can be seen."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # A name may hold anything; what follows its last parenthesis is safe to split.
                    fields = file.read(4096).rpartition(b")")[2].split()
            except OSError:
                continue
            if fields and fields[0] != b"Z":
                found[int(name)] = int(fields[1])
    return found


def descendants(root: int, spared: frozenset[int] = frozenset()) -> list[int]:
    """Every live process below `root`, which must be a child subreaper for this to be complete.

    Those that are `spared` are left out, with everything below them.
    """
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        if pid not in spared:
            children.setdefault(parent, []).append(pid)
    found: list[int] = []
    queue = [root]
    while queue:
        for pid in children.get(queue.pop(), ()):
            found.append(pid)
            queue.append(pid)
    return found


def kill_descendants(root: int, spared: frozenset[int] = frozenset()) -> bool:
    """Kill everything below `root`, but not who is spared; False if something kept forking for too long.

    Stopping first keeps a fork bomb from outrunning the sweep.
    """
    return _kill_while(lambda: descendants(root, spared))


def kill_all_but(root: int, ours: frozenset[int]) -> bool:
    """Kill everything below `root` but these, also what is below them; False if that took too long."""
    return _kill_while(lambda: [pid for pid in descendants(root) if pid not in ours])


def _kill_while(found: Callable[[], list[int]]) -> bool:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        alive = found()
        if not alive:
            return True
        if time.monotonic() > deadline:
            return False
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in alive:
                try:
                    os.kill(pid, number)
                except (ProcessLookupError, PermissionError):
                    continue
        time.sleep(0.001)
