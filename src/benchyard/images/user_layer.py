"""The small layer on top of every imported image: the user `user`, mount points, and name resolution."""

import io
import re
import stat
import tarfile
from pathlib import Path
from types import TracebackType
from typing import Self

from benchyard.images.merged_view import MergedView

_TIME = 946_684_800  # the first second of 2000: old enough for everyone, and always the same


class LayerTar:
    """Writer of a tar, in which a later entry of the same name wins. Use as a context manager."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.is_empty = True

    def __enter__(self) -> Self:
        self._tar = tarfile.open(self._path, "w", format=tarfile.PAX_FORMAT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tar.close()

    def directory(self, path: str, mode: int = 0o755, owner: tuple[int, int] = (0, 0)) -> None:
        self._add(self._info(path, tarfile.DIRTYPE, mode, owner))

    def link(self, path: str, target: str) -> None:
        info = self._info(path, tarfile.SYMTYPE, 0o777, (0, 0))
        info.linkname = target
        self._add(info)

    def file(self, path: str, content: bytes, mode: int = 0o644, owner: tuple[int, int] = (0, 0)) -> None:
        info = self._info(path, tarfile.REGTYPE, mode, owner)
        info.size = len(content)
        self._add(info, content)

    def _info(self, path: str, kind: bytes, mode: int, owner: tuple[int, int]) -> tarfile.TarInfo:
        info = tarfile.TarInfo(path)
        info.type = kind
        info.mode = mode
        info.uid, info.gid = owner
        info.mtime = _TIME
        return info

    def _add(self, info: tarfile.TarInfo, content: bytes = b"") -> None:
        self.is_empty = False
        self._tar.addfile(info, io.BytesIO(content))


USER = "user"
_FIRST_ID = 1000
_MOUNT_POINTS = (("dev", 0o755), ("proc", 0o555), ("sys", 0o555), ("run", 0o755), ("tmp", 0o1777))
_SUDOERS = b"user ALL=(ALL:ALL) NOPASSWD: ALL\n"
HOSTS = b"127.0.0.1\tlocalhost devbox\n::1\tlocalhost ip6-localhost ip6-loopback\n"
_ROOT_PASSWD = b"root:x:0:0:root:/root:/bin/sh\n"
_ROOT_GROUP = b"root:x:0:\n"


def write_user_layer(view: MergedView, target: Path, resolv_conf: bytes) -> bool:
    """Write the tar of the files that a devbox's root needs beyond `view`; return False if it needs none."""
    with LayerTar(target) as tar:
        layer = _Layer(view, tar)
        layer.add_mount_points()
        layer.add_user()
        layer.add_file("etc/hosts", HOSTS)
        layer.add_file("etc/resolv.conf", resolv_conf)
        return not tar.is_empty


class _Layer:
    """Writer of a layer on top of a view; directories that the view has too keep their modes."""

    def __init__(self, view: MergedView, tar: LayerTar) -> None:
        self._view = view
        self._tar = tar
        self._made: set[str] = set()

    def add_mount_points(self) -> None:
        for name, mode in _MOUNT_POINTS:
            entry = self._view.find(name, follow=name in ("run", "tmp"))
            if entry is None or not entry.is_directory:
                self._tar.directory(name, mode)

    def add_file(self, path: str, content: bytes) -> None:
        """Add a file unless the image has a non-empty one."""
        if content and not self._view.read(path):
            self._parents(path)
            self._tar.file(path, content)

    def add_user(self) -> None:
        passwd = self._view.read("etc/passwd") or _ROOT_PASSWD
        if USER in _column(passwd, 0):
            return
        group = self._view.read("etc/group") or _ROOT_GROUP
        taken = {*_column(passwd, 2), *_column(passwd, 3), *_column(group, 2)}
        number = next(each for each in range(_FIRST_ID, 60000) if str(each) not in taken)
        home = self._home(number)
        shell = "/bin/bash" if self._view.find("bin/bash") else "/bin/sh"
        self._replace("etc/passwd", passwd, f"user:x:{number}:{number}:user:/{home}:{shell}\n")
        self._replace("etc/group", _with_member(group, "sudo"), f"user:x:{number}:\n")
        for path, line in (("etc/shadow", "user:*:19000:0:99999:7:::\n"), ("etc/gshadow", "user:!::\n")):
            if (text := self._view.read(path)) is not None:
                self._replace(path, text, line)
        if (sudoers := self._view.find("etc/sudoers.d")) and sudoers.is_directory:
            self._parents("etc/sudoers.d/benchyard")
            self._tar.file("etc/sudoers.d/benchyard", _SUDOERS, 0o440)

    def _home(self, number: int) -> str:
        base = self._view.find("home")
        home = f"{base.at if base and base.is_directory else 'home'}/{USER}"
        self._parents(home)
        self._tar.directory(home, 0o755, (number, number))
        return home

    def _replace(self, path: str, text: bytes, line: str) -> None:
        entry = self._view.find(path)
        mode = entry.mode if entry else 0o644
        self._parents(path)
        group = self._shadow_group() if mode & stat.S_IRGRP and not mode & stat.S_IROTH else 0
        separator = b"" if not text or text.endswith(b"\n") else b"\n"
        self._tar.file(path, text + separator + line.encode(), mode, (0, group))

    def _shadow_group(self) -> int:
        rows = re.findall(rb"^shadow:[^:]*:([0-9]{1,9}):", self._view.read("etc/group") or b"", re.M)
        return int(rows[0]) if rows else 0

    def _parents(self, path: str) -> None:
        """Repeat the view's parent directories: a layer's directory sets the mode of the merged one."""
        parts = path.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            directory = "/".join(parts[:depth])
            if directory not in self._made:
                self._made.add(directory)
                entry = self._view.find(directory, follow=False)
                self._tar.directory(directory, entry.mode if entry and entry.is_directory else 0o755)


def _column(text: bytes, number: int) -> set[str]:
    rows = (line.split(":") for line in text.decode(errors="surrogateescape").splitlines())
    return {row[number] for row in rows if len(row) > number}


def _with_member(group: bytes, name: str) -> bytes:
    """Add the user to a group, if there is one of that name."""

    def join(row: re.Match[bytes]) -> bytes:
        return row[1] + row[2] + (b"," if row[2] else b"") + USER.encode()

    return re.sub(rb"^(" + name.encode() + rb":[^:\n]*:[^:\n]*:)([^:\n]*)$", join, group, flags=re.M)
