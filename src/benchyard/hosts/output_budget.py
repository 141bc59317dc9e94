"""How much of what commands print is kept: per stream, devbox and machine, and while there is space."""

import os
from dataclasses import dataclass
from pathlib import Path

from benchyard.devboxes.base import Limits

LEAST_BYTES = 1024**2
"""What a stream may always say: a command that is cut to nothing could not tell why it failed."""
MOST_SPARE_BYTES = 1024**3
_SPARE_PART = 20


@dataclass
class OutputBudget:
    """What all outputs on this machine may take together."""

    most_bytes: int | None = None
    kept_bytes: int = 0
    """What they took when they were last measured, and what ended since then."""
    spare_bytes: int = 0
    """How much of the disk is left to others."""

    def measure_disk(self, folder: Path) -> None:
        """Decide what is left to others: a part of the disk that holds the outputs."""
        disk = os.statvfs(folder)
        self.spare_bytes = min(MOST_SPARE_BYTES, disk.f_blocks * disk.f_frsize // _SPARE_PART)

    def stream_bytes(self, limits: Limits, used_bytes: int) -> int:
        """What each stream of the next command of a devbox may say, which has said so much already."""
        if self.most_bytes is not None and self.kept_bytes >= self.most_bytes:
            return min(LEAST_BYTES, limits.output_bytes)
        if limits.all_output_bytes is None:
            return limits.output_bytes
        left = (limits.all_output_bytes - used_bytes) // 2
        return min(limits.output_bytes, max(left, LEAST_BYTES))


def tree_bytes(folder: Path) -> int:
    """What the outputs below a folder of executions take; blocks."""
    total = 0
    try:
        with os.scandir(folder) as executions:
            for execution in executions:
                for stream in ("stdout", "stderr"):
                    try:
                        total += os.stat(f"{execution.path}/{stream}").st_size  # noqa: PTH116  (many of them)
                    except OSError:
                        continue
    except OSError:
        return 0
    return total
