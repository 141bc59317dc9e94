"""The system calls a devbox may not make, told to a container engine: `box.seccomp` in its words.

It takes the place of the engine's own filter, so that devboxes have one set of rules whoever holds them. One
rule cannot be told in these words: calls newer than the list are let through, not answered with ENOSYS.
"""

import errno
import json
from collections.abc import Iterable
from typing import Any

from benchyard.devboxes.box import seccomp

_LOWER_HALF = 0xFFFFFFFF
"""The kernel looks at no more than this of the arguments here, and neither may the filter."""
_FAMILIES = 46
_ON_PROCESSES = ("prlimit64", "sched_setscheduler", "sched_setparam", "sched_setattr", "sched_setaffinity")


def profile(*, tracing: bool = True) -> str:
    """The profile, as JSON; without `tracing` no process reaches into another one."""
    families = [number for number in range(_FAMILIES) if number not in seccomp.SOCKET_FAMILIES]
    rules = [
        _refuse([*seccomp.REFUSED, *(() if tracing else seccomp.TRACING)], errno.EPERM),
        _refuse(seccomp.ABSENT, errno.ENOSYS),
        *_if_bits("clone", seccomp.NAMESPACES),
        *_if_bits("unshare", seccomp.NAMESPACES | seccomp.TIME_NAMESPACE),
        *_if_equal(("socket", "socketpair"), 0, families),
        _refuse(("socket", "socketpair"), errno.EAFNOSUPPORT, _compare(0, "GE", _FAMILIES)),
        *_if_equal(("socket",), 2, seccomp.RARE_PROTOCOLS),
        *_if_equal(_ON_PROCESSES, 0, [seccomp.FIRST_PROCESS]),
        *_if_equal(("setpriority",), 0, [seccomp.PRIORITY_OF_A_USER]),
        *_if_equal(("setpriority",), 1, [seccomp.FIRST_PROCESS]),
        *_if_equal(("ioctl",), 1, seccomp.TERMINAL_POWERS),
    ]
    return json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules})


def _refuse(names: Iterable[str], number: int, *arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "names": list(names),
        "action": "SCMP_ACT_ERRNO",
        "errnoRet": number,
        "args": list(arguments),
    }


def _compare(index: int, how: str, value: int, second: int = 0) -> dict[str, Any]:
    return {"index": index, "op": f"SCMP_CMP_{how}", "value": value, "valueTwo": second}


def _if_equal(names: Iterable[str], index: int, values: Iterable[int]) -> list[dict[str, Any]]:
    wanted = list(names)
    return [
        _refuse(wanted, errno.EPERM, _compare(index, "MASKED_EQ", _LOWER_HALF, value)) for value in values
    ]


def _if_bits(name: str, bits: int) -> list[dict[str, Any]]:
    single = [1 << number for number in range(32) if bits & 1 << number]
    return [_refuse([name], errno.EPERM, _compare(0, "MASKED_EQ", bit, bit)) for bit in single]
