"""Escape attempts through resources that a kernel shares, run inside a devbox: memory, queues, mounts."""

import ctypes
import fcntl
import os
import resource
import termios
from pathlib import Path
from typing import Any

from benchyard.testing.escapes.runner import main

Facts = dict[str, Any]

_MOST_TERMINALS = 1024
_HDLC = 13
_libc = ctypes.CDLL(None, use_errno=True)


def _require_success(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def attach_to_memory_of_the_host(facts: Facts) -> str | None:
    return f"found segment {_require_success(_libc.shmget(facts['memory_key'], 0, 0))}"


def list_memory_of_others(_facts: Facts) -> str | None:
    seen = [
        line
        for name in ("shm", "msg", "sem")
        for line in Path(f"/proc/sysvipc/{name}").read_text().splitlines()[1:]
    ]
    return f"saw {seen}" if seen else None


def open_a_queue_of_the_host(facts: Facts) -> str | None:
    _require_success(_libc.mq_open(facts["queue"].encode(), os.O_RDWR, 0, None))
    return "opened"


def find_mounts_that_the_host_shares(_facts: Facts) -> str | None:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    shared = [
        line for line in lines if {"shared", "master"} & {part.split(":")[0] for part in line.split()[6:]}
    ]
    return f"found {shared}" if shared else None


def find_mounts_with_devices(_facts: Facts) -> str | None:
    """Find mounts on which a device node would act as that device."""
    lines = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    kept = ("/dev", "/proc")
    open_ones = [fields[4] for fields in lines if "nodev" not in fields[5].split(",")]
    paths = [path for path in open_ones if not f"{path}/".startswith(tuple(f"{place}/" for place in kept))]
    return f"found {paths}" if paths else None


def inherit_descriptors(_facts: Facts) -> str | None:
    """Find descriptors beyond the runner's own: the three of every command, and its input pipe."""
    held = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            held[name] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
    foreign = {name: path for name, path in held.items() if not path.startswith("pipe:") and int(name) > 2}
    return f"holds {foreign}" if foreign else None


def use_up_the_machines_terminals(_facts: Facts) -> str | None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    for count in range(_MOST_TERMINALS):
        try:
            os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
        except OSError:
            assert count > 16, "a devbox has hardly any terminals"
            return None
    return f"has more than {_MOST_TERMINALS}"


def load_a_driver_for_a_terminal(_facts: Facts) -> str | None:
    _master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSETD, _HDLC.to_bytes(4, "little"))
    return "loaded"


ATTEMPTS = [
    attach_to_memory_of_the_host,
    list_memory_of_others,
    open_a_queue_of_the_host,
    find_mounts_that_the_host_shares,
    find_mounts_with_devices,
    inherit_descriptors,
    use_up_the_machines_terminals,
    load_a_driver_for_a_terminal,
]

if __name__ == "__main__":
    main(ATTEMPTS)
