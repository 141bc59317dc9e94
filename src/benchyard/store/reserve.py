"""Space that is set aside, so that what is to end can end although the disk is full."""

import contextlib
import logging
import os
from pathlib import Path

_MOST_BYTES = 16 * 1024**2
_PART = 50
_AGAIN = 4
"""How many times its size has to be free before it is set aside again."""

_log = logging.getLogger(__name__)


class Reserve:
    """A file that takes space until somebody needs it to end something."""

    def __init__(self, file: Path) -> None:
        self._file = file
        disk = os.statvfs(file.parent)
        self._size = min(_MOST_BYTES, disk.f_blocks * disk.f_frsize // _PART)
        self._is_held = False

    def restore(self) -> None:
        """Set the space aside, unless it is, or there is too little."""
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
        """Give the space back where there is hardly any other; called before something is ended."""
        if self._free() >= self._size:
            return
        with contextlib.suppress(FileNotFoundError):
            self._file.unlink()
            _log.warning("the disk is full: what was set aside is used to end what is to end")
        self._is_held = False

    def _free(self) -> int:
        disk = os.statvfs(self._file.parent)
        return disk.f_bavail * disk.f_frsize
