"""Database files that only their owner may read."""

import os
from pathlib import Path

_BESIDE = ("-wal", "-shm", "-journal")


def keep_private(file: Path) -> None:
    """Create a SQLite file if needed, and make it and the files beside it readable by their owner only.

    Files that SQLite creates beside it later get the file's own mode.
    """
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for path in (file, *(file.with_name(file.name + end) for end in _BESIDE)):
        try:
            if path.stat().st_mode & 0o077:
                path.chmod(0o600)
        except FileNotFoundError:
            continue
