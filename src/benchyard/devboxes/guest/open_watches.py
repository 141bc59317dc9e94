"""Watching files of a devbox for being opened: inotify watches, added where the files can be read.

The devbox's root comes as a descriptor, and every path is resolved inside it. Each watch reports once, so
that no program inside can drown out the other reports. The kernel does not report that a link is followed, so
its target is watched: a file, or a folder with all folders in it, each of which reports the files opened in
it.
"""

import ctypes
import errno
import itertools
import json
import os
import re
import stat
import struct
from typing import Self

from benchyard.devboxes.layers.path_weight import is_program

_IN_OPEN = 0x20
_IN_DONT_FOLLOW = 0x02000000
_IN_ONESHOT = 0x80000000
_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_IN_ROOT = 0x10
_SHOWN_BYTE = re.compile(rb"\\x([0-9a-f]{2})")
_MISSING = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL}
_NO_ROOM = {errno.ENOSPC, errno.ENOMEM}

NOTHING = -1
"""In the place of a watch: the path does not exist, or is only a folder."""
UNWATCHED = -2
"""In the place of a watch: the path exists and cannot be watched."""
MOST_FOLDERS = 2000
"""Most folders watched because links lead to them."""
_FOLDER = -3
"""In the place of a watch, while others are added: a link leads to a folder."""

Watches = int | list[int]
"""The watch of a path, or those of a link that leads to a folder; see `NOTHING` and `UNWATCHED`."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def open_watcher() -> int:
    """Return a descriptor that reports events of watched files."""
    descriptor = int(_libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "inotify_init1")
    return descriptor


def remove_watch(watcher: int, watch: int) -> None:
    """Remove a watch, if it still exists."""
    _libc.inotify_rm_watch(watcher, watch)


def add_watches(root: int, watcher: int, sheet: int) -> None:
    """Watch the files listed by path in the file `sheet`; the list of their watches replaces it.

    A link stands for the file or folder that it leads to. If the kernel has no room for all, the first ones
    are watched, and the rest is `UNWATCHED`.
    """
    paths = json.loads(os.pread(sheet, os.fstat(sheet).st_size, 0))
    watches: list[Watches] = []
    with _Neighbours(root, watcher) as neighbours:
        for path in paths:
            try:
                watches.append(neighbours.add(path))
            except OSError as error:
                watches.append(UNWATCHED)
                if error.errno in _NO_ROOM:
                    break
    links = {index: os.fsencode(paths[index]) for index, each in enumerate(watches) if each == _FOLDER}
    watches += [UNWATCHED] * (len(paths) - len(watches))
    for index in links:
        watches[index] = UNWATCHED
    _add_folders(root, watcher, links, watches)
    os.ftruncate(sheet, 0)
    text = json.dumps(watches).encode()
    os.pwrite(sheet, text, 0)


class _Neighbours:
    """Files that follow each other and lie in one folder: the folder is resolved once for all of them."""

    def __init__(self, root: int, watcher: int) -> None:
        self._root = root
        self._watcher = watcher
        self._folder = b""
        self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._close()

    def add(self, path: str) -> int:
        """Watch one file; a path that is no such file, or leads elsewhere, is resolved as a whole."""
        folder, _, name = os.fsencode(path).rpartition(b"/")
        if self._is_in(folder) and name not in (b"", b".", b"..") and b"\0" not in name:
            try:
                mode = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mode
            except (FileNotFoundError, NotADirectoryError):
                mode = stat.S_IFLNK
            if stat.S_ISDIR(mode):
                return NOTHING
            if not stat.S_ISLNK(mode):
                return _watch(self._watcher, self._descriptor, name)
        return _add(self._root, self._watcher, path)

    def _is_in(self, folder: bytes) -> bool:
        if folder != self._folder or self._descriptor < 0:
            self._close()
            self._folder, self._descriptor = folder, _open(self._root, folder or b"/", follow=True)
        return self._descriptor >= 0

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _add(root: int, watcher: int, path: str) -> int:
    name = os.fsencode(path)
    file = _open(root, name)
    if file < 0 and b"\\x" in name:
        # Bytes that are not text are shown in this form.
        name = _SHOWN_BYTE.sub(lambda found: bytes([int(found[1], 16)]), name)
        file = _open(root, name)
    if file < 0:
        return NOTHING
    try:
        mode = os.fstat(file).st_mode
        if stat.S_ISLNK(mode):
            return _add_target(root, watcher, name)
        return NOTHING if stat.S_ISDIR(mode) else _watch(watcher, file)
    finally:
        os.close(file)


def _add_target(root: int, watcher: int, link: bytes) -> int:
    """Watch the target of a link; raise OSError if that cannot be found out."""
    file = _open(root, link, follow=True)
    if file < 0:
        # A link that leads in a circle, or to a place that differs for each process, still leads somewhere. A
        # program whose link leads nowhere cannot be run any more.
        is_circle = ctypes.get_errno() == errno.ELOOP
        return UNWATCHED if is_circle or is_program(link.decode(errors="replace")) else NOTHING
    try:
        if stat.S_ISDIR(os.fstat(file).st_mode):
            return _FOLDER
        return _watch(watcher, file)
    finally:
        os.close(file)


def _add_folders(root: int, watcher: int, links: dict[int, bytes], watches: list[Watches]) -> None:
    """Watch the folders that links lead to, and all folders in them: programs there would run unnoticed.

    If they are too many, a link is `UNWATCHED`. All are listed before any is watched, since listing opens
    them.
    """
    folders_added = {}
    left = MOST_FOLDERS
    for index, link in links.items():
        folders = _folders(root, link, left)
        if folders is not None:
            left -= len(folders)
            folders_added[index] = folders
    for index, folders in folders_added.items():
        try:
            watches[index] = [_watch_at(root, watcher, folder) for folder in folders]
        except OSError:
            # The watches already added for this link belong to no path, so their reports are ignored.
            watches[index] = UNWATCHED


def _folders(root: int, link: bytes, most: int) -> list[bytes] | None:
    """Return the folder that a link leads to, the folders in it, and the targets of links in those.

    None if that cannot be found out, or there are more than `most`.
    """
    folders, seen = [link], set()
    for place in folders:
        try:
            folder = _open(root, place, follow=True, reads=True)
        except OSError:
            return None
        if folder < 0:
            # A file, or a link to nothing. A folder too deep for its path may hold anything.
            if place == link or ctypes.get_errno() == errno.ENAMETOOLONG:
                return None
            continue
        try:
            status = os.fstat(folder)
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(folder) as entries:
                names = (entry.name for entry in entries if entry.is_symlink() or entry.is_dir())
                inner = list(itertools.islice(names, most + 1))
        finally:
            os.close(folder)
        folders += [place + b"/" + os.fsencode(name) for name in inner]
        if len(folders) > most:
            return None
    return folders


def _watch_at(root: int, watcher: int, place: bytes) -> int:
    file = _open(root, place, follow=True)
    if file < 0:
        return NOTHING
    try:
        return _watch(watcher, file)
    finally:
        os.close(file)


def _watch(watcher: int, file: int, name: bytes | None = None) -> int:
    """Watch a file, or a name in a folder, which is not followed if it has become a link meanwhile."""
    place, how = f"/proc/self/fd/{file}".encode(), _IN_OPEN | _IN_ONESHOT
    if name is not None:
        place, how = place + b"/" + name, how | _IN_DONT_FOLLOW
    watch = int(_libc.inotify_add_watch(watcher, place, ctypes.c_uint32(how)))
    if watch < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return watch


def _open(root: int, name: bytes, *, follow: bool = False, reads: bool = False) -> int:
    """Return a descriptor of the file, or -1; only a folder opened with `reads` can be read."""
    if b"\0" in name:
        return -1
    kind = os.O_RDONLY | os.O_DIRECTORY if reads else os.O_PATH
    flags = kind | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    how = struct.pack("=QQQ", flags, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
    opened = int(_libc.syscall(_OPENAT2, root, name, how, ctypes.c_size_t(len(how))))
    if opened < 0 and ctypes.get_errno() not in _MISSING:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), name)
    return opened
