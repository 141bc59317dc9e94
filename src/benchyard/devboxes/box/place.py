"""A place in a file tree: walks of any depth that never follow a link and never leave their filesystem."""

import errno
import os
from collections.abc import Callable
from types import TracebackType
from typing import Self

from benchyard.devboxes.box import stop

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a directory is opened so that a link is never taken for one."""

_HELD_DESCRIPTORS = 100


def walk(visit: Callable[[], list[str]], enter: Callable[[str], bool], leave: Callable[[str], None]) -> None:
    """Walk depth first: `visit` names the subdirectories of the place, `leave` follows each one entered."""
    pending = [visit()]
    while pending:
        stop.check()
        if pending[-1]:
            if enter(pending[-1][-1]):
                pending.append(visit())
            else:
                pending[-1].pop()
        else:
            pending.pop()
            if pending:
                leave(pending[-1].pop())


class Place:
    """A directory inside a tree and the way back up, with few descriptors however deep it is."""

    def __init__(self, path: str, *, unlock: bool = False, held: int = _HELD_DESCRIPTORS) -> None:
        self.names: list[str] = []
        self._held = held
        self._above: list[int | tuple[int, int]] = []
        self._unlock = unlock
        self.fd = self._open(path, None)
        self._device = os.fstat(self.fd).st_dev

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.fd)
        for above in self._above:
            if isinstance(above, int):
                os.close(above)

    def down(self, name: str) -> bool:
        """Enter a subdirectory; False (and no move) when another filesystem is mounted there."""
        fd = self._open(name, self.fd)
        if os.fstat(fd).st_dev != self._device:
            os.close(fd)
            return False
        if len(self._above) < self._held:
            self._above.append(self.fd)
        else:
            self._above.append(_identity(self.fd))
            os.close(self.fd)
        self.names.append(name)
        self.fd = fd
        return True

    def up(self) -> None:
        """Go back to the parent directory."""
        above = self._above.pop()
        if isinstance(above, int):
            fd = above
        else:
            fd = os.open("..", DIRECTORY, dir_fd=self.fd)
            if _identity(fd) != above:
                os.close(fd)
                raise OSError(errno.ESTALE, "a directory was moved while its tree was walked", self.names[-1])
        self.names.pop()
        os.close(self.fd)
        self.fd = fd

    def _open(self, name: str, parent: int | None) -> int:
        if not self._unlock:
            return os.open(name, DIRECTORY, dir_fd=parent)
        try:
            fd = os.open(name, DIRECTORY, dir_fd=parent)
        except PermissionError:
            _unlock_closed(name, parent)
            fd = os.open(name, DIRECTORY, dir_fd=parent)
        if os.fstat(fd).st_mode & 0o700 != 0o700:
            os.fchmod(fd, 0o700)
        return fd


def _unlock_closed(name: str, parent: int | None) -> None:
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{handle}", 0o700)
    finally:
        os.close(handle)


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino
