"""Programs that try to outlive their end, run inside a devbox: `python3 kill_tricks.py NAME`.

Each writes `x` to descriptor 8 once its trick is under way. The reader of that pipe sees the end of the file
once no process of it is left, wherever it has forked to. A trick that could not be ended ends by itself
within two minutes, and forks no faster than it must: a driver without limits must not fill its machine.
"""

import contextlib
import ctypes
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable

_SIGN = 8
_END = time.monotonic() + 100
_PACE_SECONDS = 0.0005
_CHAINS = 4
_IS_ARM = platform.machine() == "aarch64"
_EXIT, _CLONE, _PTRACE = (93, 220, 117) if _IS_ARM else (60, 56, 101)
_CLONE_PARENT, _CLONE_VM, _CLONE_VFORK = 0x8000, 0x100, 0x4000
_SEIZE, _TRACE_EXIT = 0x4206, 0x40
_libc = ctypes.CDLL(None)


def _begin() -> None:
    os.write(_SIGN, b"x")


def _for_ever() -> None:
    while time.monotonic() < _END:
        time.sleep(0.01)
    os._exit(0)


def _leave_by_first_thread(work: Callable[[], None]) -> None:
    """End the first thread, so that the process shows as a zombie, and go on in another."""
    threading.Thread(target=work).start()
    _libc.syscall(_EXIT, 0)


def _roll(*, apart: bool = False) -> None:
    """Fork the next process and end, for ever."""
    _wait_a_little()
    if os.fork():
        os._exit(0)
    if apart:
        os.setsid()


def _wait_a_little() -> None:
    if time.monotonic() > _END:
        os._exit(0)
    time.sleep(_PACE_SECONDS)


def zombie_leader() -> None:
    """End the first thread while another goes on."""

    def work() -> None:
        _begin()
        _for_ever()

    _leave_by_first_thread(work)


def rolling_fork() -> None:
    """Run a chain of processes, each of which lives for less time than a scan takes."""
    for at in range(100_000_000):
        if at == 20:
            _begin()
        _roll()


def rolling_sessions() -> None:
    """Run some such chains side by side, each link in a session of its own."""
    for _ in range(_CHAINS):
        if os.fork() == 0:
            break
    _begin()
    while True:
        _roll(apart=True)


def rolling_zombies() -> None:
    """Run a chain of processes that show as zombies while a thread of theirs forks the next."""
    _begin()

    def work() -> None:
        _wait_a_little()
        if os.fork():
            _wait_a_little()
            os._exit(0)
        _leave_by_first_thread(work)

    _leave_by_first_thread(work)


def undone_stops() -> None:
    """Run a chain whose links send themselves the signal to continue, as fast as they can."""
    _begin()
    while True:
        for _ in range(50):
            os.kill(os.getpid(), signal.SIGCONT)
        _roll()


def adopted_siblings() -> None:
    """Make children that are their parent's siblings from the start."""
    _begin()
    while True:
        _wait_a_little()
        if _libc.syscall(_CLONE, _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0):
            os._exit(0)


def subreaper() -> None:
    """Run a daemon that becomes the subreaper instead of the supervisor, deaf to signals."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if os.fork():
        _for_ever()
    os.setsid()
    _libc.prctl(36, 1, 0, 0, 0)
    if os.fork() == 0:
        if os.fork() == 0:
            _begin()
        _for_ever()
    with contextlib.suppress(ChildProcessError):
        os.wait()
    _for_ever()


def crowd() -> None:
    """Run more processes than a short list shows, each with a thread that outlives its first."""
    for _ in range(250):
        if os.fork() == 0:
            _leave_by_first_thread(_for_ever)
    _begin()
    _for_ever()


def suspended_parents() -> None:
    """Run a chain whose links wait in the kernel for a child that shares their memory, and never lets go."""
    _begin()
    while True:
        _wait_a_little()
        if os.fork():
            # The parent of a vfork stands still, uninterruptible but for kills.
            _libc.syscall(_CLONE, _CLONE_VM | _CLONE_VFORK | signal.SIGCHLD, 0, 0, 0, 0)
            _for_ever()


def held_at_their_exit() -> None:
    """Trace a crowd that is stopped in its last moment, even by a kill, until its tracer lets go."""
    traced = []
    for _ in range(30):
        if (pid := os.fork()) == 0:
            _for_ever()
        _libc.syscall(_PTRACE, ctypes.c_long(_SEIZE), ctypes.c_long(pid), ctypes.c_long(0), _TRACE_EXIT)
        traced.append(pid)
    for pid in traced[::2]:
        os.kill(pid, signal.SIGKILL)
    _begin()
    _leave_by_first_thread(_for_ever)


TRICKS: dict[str, Callable[[], None]] = {
    trick.__name__: trick
    for trick in (
        zombie_leader,
        rolling_fork,
        rolling_sessions,
        rolling_zombies,
        undone_stops,
        adopted_siblings,
        subreaper,
        crowd,
        suspended_parents,
        held_at_their_exit,
    )
}

if __name__ == "__main__":
    TRICKS[sys.argv[1]]()
