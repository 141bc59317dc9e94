"""The runner of escape attempts inside a devbox, which reports their outcomes; needs nothing but Python.

An attempt is a function. It raises OSError when the kernel refuses, returns None when it got nothing, and
returns a text when it got something it should not have. Any other outcome means that the attempt itself is
broken, which proves nothing and is reported as well.
"""

import ctypes
import json
import os
import platform
import signal
import sys
from collections.abc import Callable, Iterable
from typing import Any

Attempt = Callable[[dict[str, Any]], str | None]

REFUSED = "refused"
GOT_NOTHING = "got nothing"
_SECONDS = 10
_COLUMN = {"x86_64": 0, "aarch64": 1}
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def call(numbers: tuple[int | None, int | None], *arguments: int | bytes | None) -> int:
    """Make a system call by its numbers on x86_64 and aarch64; raise OSError, ENOSYS if there is none."""
    number = numbers[_COLUMN[platform.machine()]]
    if number is None:
        raise OSError(38, "this architecture has no such call")
    passed = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = _libc.syscall(ctypes.c_long(number), *passed)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _outcome(attempt: Attempt, facts: dict[str, Any]) -> str:
    try:
        got = attempt(facts)
    except OSError as error:
        return REFUSED if error.errno in _REFUSALS else f"unclear: {error!r}"
    return GOT_NOTHING if got is None else f"SUCCEEDED: {got}"


# EPERM, ENOENT, ESRCH, EIO, ENXIO, EACCES, EXDEV, ENODEV, ETXTBSY, EROFS, ENOSYS, EAFNOSUPPORT, ENETUNREACH,
# ECONNREFUSED, EHOSTUNREACH
_REFUSALS = frozenset({1, 2, 3, 5, 6, 13, 18, 19, 26, 30, 38, 97, 101, 111, 113})


def _try(attempt: Attempt, facts: dict[str, Any]) -> str:
    """Carry one attempt out in a child, because it may well kill the process that makes it."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        signal.alarm(_SECONDS)
        os.write(writer, _outcome(attempt, facts).encode(errors="replace")[:60_000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        said = file.read().decode()
    _pid, status = os.waitpid(pid, 0)
    return said or f"broken: it ended with {status}, see its standard error"


def main(attempts: Iterable[Attempt]) -> None:
    """Carry out all attempts with the facts on standard input, and print the outcome of each."""
    facts = json.load(sys.stdin)
    outcomes = {attempt.__name__.replace("_", " "): _try(attempt, facts) for attempt in attempts}
    sys.stdout.write(json.dumps(outcomes))
