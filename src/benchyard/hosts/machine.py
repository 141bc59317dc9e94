"""The processors and memory of this machine, as far as the server may use them."""

import os
from dataclasses import dataclass
from pathlib import Path

_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


@dataclass(frozen=True)
class MachineSize:
    """The size of a machine."""

    cpus: float
    memory_bytes: int


def this_machine() -> MachineSize:
    """Return the machine this process runs on, or the part of it that the process was given."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return MachineSize(float(len(os.sched_getaffinity(0))), min([total, *_limits()]))


def _limits() -> list[int]:
    found = []
    for path in _LIMITS:
        try:
            text = path.read_text().strip()
        except OSError:
            # This version of control groups is not in use here.
            continue
        if text.isdigit():
            found.append(int(text))
    return found
