"""Watching files of a devbox for being opened: watches of inotify, added where the files may be read.

The devbox's root comes as a descriptor, and every path is resolved inside it. Each watch tells once, so that
nobody inside can drown the others out.
"""

import ctypes
import errno
import json
import os
import re
import stat
import struct

_IN_OPEN = 0x20
_IN_ONESHOT = 0x80000000
_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_IN_ROOT = 0x10
_SHOWN_BYTE = re.compile(rb"\\x([0-9a-f]{2})")
_MISSING = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def begin() -> int:
    """A descriptor that tells of watched files."""
    descriptor = int(_libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "inotify_init1")
    return descriptor


def forget(watcher: int, watch: int) -> None:
    """Take a watch away, if it is still there."""
    _libc.inotify_rm_watch(watcher, watch)


def add_watches(root: int, watcher: int, sheet: int) -> None:
    """Watch the files whose paths are listed in the file `sheet`; the list of their watches replaces it.

    What is missing, or no regular file, has none (-1). Raises OSError if one that is there cannot be watched.
    """
    paths = json.loads(os.pread(sheet, os.fstat(sheet).st_size, 0))
    watches: list[int] = []
    try:
        for path in paths:
            watches.append(_add(root, watcher, path))
    except OSError:
        for watch in watches:
            forget(watcher, watch)
        raise
    os.ftruncate(sheet, 0)
    text = json.dumps(watches).encode()
    os.pwrite(sheet, text, 0)


def _add(root: int, watcher: int, path: str) -> int:
    name = os.fsencode(path)
    file = _open(root, name)
    if file < 0 and b"\\x" in name:
        # As a byte is shown that is no text.
        file = _open(root, _SHOWN_BYTE.sub(lambda found: bytes([int(found[1], 16)]), name))
    if file < 0:
        return -1
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return -1
        place = f"/proc/self/fd/{file}".encode()
        watch = int(_libc.inotify_add_watch(watcher, place, ctypes.c_uint32(_IN_OPEN | _IN_ONESHOT)))
        if watch < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
        return watch
    finally:
        os.close(file)


def _open(root: int, name: bytes) -> int:
    """A descriptor of the file, which nothing can be read by; -1 if there is none."""
    if b"\0" in name:
        return -1
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    how = struct.pack("=QQQ", flags, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
    opened = int(_libc.syscall(_OPENAT2, root, name, how, ctypes.c_size_t(len(how))))
    if opened < 0 and ctypes.get_errno() not in _MISSING:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), name)
    return opened
