"""What this machine has for devboxes: processors and memory, as far as the server may use them."""

import os
from dataclasses import dataclass
from pathlib import Path

_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


@dataclass(frozen=True)
class MachineSize:
    """One machine's size."""

    cpus: float
    memory_bytes: int


def this_machine() -> MachineSize:
    """The machine this process runs on, or the part of it that the process was given."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return MachineSize(float(len(os.sched_getaffinity(0))), min([total, *_limits()]))


def _limits() -> list[int]:
    found = []
    for path in _LIMITS:
        try:
            text = path.read_text().strip()
        except OSError:
            # That version of control groups is not the one here.
            continue
        if text.isdigit():
            found.append(int(text))
    return found
