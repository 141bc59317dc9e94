"""File trees: walked, copied, removed, measured and synced; no link is followed, no filesystem left."""

import ctypes
import errno
import os
import stat
from _thread import get_ident
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self


class WorkStopped(Exception):
    """The work was stopped half-way."""


class StopFlag:
    """A flag that, once raised, stops one piece of work."""

    def __init__(self) -> None:
        self.is_raised = False

    def stop(self) -> None:
        """Have the work end at its next check."""
        self.is_raised = True

    def __enter__(self) -> None:
        _flags[get_ident()] = self

    def __exit__(self, *_: object) -> None:
        del _flags[get_ident()]


_flags: dict[int, StopFlag] = {}


def check_stop() -> None:
    """Raise WorkStopped if the work of this thread is to stop; called between any two steps of it."""
    flag = _flags.get(get_ident())
    if flag is not None and flag.is_raised:
        raise WorkStopped


DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags for opening a directory; a link in its place is refused."""

_HELD_DESCRIPTORS = 100


def walk_tree(
    visit: Callable[[], list[str]], enter: Callable[[str], bool], leave: Callable[[str], None]
) -> None:
    """Walk depth first: `visit` returns the subdirectories of the place, `leave` follows each one entered."""
    pending = [visit()]
    while pending:
        check_stop()
        if pending[-1]:
            if enter(pending[-1][-1]):
                pending.append(visit())
            else:
                pending[-1].pop()
        else:
            pending.pop()
            if pending:
                leave(pending[-1].pop())


def has_more_entries(path: str, most: int) -> bool:
    """Tell, by names alone, whether a tree has more entries than that; what cannot be read has none."""
    left = [path]
    seen = 0
    while left:
        try:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if seen > most:
                        return True
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
        except OSError:
            continue
    return False


class TreeCursor:
    """A directory inside a tree and the way back up, with few descriptors at any depth."""

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
        """Enter a subdirectory; return False (and do not move) if another filesystem is mounted there."""
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
            fd = os.open("..", DIRECTORY_FLAGS, dir_fd=self.fd)
            if _identity(fd) != above:
                os.close(fd)
                raise OSError(errno.ESTALE, "a directory was moved while its tree was walked", self.names[-1])
        self.names.pop()
        os.close(self.fd)
        self.fd = fd

    def _open(self, name: str, parent: int | None) -> int:
        if not self._unlock:
            return os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
        try:
            fd = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
        except PermissionError:
            _unlock_closed(name, parent)
            fd = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
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


OPAQUE = "user.overlay.opaque"
"""Attribute that hides the lower layers' content of a directory; overlays are mounted with `userxattr`."""
_ENGINES_OPAQUE = "trusted.overlay.opaque"
"""The same attribute on the disks of a container engine."""

_NICE = 10
_PIECE_BYTES = 256 * 1024**2
_NO_COPY_RANGE = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}
_NOT_WRITABLE = {errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.EINVAL}
_NOT_LINKABLE = {errno.EMLINK, errno.ENAMETOOLONG}
_NOT_SHARABLE = {errno.EMLINK, errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP}
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


def remove_tree(path: str) -> None:
    """Remove the file or tree at `path`, if any; directories closed to their owner are opened first."""
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            os.unlink(path)
            return
    except FileNotFoundError:
        return
    with TreeCursor(path, unlock=True) as place:

        def enter(name: str) -> bool:
            if not place.down(name):
                raise OSError(errno.EBUSY, "something is mounted inside the tree to remove", name)
            return True

        def leave(name: str) -> None:
            place.up()
            os.rmdir(name, dir_fd=place.fd)

        walk_tree(lambda: _remove_files(place), enter, leave)
    os.rmdir(path)


def _remove_files(place: TreeCursor) -> list[str]:
    """Remove all but directories, whose names are returned."""
    directories = []
    with os.scandir(place.fd) as entries:
        for entry in entries:
            check_stop()
            if entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=place.fd)
    return directories


def remove_tree_slowly(path: str) -> None:
    """Remove a tree while the processor is idle: for a process that has no other work."""
    os.nice(_NICE)
    remove_tree(path)


def tree_usage(path: str, most: int | None = None) -> tuple[int, int]:
    """Return bytes on disk (hard links once) and number of entries below `path`, which may change meanwhile.

    Counting stops beyond `most` bytes.
    """
    with TreeCursor(path) as place:
        count = _Count(place, most)
        walk_tree(count.visit, count.enter, lambda name: place.up())
    return count.bytes, count.entries


class BlockSum:
    """Bytes on disk of the entries added so far, hard links once."""

    def __init__(self) -> None:
        self.bytes = 0
        self.entries = 0
        self._linked: set[tuple[int, int]] = set()

    def add(self, status: os.stat_result) -> None:
        """Add an entry."""
        self.entries += 1
        if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
            identity = (status.st_dev, status.st_ino)
            if identity in self._linked:
                return
            self._linked.add(identity)
        self.bytes += status.st_blocks * 512


class _Count(BlockSum):
    """The sums of a walk so far."""

    def __init__(self, place: TreeCursor, most: int | None) -> None:
        super().__init__()
        self._place = place
        self._most = most

    def visit(self) -> list[str]:
        directories = []
        with os.scandir(self._place.fd) as entries:
            for entry in entries:
                check_stop()
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if stat.S_ISDIR(status.st_mode):
                    directories.append(entry.name)
                self.add(status)
                if self._most is not None and self.bytes > self._most:
                    return []
        return directories

    def enter(self, name: str) -> bool:
        if self._most is not None and self.bytes > self._most:
            return False
        try:
            return self._place.down(name)
        except OSError as error:
            if error.errno in _GONE:
                return False
            raise


def sync_tree(path: str) -> None:
    """Write the filesystem that holds `path` to disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(fd) != 0:
            code = ctypes.get_errno()
            if code != errno.ENOSYS:
                raise OSError(code, os.strerror(code), path)
            os.sync()
    finally:
        os.close(fd)


def copy_tree(source: str, target: str, *, keep_owner: bool = True, link: bool = False) -> None:
    """Copy a tree to `target`, which must not exist, with everything that makes it the same layer.

    With `link`, files are further names of the source's own, where the filesystem allows it.

    The top folder itself keeps the caller as owner and stays open to it, so that it can be moved about. Marks
    of `trusted.overlay` become those of `user.overlay`. Sockets, device nodes other than whiteouts, and
    extended attributes that the caller may not write are left out.
    """
    with TreeCursor(source) as from_place:
        os.mkdir(target, 0o700)
        with TreeCursor(target) as to_place:
            copy = Copy(from_place, to_place, os.path.abspath(target), keep_owner=keep_owner)
            copy.link = link
            walk_tree(copy.visit, copy.enter, copy.leave)
            copy.finish()


class Copy:
    """A pair of places that move through source and target together."""

    def __init__(self, source: TreeCursor, target: TreeCursor, top: str, *, keep_owner: bool) -> None:
        self._source = source
        self._target = target
        self._top = top
        self._keep_owner = keep_owner
        self._linked: dict[tuple[int, int], str] = {}
        self.link = False

    def visit(self) -> list[str]:
        directories = []
        with os.scandir(self._source.fd) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    directories.append(entry.name)
                else:
                    self.copy_entry(entry.name, entry.stat(follow_symlinks=False))
        return directories

    def enter(self, name: str) -> bool:
        os.mkdir(name, 0o700, dir_fd=self._target.fd)
        if self._source.down(name):
            return self._target.down(name)
        mounted = os.stat(name, dir_fd=self._source.fd, follow_symlinks=False)
        os.chmod(name, stat.S_IMODE(mounted.st_mode), dir_fd=self._target.fd)
        return False

    def leave(self, name: str) -> None:
        copy_attributes(
            self._source.fd, self._target.fd, os.fstat(self._source.fd), keep_owner=self._keep_owner
        )
        self._source.up()
        self._target.up()

    def finish(self) -> None:
        """Give the top folder the attributes of the source's that it may have."""
        copy_attributes(self._source.fd, self._target.fd, os.fstat(self._source.fd), keep_owner=False)
        os.fchmod(self._target.fd, stat.S_IMODE(os.fstat(self._target.fd).st_mode) | 0o700)

    def copy_entry(self, name: str, status: os.stat_result) -> None:
        """Copy an entry that is not a directory; further names of a copied file become links to the copy."""
        check_stop()
        if status.st_nlink > 1 and self._link(name, status):
            return
        if stat.S_ISREG(status.st_mode):
            if not (self.link and self._share(name)):
                self._copy_file(name, status)
        elif stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(name, dir_fd=self._source.fd), name, dir_fd=self._target.fd)
            self._settle(name, status)
        elif stat.S_ISFIFO(status.st_mode):
            os.mkfifo(name, 0o600, dir_fd=self._target.fd)
            self._settle(name, status)
            os.chmod(name, stat.S_IMODE(status.st_mode), dir_fd=self._target.fd)
        elif is_whiteout(status):
            make_whiteout(name, self._target.fd)

    def _link(self, name: str, status: os.stat_result) -> bool:
        """Link to the existing copy of the same file; return False if this is the first name of it."""
        identity = (status.st_dev, status.st_ino)
        first = self._linked.get(identity)
        if first is not None:
            try:
                os.link(first, name, dst_dir_fd=self._target.fd, follow_symlinks=False)
                return True
            except OSError as error:
                if error.errno not in _NOT_LINKABLE:
                    raise
        self._linked[identity] = os.path.join(self._top, *self._target.names, name)
        return False

    def _share(self, name: str) -> bool:
        """Make the target another name of the source's file; return False if that is not possible."""
        try:
            source, target = self._source.fd, self._target.fd
            os.link(name, name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
        except OSError as error:
            if error.errno in _NOT_SHARABLE:
                return False
            raise
        return True

    def _settle(self, name: str, status: os.stat_result) -> None:
        if self._keep_owner:
            os.chown(name, status.st_uid, status.st_gid, dir_fd=self._target.fd, follow_symlinks=False)
        times = (status.st_atime_ns, status.st_mtime_ns)
        os.utime(name, ns=times, dir_fd=self._target.fd, follow_symlinks=False)

    def _copy_file(self, name: str, status: os.stat_result) -> None:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        source = os.open(name, flags, dir_fd=self._source.fd)
        try:
            target = create_file(name, self._target.fd)
            try:
                copy_content(source, target, status)
                copy_attributes(source, target, status, keep_owner=self._keep_owner)
            finally:
                os.close(target)
        finally:
            os.close(source)


def create_file(name: str, parent: int | None) -> int:
    """Make a new file, closed to others until its attributes are set."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, 0o600, dir_fd=parent)


def is_whiteout(status: os.stat_result) -> bool:
    """Tell whether an entry is overlayfs's mark of a deleted name."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def is_opaque(directory: int) -> bool:
    """Tell whether a directory hides the lower layers' content."""
    return any(_mark(directory, name) == b"y" for name in (OPAQUE, _ENGINES_OPAQUE))


def _mark(directory: int, name: str) -> bytes | None:
    try:
        return os.getxattr(directory, name)
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.EOPNOTSUPP):
            return None
        raise


def make_whiteout(name: str, parent: int) -> None:
    """Mark a name as deleted for overlayfs."""
    try:
        os.mknod(name, stat.S_IFCHR, 0, dir_fd=parent)
    except PermissionError as error:
        message = "this kernel does not let this user mark deleted files (needs Linux 5.8 or root)"
        raise OSError(errno.EPERM, message, name) from error


def copy_attributes(source: int, target: int, status: os.stat_result, *, keep_owner: bool) -> None:
    """Copy owner, extended attributes, mode and times, in an order in which they do not undo each other."""
    if keep_owner:
        os.fchown(target, status.st_uid, status.st_gid)
    copy_xattrs(source, target)
    os.fchmod(target, stat.S_IMODE(status.st_mode))
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def copy_xattrs(source: int, target: int) -> None:
    """Copy extended attributes, as far as the caller may write them."""
    for name in xattr_names(source):
        set_xattr(target, name, os.getxattr(source, name))


def xattr_names(fd: int) -> list[str]:
    """Return the names of a file's extended attributes; none if the filesystem does not support them."""
    try:
        return os.listxattr(fd)
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            return []
        raise


def set_xattr(fd: int, name: str, value: bytes) -> None:
    """Set an attribute that belongs to a layer, if the caller may; overlay marks must succeed."""
    if name.startswith("security.") and name != "security.capability":
        return
    if name.startswith("trusted.overlay."):
        name = "user." + name.removeprefix("trusted.")
    try:
        os.setxattr(fd, name, value)
    except OSError as error:
        if name.startswith("user.overlay.") or error.errno not in _NOT_WRITABLE:
            raise


def copy_content(source: int, target: int, status: os.stat_result) -> None:
    """Copy the content of a file, holes as holes."""
    size = status.st_size
    if status.st_blocks * 512 >= size:
        _copy_range(source, target, 0, size)
        return
    for start, end in data_ranges(source, size):
        _copy_range(source, target, start, end)
    os.ftruncate(target, size)


def data_ranges(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each range of data in a file; between them are holes."""
    offset = 0
    while offset < size:
        try:
            start = os.lseek(fd, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        offset = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, min(offset, size)


def _copy_range(source: int, target: int, start: int, end: int) -> None:
    while start < end:
        check_stop()
        piece = min(end - start, _PIECE_BYTES)
        try:
            copied = os.copy_file_range(source, target, piece, start, start)
        except OSError as error:
            if error.errno not in _NO_COPY_RANGE:
                raise
            os.lseek(target, start, os.SEEK_SET)
            copied = os.sendfile(target, source, start, piece)
        if copied == 0:
            return
        start += copied
