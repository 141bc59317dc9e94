"""Freezing everything in a devbox for a moment, so that nothing forks while it is listed or killed.

A chain of processes, each of which forks the next and ends, slips between the scans of /proc, and between a
scan and the signals that follow it. The devbox's first process therefore freezes all others before it looks:
by a control group, which it leaves for that moment, or by signals where there is no group.
"""

import contextlib
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from benchyard.devboxes.guest import processes

INNER = "inside"
"""The group, inside the devbox's own, that normally holds all its processes."""
_FREEZE_SECONDS = 5.0
"""Time to freeze: each of thousands of processes needs the processor once before it stands still."""
_KILL_SECONDS = 20.0
_LOOK_SECONDS = 0.001


class Freezer(ABC):
    """Means to stop all processes of a devbox but this one."""

    @contextlib.contextmanager
    def hold(self) -> Iterator[bool]:
        """Keep all processes still for the block; processes stopped before stay stopped after it.

        Yields True if all stood still in time; else some may have forked meanwhile.
        """
        is_still = self._stop()
        try:
            yield is_still
        finally:
            self._release()

    def close(self) -> None:
        """Close its descriptors, in a forked child that does not need them."""
        return

    @abstractmethod
    def _stop(self) -> bool: ...

    @abstractmethod
    def _release(self) -> None: ...

    def kill(self, find: Callable[[], list[int]]) -> bool:
        """Kill the result of `find` until it is empty while all stand still; False if it takes too long."""
        deadline = time.monotonic() + _KILL_SECONDS
        while True:
            with self.hold() as is_still:
                pids = find()
                # Parents last: the kernel continues the stopped children of a parent that ends.
                processes.signal_each(pids[::-1], signal.SIGKILL)
            if not pids and is_still:
                return True
            if time.monotonic() > deadline:
                return False
            while any((seen := processes.read_process(pid)) and seen.is_alive for pid in pids):
                if time.monotonic() > deadline:
                    return False
                time.sleep(_LOOK_SECONDS)


def open_group(outer: str) -> list[int]:
    """Return descriptors by which a first process in the inner group of `outer` freezes it.

    The caller closes them. They are opened with full rights: the kernel checks rights at opening, not at use.
    """
    inner = f"{outer}/{INNER}"
    is_old = os.path.exists(f"{inner}/freezer.state")
    switch, names = ("freezer.state",) * 2 if is_old else ("cgroup.freeze", "cgroup.events")
    files = [(f"{outer}/cgroup.procs", os.O_WRONLY), (f"{inner}/cgroup.procs", os.O_WRONLY)]
    files += [(f"{inner}/{switch}", os.O_WRONLY), (f"{inner}/{names}", os.O_RDONLY)]
    opened: list[int] = []
    try:
        for path, how in files:
            opened.append(os.open(path, how | os.O_CLOEXEC))
    except OSError:
        for descriptor in opened:
            os.close(descriptor)
        raise
    return opened


def join(descriptors: list[int]) -> None:
    """Move this process into the inner group."""
    os.pwrite(descriptors[1], b"0", 0)


class SignalFreezer(Freezer):
    """Freezer that sends stop signals until two looks agree; processes stopped before stay stopped.

    `everybody` means that signals to all processes (-1) reach those of this devbox and no others. A process
    that keeps sending signals to continue may delay it, and is killed like others by the next look.
    """

    def __init__(self, *, everybody: bool) -> None:
        self._everybody = everybody
        self._resting: set[int] = set()

    def _stop(self) -> bool:
        self._resting = {pid for pid, seen in _others().items() if seen.state in processes.STOPPED}
        deadline = time.monotonic() + _FREEZE_SECONDS
        before: set[int] | None = None
        while True:
            if self._everybody:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(-1, signal.SIGSTOP)
            else:
                processes.signal_each(list(_others()), signal.SIGSTOP)
            others = _others()
            is_still = all(seen.is_still for seen in others.values())
            if is_still and before == set(others):
                return True
            before = set(others) if is_still else None
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_SECONDS)

    def _release(self) -> None:
        processes.signal_each([pid for pid in _others() if pid not in self._resting], signal.SIGCONT)


def _others() -> dict[int, processes.ProcessStat]:
    seen = processes.living()
    return {pid: seen[pid] for pid in processes.below(os.getpid(), seen)}


class GroupFreezer(Freezer):
    """Freezer of the inner group, of version 1 or 2; nothing inside can undo it, not even a signal.

    If the kernel does not let this process out of the group and in again, it falls back to signals.
    """

    def __init__(self, descriptors: list[int], instead: SignalFreezer) -> None:
        self._leave, self._join, self._switch, self._told = descriptors
        self._instead: SignalFreezer = instead
        self._is_usable = True
        is_new = b"frozen" in os.pread(self._told, 256, 0)
        self._on, self._off = (b"1", b"0") if is_new else (b"FROZEN", b"THAWED")
        self._sign = b"frozen 1" if is_new else b"FROZEN"

    def close(self) -> None:
        for descriptor in (self._leave, self._join, self._switch, self._told):
            os.close(descriptor)

    @contextlib.contextmanager
    def hold(self) -> Iterator[bool]:
        if self._is_usable:
            try:
                os.pwrite(self._leave, b"0", 0)
            except OSError:
                self._is_usable = False
        with super().hold() if self._is_usable else self._instead.hold() as is_still:
            yield is_still

    def _stop(self) -> bool:
        deadline = time.monotonic() + _FREEZE_SECONDS
        while time.monotonic() < deadline:
            os.pwrite(self._switch, self._on, 0)
            if self._sign in os.pread(self._told, 256, 0).splitlines():
                return True
            time.sleep(_LOOK_SECONDS)
        return False

    def _release(self) -> None:
        os.pwrite(self._switch, self._off, 0)
        try:
            os.pwrite(self._join, b"0", 0)
        except OSError:
            # New processes are not in the group from now on.
            self._is_usable = False


def make_freezer(descriptors: list[int], *, everybody: bool) -> Freezer:
    """Return the best freezer available: of a group by its descriptors, or by signals."""
    by_signal = SignalFreezer(everybody=everybody)
    return GroupFreezer(descriptors, by_signal) if descriptors else by_signal
