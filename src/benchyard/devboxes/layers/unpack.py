"""Unpacking of one layer's tar: OCI whiteouts become overlay marks, and no file lands outside the target."""

import bz2
import errno
import gzip
import io
import lzma
import math
import os
import re
import shutil
import stat
import subprocess
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, cast

from benchyard.devboxes.layers import trees
from benchyard.devboxes.layers.trees import (
    DIRECTORY_FLAGS,
    OPAQUE,
    create_file,
    is_whiteout,
    make_whiteout,
    remove_tree,
    set_xattr,
)

_CHUNK = 256 * 1024
_HEADER_BYTES = 4 * 1024**2
_TRAILER_BYTES = 1024**2
_BROKEN = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, RecursionError)


@dataclass(frozen=True)
class ArchiveLimits:
    """Limits on the content of one archive; more is refused."""

    entries: int = 2_000_000
    bytes: int = 64 * 1024**3
    """Most bytes of all files together, and of the unpacked stream."""
    path_bytes: int = 4096


@dataclass(frozen=True)
class ArchiveMember:
    """An entry of an archive, and a reader of its content."""

    info: tarfile.TarInfo
    chunks: Iterator[bytes]


def archive_members(archive: str, limits: ArchiveLimits) -> Iterator[ArchiveMember]:
    """Yield the entries of a tar in order; read each one's chunks before the next. Raises ValueError."""
    with _opened(archive) as raw:
        stream = _Forward(raw, limits.bytes)
        stream.budget = _HEADER_BYTES
        with _explain_errors():
            file = cast(IO[bytes], stream)
            tar = tarfile.TarFile(fileobj=file, mode="r", encoding="utf-8", errors="surrogateescape")
        yield from _members(tar, stream, limits)
        with _explain_errors():
            stream.drain(_TRAILER_BYTES)


@contextmanager
def _explain_errors() -> Iterator[None]:
    """Turn signs of a broken archive into ValueError; decompressors raise OSError without a number."""
    try:
        yield
    except _BROKEN as error:
        raise ValueError(f"not a readable tar archive ({type(error).__name__}: {error})") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise ValueError(f"not a readable tar archive: {error}") from error


def _next(tar: tarfile.TarFile) -> tarfile.TarInfo | None:
    with _explain_errors():
        return tar.next()


def _members(tar: tarfile.TarFile, stream: "_Forward", limits: ArchiveLimits) -> Iterator[ArchiveMember]:
    entries = total = 0
    while (info := _next(tar)) is not None:
        entries += 1
        total += info.size
        if entries > limits.entries:
            raise ValueError(f"the archive has more than {limits.entries} entries")
        if info.size < 0 or total > limits.bytes:
            raise ValueError(f"the archive holds more than {limits.bytes} bytes")
        stream.budget = info.size + _HEADER_BYTES
        yield ArchiveMember(info, _chunks(tar, info))
        cast(Any, tar).members.clear()  # tarfile would keep all of them in memory
        stream.budget = _HEADER_BYTES
    if stream.last.strip(b"\0"):
        raise ValueError(f"the archive is broken at byte {stream.tell()}")


def _chunks(tar: tarfile.TarFile, info: tarfile.TarInfo) -> Iterator[bytes]:
    reader = tar.extractfile(info) if info.isreg() else None
    if reader is None:
        return
    left = info.size
    while left > 0:
        with _explain_errors():
            chunk = reader.read(min(_CHUNK, left))
        if not chunk:
            raise ValueError(f"the archive ends inside {info.name!r}")
        left -= len(chunk)
        yield chunk


class _Forward(io.RawIOBase):
    """The stream that tarfile reads: forward only, and never beyond its budget and limit."""

    def __init__(self, raw: IO[bytes], limit: int) -> None:
        super().__init__()
        self.budget = 0
        self.last = b""
        self._raw = raw
        self._limit = limit
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > self.budget:
            raise ValueError(f"the archive has a header of more than {_HEADER_BYTES} bytes")
        self.budget -= size
        self.last = self._take(size)
        return self.last

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET or offset < self._position:
            raise ValueError("the archive points backwards")
        if not self._skip(offset):
            raise ValueError("the archive is cut short")
        return self._position

    def drain(self, most: int) -> None:
        """Read the data behind the end mark, so that checksums of the compression are verified."""
        while most > 0 and (chunk := self._raw.read(min(_CHUNK, most))):
            most -= len(chunk)

    def _take(self, size: int) -> bytes:
        trees.check_stop()
        if self._position + size > self._limit + _HEADER_BYTES:
            raise ValueError(f"the archive unpacks to more than {self._limit} bytes")
        data = self._raw.read(size)
        self._position += len(data)
        return data

    def _skip(self, offset: int) -> bool:
        while self._position < offset:
            if not self._take(min(_CHUNK, offset - self._position)):
                return False
        return True


@contextmanager
def _opened(archive: str) -> Iterator[IO[bytes]]:
    with open(archive, "rb") as plain:
        magic = os.pread(plain.fileno(), 6, 0)
        if magic.startswith(b"\x28\xb5\x2f\xfd"):
            with _zstd(plain) as stream:
                yield stream
        elif magic.startswith(b"\x1f\x8b"):
            with gzip.GzipFile(fileobj=plain) as gzipped:
                yield cast(IO[bytes], gzipped)
        elif magic == b"\xfd7zXZ\x00":
            with lzma.LZMAFile(plain) as xz:
                yield xz
        elif magic.startswith(b"BZh"):
            with bz2.BZ2File(plain) as bzipped:
                yield bzipped
        else:
            yield plain


@contextmanager
def _zstd(plain: IO[bytes]) -> Iterator[IO[bytes]]:
    program = shutil.which("zstd")
    if program is None:
        raise ValueError("the archive is compressed with zstd: install the package zstd, or unpack it first")
    process = subprocess.Popen(
        [program, "-dcq"], stdin=plain, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    output = cast(IO[bytes], process.stdout)
    try:
        yield output
        if output.read(1) == b"" and process.wait() != 0:
            raise ValueError("not a readable tar archive: zstd could not decompress it")
    finally:
        output.close()
        process.kill()
        process.wait()


_WHITEOUT = ".wh."
_OPAQUE_MARK = ".wh..wh..opq"
_XATTR = "SCHILY.xattr."
_HIGHEST_ID = 2**32 - 2
_LONGEST_TIME = 2**33
_EXACT_TIME = re.compile(r"(?P<sign>-?)(?P<seconds>\d{1,9}|[1-7]\d{9})\.(?P<rest>\d{1,9})", re.ASCII)


def unpack_layer(
    archive: str,
    target: str,
    *,
    keep_owner: bool = True,
    limits: ArchiveLimits | None = None,
    plain: bool = False,
) -> None:
    """Unpack a tar (plain, gzip, xz, bzip2, zstd where installed) into the existing folder `target`.

    With `plain` it is not a layer: names have no special meaning, and only files, folders and links are made,
    without attributes and with modes of 0755 and 0644.

    Raises ValueError for a file that is not a tar, is too big, or would leave the target. The target folder
    itself keeps its owner and mode.
    """
    limits = limits or ArchiveLimits()
    layer = _Layer(target, keep_owner=keep_owner, plain=plain)
    try:
        for member in archive_members(archive, limits):
            layer.add(member, _parts(member.info.name, limits))
        layer.finish()
    finally:
        layer.close()


def _parts(name: str, limits: ArchiveLimits) -> tuple[str, ...]:
    """Return a member's path as components below the target."""
    if len(os.fsencode(name)) > limits.path_bytes:
        raise ValueError(f"a path of the archive is longer than {limits.path_bytes} bytes")
    if "\0" in name:
        raise ValueError(f"{name!r} in the archive has a null byte")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise ValueError(f"{name!r} in the archive would leave the target")
    return parts


@dataclass(frozen=True)
class _Attributes:
    """The checked attributes of a member."""

    uid: int
    gid: int
    mode: int
    mtime_ns: int

    @classmethod
    def of(cls, info: tarfile.TarInfo) -> "_Attributes":
        if not (0 <= info.uid <= _HIGHEST_ID and 0 <= info.gid <= _HIGHEST_ID):
            raise ValueError(f"{info.name!r} in the archive has an impossible owner {info.uid}:{info.gid}")
        return cls(info.uid, info.gid, info.mode & 0o7777, _mtime_ns(info))


def _mtime_ns(info: tarfile.TarInfo) -> int:
    exact = _EXACT_TIME.fullmatch(info.pax_headers.get("mtime", ""))
    if exact:
        # A float would lose the last digits.
        nanoseconds = int(exact["seconds"]) * 10**9 + int(exact["rest"].ljust(9, "0"))
        return -nanoseconds if exact["sign"] else nanoseconds
    mtime = float(info.mtime)
    if not math.isfinite(mtime) or abs(mtime) > _LONGEST_TIME:
        mtime = 0.0
    return round(mtime * 1e9)


class _Layer:
    """The folder being filled; remembers the directory of the last entry."""

    def __init__(self, target: str, *, keep_owner: bool, plain: bool) -> None:
        self._target = target
        self._plain = plain
        self._keep_owner = keep_owner
        self._top = os.open(target, DIRECTORY_FLAGS)
        self._parent: tuple[tuple[str, ...], int] = ((), os.dup(self._top))
        self._directories: dict[tuple[str, ...], _Attributes] = {}

    def close(self) -> None:
        os.close(self._parent[1])
        os.close(self._top)

    def add(self, member: ArchiveMember, parts: tuple[str, ...]) -> None:
        """Make one member; kinds that a layer cannot hold are left out."""
        info = _plain(member.info) if self._plain else member.info
        if not parts:
            if not info.isdir():
                raise ValueError("the archive wants to replace the target folder itself")
            return
        parent = self._enter(parts[:-1])
        if self._plain:
            if info.isdir() or info.isreg() or info.islnk() or info.issym():
                self._make(member, parts, parent)
        elif parts[-1].startswith(_WHITEOUT):
            self._whiteout(parts, parent)
        else:
            self._make(member, parts, parent)

    def _make(self, member: ArchiveMember, parts: tuple[str, ...], parent: int) -> None:
        info = member.info
        if info.isdir():
            self._directory(info, parts, parent)
        elif info.isreg():
            self._file(member, parts, parent)
        elif info.islnk():
            self._hard_link(info, parts, parent)
        elif info.issym() or info.isfifo():
            self._special(info, parts, parent)
        elif info.ischr() and (info.devmajor, info.devminor) == (0, 0):
            self._hide(parts, parent)

    def finish(self) -> None:
        """Give directories their attributes, once all entries are made."""
        for parts, attributes in sorted(self._directories.items(), reverse=True):
            fd = self._find(parts)
            if fd is None:
                continue
            try:
                self._apply(fd, attributes)
            finally:
                os.close(fd)

    def _enter(self, parts: tuple[str, ...]) -> int:
        """Open the directory of these components, making missing ones; it stays open until the next call."""
        if parts == self._parent[0]:
            return self._parent[1]
        fd = os.dup(self._top)
        try:
            for depth, name in enumerate(parts):
                below = self._open_or_make(fd, name, parts[: depth + 1])
                os.close(fd)
                fd = below
        except BaseException:
            os.close(fd)
            raise
        os.close(self._parent[1])
        self._parent = (parts, fd)
        return fd

    def _open_or_make(self, parent: int, name: str, parts: tuple[str, ...]) -> int:
        try:
            return os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
        except FileNotFoundError:
            return self._make_directory(name, parent, opaque=False)
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
        if not is_whiteout(os.stat(name, dir_fd=parent, follow_symlinks=False)):
            raise ValueError(f"{'/'.join(parts)!r} in the archive is used as a directory but is not one")
        os.unlink(name, dir_fd=parent)
        return self._make_directory(name, parent, opaque=True)

    def _make_directory(self, name: str, parent: int, *, opaque: bool) -> int:
        os.mkdir(name, 0o755, dir_fd=parent)
        fd = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
        try:
            os.fchmod(fd, 0o755)
            if opaque:
                set_xattr(fd, OPAQUE, b"y")
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _find(self, parts: tuple[str, ...]) -> int | None:
        """Open an existing directory; None if it does not exist, or not any more."""
        fd = os.dup(self._top)
        for name in parts:
            try:
                below = os.open(name, DIRECTORY_FLAGS, dir_fd=fd)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                    return None
                raise
            finally:
                os.close(fd)
            fd = below
        return fd

    def _clear(self, parts: tuple[str, ...], parent: int) -> None:
        """Remove the entry of an earlier member of the same name."""
        status = _status(parts[-1], parent)
        if status is None:
            return
        if stat.S_ISDIR(status.st_mode):
            remove_tree(os.path.join(self._target, *parts))
        else:
            os.unlink(parts[-1], dir_fd=parent)

    def _whiteout(self, parts: tuple[str, ...], parent: int) -> None:
        name = parts[-1].removeprefix(_WHITEOUT)
        if parts[-1] == _OPAQUE_MARK:
            if len(parts) > 1:
                set_xattr(parent, OPAQUE, b"y")
        elif name in ("", ".", ".."):
            raise ValueError(f"{'/'.join(parts)!r} in the archive deletes a file without a name")
        elif not name.startswith(_WHITEOUT):
            self._hide((*parts[:-1], name), parent)

    def _hide(self, parts: tuple[str, ...], parent: int) -> None:
        """Hide the lower layers' entry of this name; this layer's own stays."""
        status = _status(parts[-1], parent)
        if status is None:
            make_whiteout(parts[-1], parent)
        elif stat.S_ISDIR(status.st_mode):
            fd = os.open(parts[-1], DIRECTORY_FLAGS, dir_fd=parent)
            try:
                set_xattr(fd, OPAQUE, b"y")
            finally:
                os.close(fd)

    def _directory(self, info: tarfile.TarInfo, parts: tuple[str, ...], parent: int) -> None:
        status = _status(parts[-1], parent)
        if status is not None and not stat.S_ISDIR(status.st_mode):
            os.unlink(parts[-1], dir_fd=parent)
        if status is None or not stat.S_ISDIR(status.st_mode):
            opaque = status is not None and is_whiteout(status)
            fd = self._make_directory(parts[-1], parent, opaque=opaque)
        else:
            fd = os.open(parts[-1], DIRECTORY_FLAGS, dir_fd=parent)
        try:
            for name, value in _xattrs(info):
                set_xattr(fd, name, value)
        finally:
            os.close(fd)
        self._directories[parts] = _Attributes.of(info)

    def _file(self, member: ArchiveMember, parts: tuple[str, ...], parent: int) -> None:
        self._clear(parts, parent)
        fd = create_file(parts[-1], parent)
        try:
            _write(fd, member)
            self._apply(fd, _Attributes.of(member.info), _xattrs(member.info))
        finally:
            os.close(fd)

    def _special(self, info: tarfile.TarInfo, parts: tuple[str, ...], parent: int) -> None:
        self._clear(parts, parent)
        attributes = _Attributes.of(info)
        if info.issym():
            if not info.linkname:
                raise ValueError(f"{info.name!r} in the archive is a link to nothing")
            os.symlink(info.linkname, parts[-1], dir_fd=parent)
        else:
            os.mkfifo(parts[-1], attributes.mode & 0o777, dir_fd=parent)
        if self._keep_owner:
            _chown(parts[-1], attributes, parent)
        times = (attributes.mtime_ns, attributes.mtime_ns)
        os.utime(parts[-1], ns=times, dir_fd=parent, follow_symlinks=False)

    def _hard_link(self, info: tarfile.TarInfo, parts: tuple[str, ...], parent: int) -> None:
        wanted = _parts(info.linkname, ArchiveLimits())
        missing = (
            f"{info.name!r} in the archive is a hard link to {info.linkname!r}, which is not a file in it"
        )
        fd = self._find(wanted[:-1]) if wanted else None
        if fd is None:
            raise ValueError(missing)
        try:
            status = _status(wanted[-1], fd)
            if status is None or stat.S_ISDIR(status.st_mode) or stat.S_ISCHR(status.st_mode):
                raise ValueError(missing)
            if wanted == parts:
                return
            self._clear(parts, parent)
            try:
                os.link(wanted[-1], parts[-1], src_dir_fd=fd, dst_dir_fd=parent, follow_symlinks=False)
            except FileNotFoundError as error:
                raise ValueError(missing) from error
        finally:
            os.close(fd)

    def _apply(
        self, fd: int, attributes: _Attributes, xattrs: Iterator[tuple[str, bytes]] | None = None
    ) -> None:
        if self._keep_owner:
            _chown(fd, attributes)
        for name, value in xattrs or ():
            set_xattr(fd, name, value)
        os.fchmod(fd, attributes.mode)
        os.utime(fd, ns=(attributes.mtime_ns, attributes.mtime_ns))


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Change a member to one that is readable for all, without other attributes."""
    info.mode = 0o755 if info.isdir() or info.mode & 0o111 else 0o644
    info.pax_headers = {key: text for key, text in info.pax_headers.items() if not key.startswith(_XATTR)}
    return info


def _status(name: str, parent: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _chown(what: int | str, attributes: _Attributes, parent: int | None = None) -> None:
    try:
        if isinstance(what, int):
            os.fchown(what, attributes.uid, attributes.gid)
        else:
            os.chown(what, attributes.uid, attributes.gid, dir_fd=parent, follow_symlinks=False)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        owner = f"{attributes.uid}:{attributes.gid}"
        message = f"the archive has files of {owner}, outside the ids this user may use (see /etc/subuid)"
        raise ValueError(message) from error


def _write(fd: int, member: ArchiveMember) -> None:
    sparse = member.info.issparse()
    for chunk in member.chunks:
        if sparse and not chunk.strip(b"\0"):
            os.lseek(fd, len(chunk), os.SEEK_CUR)
            continue
        view = memoryview(chunk)
        while view:
            view = view[os.write(fd, view) :]
    if sparse:
        os.ftruncate(fd, member.info.size)


def _xattrs(info: tarfile.TarInfo) -> Iterator[tuple[str, bytes]]:
    """Yield the attributes a layer may carry; of overlay marks only the opaque one, with any prefix."""
    for key, text in info.pax_headers.items():
        if not key.startswith(_XATTR):
            continue
        name = key.removeprefix(_XATTR)
        value = text.encode("utf-8", "surrogateescape")
        if name in ("trusted.overlay.opaque", OPAQUE):
            if info.isdir():
                yield OPAQUE, value
        elif name == "security.capability" or (
            name.startswith("user.") and not name.startswith("user.overlay.")
        ):
            yield name, value
