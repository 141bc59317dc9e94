"""Write an image as an archive that other engines load and that can be imported elsewhere."""

import asyncio
import re
import tarfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchyard.devboxes.base import Rootfs, Trees
from benchyard.images.image import Image
from benchyard.images.packing import Packing, Title

_CHUNK = 1024 * 1024
_BLOCK = 512
_TIME = 946_684_800  # the first second of 2000, as in the layers that we make ourselves
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class _Member:
    """One file of the archive: its header, its size, and where its bytes are."""

    header: bytes
    size: int
    content: Path | bytes

    @classmethod
    def of(cls, name: str, content: Path | bytes) -> "_Member":
        info = tarfile.TarInfo(name)
        info.size = len(content) if isinstance(content, bytes) else content.stat().st_size
        info.mtime, info.mode = _TIME, 0o644
        return cls(info.tobuf(tarfile.PAX_FORMAT), info.size, content)

    @property
    def padding(self) -> bytes:
        return b"\0" * (-self.size % _BLOCK)


class Archive:
    """A tar of files that wait on disk to be read, once or more."""

    def __init__(self, files: Mapping[str, Path | bytes]) -> None:
        self._members = [_Member.of(name, content) for name, content in files.items()]
        self._end = b"\0" * 2 * _BLOCK
        sizes = (len(each.header) + each.size + len(each.padding) for each in self._members)
        self.size = len(self._end) + sum(sizes)

    async def chunks(self) -> AsyncIterator[bytes]:
        """All of it, in pieces that fit into memory."""
        for member in self._members:
            yield member.header
            if isinstance(member.content, bytes):
                yield member.content
            else:
                async for piece in _pieces(member.content):
                    yield piece
            if member.padding:
                yield member.padding
        yield self._end


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, _CHUNK):
            yield piece


class Exporter:
    """Packs one image into a scratch folder."""

    def __init__(self, trees: Trees, scratch: Path, root: Path) -> None:
        self._packing = Packing(trees, scratch)
        self._root = root

    async def run(self, image: Image, rootfs: Rootfs, notes: Mapping[str, str]) -> Archive:
        """Pack the layers, bottom first; what an image shows of this machine is the lowest of them."""
        if rootfs.host_dirs:
            await self._packing.add(self._root, rootfs.host_dirs)
        for layer in reversed(rootfs.layers):
            await self._packing.add(layer)
        name = _NOT_IN_NAMES.sub("-", image.name.lower()).strip("-") or "image"
        return Archive(self._packing.files(image, Title(f"localhost/benchyard/{name}:latest", notes)))
