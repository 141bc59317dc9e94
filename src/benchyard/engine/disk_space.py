"""How much space there is for what the server keeps."""

import shutil
from pathlib import Path

SHORT_BYTES = 64 * 1024**2
"""With more than this free, a write that found no space was not to the server's disk."""


def is_short(data: Path) -> bool:
    """Whether the disk under the data folder is full, or nearly.

    A devbox has folders in memory too, which fill up apart from all disks: a link can lead into one.
    """
    return shutil.disk_usage(data).free < SHORT_BYTES
