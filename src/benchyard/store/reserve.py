"""Reserved disk space, so that jobs and devboxes can be ended although the disk is full."""

import contextlib
import logging
import os
from pathlib import Path

_MOST_BYTES = 16 * 1024**2
_PART = 50
_AGAIN = 4
"""Multiple of its size that must be free before the space is reserved again."""

_log = logging.getLogger(__name__)


class Reserve:
    """A file that occupies space until ending something needs that space."""

    def __init__(self, file: Path) -> None:
        self._file = file
        disk = os.statvfs(file.parent)
        self._size = min(_MOST_BYTES, disk.f_blocks * disk.f_frsize // _PART)
        self._is_held = False

    def restore(self) -> None:
        """Reserve the space, unless it is reserved already or too little is free."""
        if self._is_held or self._free() < _AGAIN * self._size:
            return
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, self._size)
            self._is_held = True
        except OSError as error:
            _log.warning("no space could be set aside in %s: %s", self._file.parent, error)
        finally:
            os.close(descriptor)

    def lend(self) -> None:
        """Free the space if the disk is nearly full; called before something is ended."""
        if self._free() >= self._size:
            return
        with contextlib.suppress(FileNotFoundError):
            self._file.unlink()
            _log.warning("the disk is full: the space set aside is used to record what ends")
        self._is_held = False

    def _free(self) -> int:
        disk = os.statvfs(self._file.parent)
        return disk.f_bavail * disk.f_frsize
