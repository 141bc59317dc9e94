"""Ways by which one process reaches into another, run inside a devbox: `python3 reach_tricks.py WORD FILE`.

It waits, as a process whose first thread has ended, for another one that has WORD among its arguments, tries
every way on it, and writes the outcome of each into FILE. If none comes, it ends within two minutes.
"""

import contextlib
import ctypes
import os
import platform
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

_END = time.monotonic() + 100
_IS_ARM = platform.machine() == "aarch64"
_EXIT, _PTRACE, _READ, _WRITE = (93, 117, 270, 271) if _IS_ARM else (60, 101, 310, 311)
_TAKE_DESCRIPTOR = 438
_SEIZE, _DETACH = 0x4206, 17
_libc = ctypes.CDLL(None, use_errno=True)


def _call(number: int, *given: int) -> int:
    done: int = _libc.syscall(*(ctypes.c_long(each) for each in (number, *given)))
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done


def _trace(pid: int) -> None:
    _call(_PTRACE, _SEIZE, pid, 0, 0)
    with contextlib.suppress(OSError):
        _call(_PTRACE, _DETACH, pid, 0, 0)


def _vm(number: int) -> Callable[[int], None]:
    def reach(pid: int) -> None:
        word = ctypes.create_string_buffer(8)
        here = (ctypes.c_long * 2)(ctypes.addressof(word), 8)
        line = next(line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if " rw" in line)
        there = (ctypes.c_long * 2)(int(line.split("-")[0], 16), 8)
        if number == _WRITE:
            # The bytes that are there already, so that the target does not crash.
            _call(_READ, pid, ctypes.addressof(here), 1, ctypes.addressof(there), 1, 0)
        _call(number, pid, ctypes.addressof(here), 1, ctypes.addressof(there), 1, 0)

    return reach


def _take_descriptor(pid: int) -> None:
    own = os.pidfd_open(pid)
    try:
        os.close(_call(_TAKE_DESCRIPTOR, own, 1, 0))
    finally:
        os.close(own)


def _open(name: str, how: int) -> Callable[[int], None]:
    def reach(pid: int) -> None:
        os.close(os.open(f"/proc/{pid}/{name}", how))

    return reach


WAYS: dict[str, Callable[[int], None]] = {
    "ptrace": _trace,
    "process_vm_readv": _vm(_READ),
    "process_vm_writev": _vm(_WRITE),
    "pidfd_getfd": _take_descriptor,
    "memory": _open("mem", os.O_RDWR),
    "descriptor": _open("fd/1", os.O_WRONLY),
    "environment": _open("environ", os.O_RDONLY),
}


def attempts(pid: int) -> dict[str, str]:
    """Return the outcome of each way."""
    said = {}
    for name, reach in WAYS.items():
        try:
            reach(pid)
            said[name] = "done"
        except OSError as error:
            said[name] = os.strerror(error.errno or 0)
    return said


def _has(pid: int, word: str) -> bool:
    try:
        return word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def _work(word: str, file: str) -> None:
    while time.monotonic() < _END:
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        found = [pid for pid in pids if pid != os.getpid() and _has(pid, word)]
        if found:
            lines = [f"{name}: {came_to}\n" for name, came_to in attempts(found[0]).items()]
            Path(f"{file}.part").write_text("".join(lines))
            Path(f"{file}.part").rename(file)
            os._exit(0)
        time.sleep(0.01)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_work, args=(sys.argv[1], sys.argv[2])).start()
    _libc.syscall(_EXIT, 0)
