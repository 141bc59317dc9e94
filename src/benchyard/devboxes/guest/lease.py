"""The warden of a driver's folder: ends frozen devboxes after their leases.

A devbox's first process ends by itself if no server was in touch for the time of its lease; a frozen one
cannot. The warden waits beside the zygote until the server's lock is free, however server and zygote ended.
It exits when a server is there again, or with the last devbox. It touches devboxes only under the driver's
lock, so that no server reattaches to one meanwhile.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import time
from collections.abc import Iterator
from typing import Any, NoReturn

from benchyard.devboxes.guest import confinement, freezer, processes

LOCK = "lock"
"""Lock held by the server's driver while it lives."""
_OWN_LOCK = "warden"
"""Lock held by the one warden of a folder."""
INDEX = "devboxes"
"""A folder of links to the folders of devboxes."""
NOTE = "box.json"
_LOOK_SECONDS = 0.5
_GRACE_SECONDS = 2.0
_PATIENCE_SECONDS = 10.0
_EMPTIES_SECONDS = 0.5
"""Seconds within which the processes of a devbox that has ended leave its control groups."""
_PAUSE_SECONDS = 0.01
_SUCCESSION_SECONDS = 5.0
"""Seconds to wait for an earlier warden, which exits when it sees our server."""
_MAX_NOTE = 64 * 1024


def living_devboxes(folder: str) -> list[dict[str, Any]]:
    """Return the notes of all devboxes of a driver's folder with a living first process."""
    devboxes = []
    for note in _notes(folder):
        descriptor = _open(note)
        if descriptor is not None:
            os.close(descriptor)
            devboxes.append(note)
    return devboxes


def run_warden(folder: str) -> NoReturn:
    """Act as the warden (in a forked child of the zygote)."""
    os.setsid()
    processes.set_title("benchyard waiting warden")
    confinement.close_all_but(set())
    try:
        if _is_only_one(folder):
            _wait_for_duty(folder)
            processes.set_title("benchyard warden")
            _guard(folder)
    finally:
        os._exit(0)


def _is_only_one(folder: str) -> bool:
    """Tell whether this process is the folder's warden; it then holds the lock for life."""
    descriptor = _open_lock(folder, _OWN_LOCK)
    deadline = time.monotonic() + _SUCCESSION_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # A warden left by a killed zygote waits for the same server: it will do.
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_SECONDS)
        else:
            return True


def _wait_for_duty(folder: str) -> None:
    """Return when no server holds the driver's lock."""
    descriptor = _open_lock(folder, LOCK)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.close(descriptor)


def _open_lock(folder: str, name: str) -> int:
    return os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _guard(folder: str) -> None:
    since = time.monotonic()
    while True:
        with _locked(folder) as is_alone:
            if not is_alone:
                return
            # One time for all of them: a server that starts waits for the lock.
            deadline = time.monotonic() + _EMPTIES_SECONDS
            for note in _notes(folder):
                _look_after(note, time.monotonic() - since, deadline)
            if not living_devboxes(folder):
                return
        time.sleep(_LOOK_SECONDS)


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[bool]:
    """Hold the driver's lock for a moment; yield False if a server has it."""
    descriptor = _open_lock(folder, LOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(descriptor)


def _notes(folder: str) -> list[dict[str, Any]]:
    notes = []
    try:
        names = os.listdir(f"{folder}/{INDEX}")
    except FileNotFoundError:
        return []
    for name in names:
        try:
            with open(f"{folder}/{INDEX}/{name}/{NOTE}", "rb") as file:
                note = json.loads(file.read(_MAX_NOTE))
        except (OSError, ValueError):
            continue
        notes.append(note)
    return notes


def _open(note: dict[str, Any]) -> int | None:
    return processes.open_same(note["pid"], note["start_time"], note["boot_id"])


def _look_after(note: dict[str, Any], alone_seconds: float, deadline: float) -> None:
    """End a devbox after its lease; for one that has ended by itself, remove the control groups."""
    descriptor = _open(note)
    if descriptor is not None:
        try:
            if alone_seconds < note["lease"] + _GRACE_SECONDS or not end_devbox(descriptor, note["groups"]):
                return
        finally:
            os.close(descriptor)
    for group in note["groups"]:
        with contextlib.suppress(OSError):
            os.rmdir(f"{group}/{freezer.INNER}")
        # Processes still in the group after this time are left to the next server to clear.
        while not _is_removed(group) and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(group))


def _is_removed(group: str) -> bool:
    """Remove a control group; return False while the kernel still counts processes that have just died."""
    try:
        os.rmdir(group)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def end_devbox(descriptor: int, groups: list[str]) -> bool:
    """End a first process, frozen or not, and wait; return False if it stays."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    for group in (*(f"{group}/{freezer.INNER}" for group in groups), *groups):
        # A frozen process dies only when it is thawed.
        with contextlib.suppress(OSError):
            _write(f"{group}/freezer.state", b"THAWED")
        with contextlib.suppress(OSError):
            _write(f"{group}/cgroup.freeze", b"0")
    gone = select.poll()
    gone.register(descriptor, select.POLLIN)
    return bool(gone.poll(_PATIENCE_SECONDS * 1000))


def _write(path: str, text: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text)
    finally:
        os.close(descriptor)
