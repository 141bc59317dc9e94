"""Opening files below a folder as if it were the root: no link of any kind leads out of it."""

import ctypes
import errno
import os
import platform
import stat
import struct
from pathlib import Path

from benchyard.devboxes.base import OpenFile
from benchyard.devboxes.guest.files import create_fresh
from benchyard.errors import BenchyardError, NotFound, NotSupported, UsageError

_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_IN_ROOT = 0x10
_MAX_PATH = 4096


def open_below(root: Path, path: str, request: OpenFile) -> int:
    """Open the regular file `path`, absolute as seen from inside `root`, by the rules of `open_file`."""
    if "\0" in path or len(os.fsencode(path)) >= _MAX_PATH:
        raise UsageError(
            f"not a usable path: it must be shorter than {_MAX_PATH} bytes and have no NUL in it"
        )
    if request.emptied_for:
        raise NotSupported("this driver cannot make a folder anew; use the native driver")
    place = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if request.write:
            _make_parents(place, path)
            if request.fresh:
                return _make_anew(place, path, request.mode)
        flags = os.O_WRONLY | os.O_CREAT if request.write else os.O_RDONLY
        mode = request.mode if request.write else 0
        return _check_regular(_openat2(place, path, flags, mode), request)
    except OSError as error:
        raise _open_error(error, path) from error
    finally:
        os.close(place)


def _openat2(place: int, path: str, flags: int, mode: int = 0) -> int:
    flags |= os.O_CLOEXEC
    if not flags & os.O_PATH:
        flags |= os.O_NONBLOCK | os.O_NOCTTY
    how = struct.pack("=QQQ", flags, mode & 0o7777, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    opened = int(libc.syscall(_OPENAT2, place, os.fsencode(path), how, ctypes.c_size_t(len(how))))
    if opened < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    return opened


def _make_parents(place: int, path: str) -> None:
    parts = [part for part in path.split("/")[:-1] if part not in ("", ".")]
    for count in range(1, len(parts) + 1):
        here = "/" + "/".join(parts[:count])
        try:
            os.close(_openat2(place, here, os.O_PATH | os.O_DIRECTORY))
        except FileNotFoundError:
            above = _openat2(place, "/" + "/".join(parts[: count - 1]), os.O_PATH | os.O_DIRECTORY)
            try:
                os.mkdir(parts[count - 1], 0o755, dir_fd=above)
            finally:
                os.close(above)


def _make_anew(place: int, path: str, mode: int) -> int:
    above, _slash, name = path.rpartition("/")
    if name in ("", ".", ".."):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    parent = _openat2(place, above or "/", os.O_PATH | os.O_DIRECTORY)
    try:
        return create_fresh(name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, mode, parent)
    finally:
        os.close(parent)


def _check_regular(descriptor: int, request: OpenFile) -> int:
    try:
        kind = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(kind):
            number = errno.EISDIR if stat.S_ISDIR(kind) else errno.EINVAL
            raise OSError(number, "not a regular file")
        if request.write and request.truncate:
            os.ftruncate(descriptor, 0)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _open_error(error: OSError, path: str) -> BenchyardError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return NotFound(f"the devbox has no file {path}")
    if error.errno == errno.ENOSYS:
        return NotSupported(
            f"this driver needs Linux 5.6 or newer to reach files; here is {platform.release()}"
        )
    return UsageError(f"cannot open {path}: {error.strerror}")
