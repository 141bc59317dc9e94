"""Packing of one layer as a tar: overlay marks become OCI whiteouts, and equal layers give equal bytes.

Holes of sparse files stay holes (in the format of GNU tar 1.0, which the common readers know), so that a file
takes the space of its data, not of its nominal size.
"""

import contextlib
import errno
import hashlib
import os
import stat
import tarfile
from collections.abc import Iterator, Sequence

from benchyard.devboxes.layers.trees import (
    TreeCursor,
    create_file,
    data_ranges,
    is_opaque,
    is_whiteout,
    walk_tree,
    xattr_names,
)

MOST_BYTES = 64 * 1024**3
"""Most bytes of one layer: the limit of imports."""

_WHITEOUT = ".wh."
_OPAQUE_MARK = ".wh..wh..opq"
_XATTR = "SCHILY.xattr."
_NOBODY = 65534
_CHUNK = 1024 * 1024
_BLOCK = 512
_LARGEST_SPARSE = 8 * 1024**3
_LOOK_BYTES = 64 * 1024**2
_LEFT_BYTES = 512 * 1024**2
"""Bytes to leave free on the disk: devboxes write to it too."""


def pack_layer(
    source: str, archive: str, names: Sequence[str] = (), *, keep_owner: bool = True, plain: bool = False
) -> tuple[str, int]:
    """Write the tar of a layer to the new file `archive`; return its sha256 and its size."""
    descriptor = create_file(archive, None)
    try:
        return pack_into(descriptor, source, names, keep_owner=keep_owner, plain=plain)
    finally:
        os.close(descriptor)


def pack_into(
    descriptor: int, source: str, names: Sequence[str] = (), *, keep_owner: bool = True, plain: bool = False
) -> tuple[str, int]:
    """Write the tar of a layer at the position of an open file; return its sha256 and its size.

    With `names` only these top-level entries are packed, of a system that is not ours: unreadable files are
    left out, and files without a known owner belong to root. Names that begin with `.wh.` are left out too:
    in such a tar they would delete. A `plain` tar is for engines that write it out again: without holes,
    which they do not find again, and with the top folder itself, which some engines close to other users if
    it is not listed. Raises ValueError for more than `MOST_BYTES`.
    """
    tar = _Archive(descriptor, with_holes=not plain)
    if plain:
        top = tarfile.TarInfo("./")
        top.type, top.mode = tarfile.DIRTYPE, 0o755
        tar.header(top)
    with TreeCursor(source) as place:
        packing = _Packing(place, tar, frozenset(names), keep_owner=keep_owner)
        walk_tree(packing.visit, packing.enter, lambda name: place.up())
        tar.end()
        return tar.digest.hexdigest(), tar.size


class _Archive:
    """The file being written, and the digest of its content so far."""

    def __init__(self, descriptor: int, *, with_holes: bool) -> None:
        self._descriptor = descriptor
        self.with_holes = with_holes
        self.digest = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > MOST_BYTES:
            raise ValueError(f"the layer has more than {MOST_BYTES} bytes, which no import would take")
        if self.size // _LOOK_BYTES != (self.size - len(data)) // _LOOK_BYTES:
            _leave_room(self._descriptor)
        self.digest.update(data)
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def pad(self) -> None:
        self.write(b"\0" * (-self.size % _BLOCK))

    def header(self, info: tarfile.TarInfo) -> None:
        self.write(info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape"))

    def end(self) -> None:
        self.write(b"\0" * 2 * _BLOCK)


class _Packing:
    """A walk through the layer in the order of its names."""

    def __init__(self, place: TreeCursor, tar: _Archive, names: frozenset[str], *, keep_owner: bool) -> None:
        self._place = place
        self._tar = tar
        self._names = names
        self._keep_owner = keep_owner
        self._first: dict[tuple[int, int], str] = {}

    def visit(self) -> list[str]:
        directories = []
        for name in sorted(os.listdir(self._place.fd)):
            if self._names and not self._place.names and name not in self._names:
                continue
            status = os.stat(name, dir_fd=self._place.fd, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and not name.startswith(_WHITEOUT):
                directories.append(name)
            elif is_whiteout(status):
                self._mark(_WHITEOUT + name)
            elif not name.startswith(_WHITEOUT):
                self._entry(name, status)
        return directories[::-1]

    def enter(self, name: str) -> bool:
        """Write the directory itself, and enter it."""
        status = os.stat(name, dir_fd=self._place.fd, follow_symlinks=False)
        try:
            is_entered = self._place.down(name)
        except PermissionError:
            if not self._names:
                raise
            return False
        if not is_entered:
            self._tar.header(self._info(name, status, tarfile.DIRTYPE))
            return False
        info = self._info("", status, tarfile.DIRTYPE)
        info.pax_headers = {**info.pax_headers, **_xattrs(self._place.fd)}
        self._tar.header(info)
        if is_opaque(self._place.fd):
            self._mark(_OPAQUE_MARK)
        return True

    def _entry(self, name: str, status: os.stat_result) -> None:
        if stat.S_ISLNK(status.st_mode):
            info = self._info(name, status, tarfile.SYMTYPE)
            info.linkname = os.readlink(name, dir_fd=self._place.fd)
            self._tar.header(info)
        elif stat.S_ISFIFO(status.st_mode):
            self._tar.header(self._info(name, status, tarfile.FIFOTYPE))
        elif stat.S_ISREG(status.st_mode) and not self._link(name, status):
            try:
                with self._opened(name) as file:
                    self._file(name, status, file)
            except PermissionError:
                if not self._names:
                    raise

    def _link(self, name: str, status: os.stat_result) -> bool:
        """Write a further name of an archived file as a link; return False if this is its first name."""
        if status.st_nlink == 1:
            return False
        path = "/".join((*self._place.names, name))
        first = self._first.setdefault((status.st_dev, status.st_ino), path)
        if first == path:
            return False
        info = self._info(name, status, tarfile.LNKTYPE)
        info.linkname = first
        self._tar.header(info)
        return True

    def _file(self, name: str, status: os.stat_result, file: int) -> None:
        info = self._info(name, status, tarfile.REGTYPE)
        info.pax_headers = {**info.pax_headers, **_xattrs(file)}
        info.size = status.st_size
        has_holes = self._tar.with_holes and _has_holes(status)
        ranges = list(data_ranges(file, status.st_size)) if has_holes else []
        sparse = _sparse(info, ranges) if has_holes else b""
        self._tar.header(info)
        self._tar.write(sparse)
        for start, end in ranges if sparse else [(0, status.st_size)]:
            self._content(file, start, end)
        self._tar.pad()

    def _content(self, file: int, start: int, end: int) -> None:
        while start < end:
            piece = os.pread(file, min(_CHUNK, end - start), start)
            if not piece:
                raise OSError(f"{'/'.join(self._place.names)} changed while it was packed")
            self._tar.write(piece)
            start += len(piece)

    def _mark(self, name: str) -> None:
        self._tar.header(tarfile.TarInfo("/".join((*self._place.names, name))))

    def _info(self, name: str, status: os.stat_result, kind: bytes) -> tarfile.TarInfo:
        info = tarfile.TarInfo("/".join((*self._place.names, name)).rstrip("/"))
        info.type = kind
        info.mode = stat.S_IMODE(status.st_mode)
        info.uid, info.gid = self._owner(status.st_uid), self._owner(status.st_gid)
        seconds, rest = divmod(status.st_mtime_ns, 10**9)
        info.mtime = seconds
        if rest or seconds < 0:
            sign, whole = ("-", -status.st_mtime_ns) if seconds < 0 else ("", status.st_mtime_ns)
            info.pax_headers = {"mtime": f"{sign}{whole // 10**9}.{whole % 10**9:09}"}
        return info

    def _owner(self, number: int) -> int:
        return 0 if not self._keep_owner or (self._names and number == _NOBODY) else number

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(name, flags, dir_fd=self._place.fd)
        try:
            yield file
        finally:
            os.close(file)


def _leave_room(descriptor: int) -> None:
    disk = os.fstatvfs(descriptor)
    if disk.f_bavail * disk.f_frsize < _LEFT_BYTES:
        raise OSError(errno.ENOSPC, "the archive would fill the server's disk")


def _has_holes(status: os.stat_result) -> bool:
    return status.st_blocks * _BLOCK < status.st_size


def _sparse(info: tarfile.TarInfo, ranges: list[tuple[int, int]]) -> bytes:
    """Make the entry a sparse one, and return the map that precedes its data; b"" if it is too large."""
    held = sum(end - start for start, end in ranges)
    numbers = [len(ranges), *(number for start, end in ranges for number in (start, end - start))]
    text = "".join(f"{number}\n" for number in numbers).encode()
    text += b"\0" * (-len(text) % _BLOCK)
    if len(text) + held >= _LARGEST_SPARSE:
        return b""
    info.pax_headers = {
        **info.pax_headers,
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": info.name,
        "GNU.sparse.realsize": str(info.size),
    }
    folder, _, name = info.name.rpartition("/")
    info.name = f"{folder}/GNUSparseFile.0/{name}".lstrip("/")
    info.size = len(text) + held
    return text


def _xattrs(fd: int) -> dict[str, str]:
    """Return the attributes of a file that a layer's tar carries."""
    xattrs = {}
    for name in xattr_names(fd):
        if name == "security.capability" or (
            name.startswith("user.") and not name.startswith("user.overlay.")
        ):
            xattrs[_XATTR + name] = os.getxattr(fd, name).decode("utf-8", "surrogateescape")
    return xattrs
