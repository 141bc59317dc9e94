"""Unpack the tar of one layer: OCI whiteouts become overlay marks, and nothing lands outside the target."""

import errno
import math
import os
import re
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass

from benchyard.devboxes.box.place import DIRECTORY
from benchyard.devboxes.box.tar_stream import Limits, Member, members
from benchyard.devboxes.box.trees import (
    OPAQUE,
    create_file,
    is_whiteout,
    make_whiteout,
    remove_tree,
    set_xattr,
)

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
    limits: Limits | None = None,
    plain: bool = False,
) -> None:
    """Unpack a tar (plain, gzip, xz, bzip2, zstd where installed) into the existing folder `target`.

    With `plain` it is no layer: names mean nothing, and only files, folders and links are made, without
    attributes and with modes of 0755 and 0644.

    Raises ValueError for what is not a tar, is too big, or would leave the target. The target folder itself
    keeps its owner and mode.
    """
    limits = limits or Limits()
    layer = _Layer(target, keep_owner=keep_owner, plain=plain)
    try:
        for member in members(archive, limits):
            layer.add(member, _parts(member.info.name, limits))
        layer.finish()
    finally:
        layer.close()


def _parts(name: str, limits: Limits) -> tuple[str, ...]:
    """A member's path as components below the target."""
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
    """What a member says about itself, checked."""

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
    """The folder that is being filled; remembers the directory it was last in."""

    def __init__(self, target: str, *, keep_owner: bool, plain: bool) -> None:
        self._target = target
        self._plain = plain
        self._keep_owner = keep_owner
        self._top = os.open(target, DIRECTORY)
        self._parent: tuple[tuple[str, ...], int] = ((), os.dup(self._top))
        self._directories: dict[tuple[str, ...], _Attributes] = {}

    def close(self) -> None:
        os.close(self._parent[1])
        os.close(self._top)

    def add(self, member: Member, parts: tuple[str, ...]) -> None:
        """Make one member; kinds that have no place in a layer are left out."""
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

    def _make(self, member: Member, parts: tuple[str, ...], parent: int) -> None:
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
        """Give directories their attributes, now that nothing is made in them any more."""
        for parts, attributes in sorted(self._directories.items(), reverse=True):
            fd = self._find(parts)
            if fd is None:
                continue
            try:
                self._apply(fd, attributes)
            finally:
                os.close(fd)

    def _enter(self, parts: tuple[str, ...]) -> int:
        """Open the directory of these components, making those that are missing; kept open until the next."""
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
            return os.open(name, DIRECTORY, dir_fd=parent)
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
        fd = os.open(name, DIRECTORY, dir_fd=parent)
        try:
            os.fchmod(fd, 0o755)
            if opaque:
                set_xattr(fd, OPAQUE, b"y")
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _find(self, parts: tuple[str, ...]) -> int | None:
        """Open a directory that is there; None if it is not, or not any more."""
        fd = os.dup(self._top)
        for name in parts:
            try:
                below = os.open(name, DIRECTORY, dir_fd=fd)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                    return None
                raise
            finally:
                os.close(fd)
            fd = below
        return fd

    def _clear(self, parts: tuple[str, ...], parent: int) -> None:
        """Take away what an earlier member of the same name left."""
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
            raise ValueError(f"{'/'.join(parts)!r} in the archive deletes nothing that has a name")
        elif not name.startswith(_WHITEOUT):
            self._hide((*parts[:-1], name), parent)

    def _hide(self, parts: tuple[str, ...], parent: int) -> None:
        """Hide what lower layers have of this name; what this layer itself has stays."""
        status = _status(parts[-1], parent)
        if status is None:
            make_whiteout(parts[-1], parent)
        elif stat.S_ISDIR(status.st_mode):
            fd = os.open(parts[-1], DIRECTORY, dir_fd=parent)
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
            fd = os.open(parts[-1], DIRECTORY, dir_fd=parent)
        try:
            for name, value in _xattrs(info):
                set_xattr(fd, name, value)
        finally:
            os.close(fd)
        self._directories[parts] = _Attributes.of(info)

    def _file(self, member: Member, parts: tuple[str, ...], parent: int) -> None:
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
        wanted = _parts(info.linkname, Limits())
        missing = f"{info.name!r} in the archive is a hard link to {info.linkname!r}, which is no file of it"
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
    """Change a member to one that all may read, and that carries nothing else."""
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


def _write(fd: int, member: Member) -> None:
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
    """The attributes a layer may carry; of overlay marks only the opaque one, whatever its prefix."""
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
