"""The tar of a layer that we make ourselves: the same content gives the same bytes."""

import io
import tarfile
from pathlib import Path
from types import TracebackType
from typing import Self

_TIME = 946_684_800  # the first second of 2000: old enough for everyone, and always the same


class LayerTar:
    """A tar being written; a later entry of the same name wins. Use as a context manager."""

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
