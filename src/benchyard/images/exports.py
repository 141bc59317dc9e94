"""Export of images as archives that other engines load and that can be imported elsewhere."""

import asyncio
import hashlib
import json
import re
import tarfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchyard.devboxes.base import Rootfs, Trees
from benchyard.images.image import Image
from benchyard.images.layouts import architecture

_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_PLACE = "blobs/sha256/"


@dataclass(frozen=True)
class ImageTitle:
    """The name and notes of an exported image, beside its content."""

    reference: str
    """The name for engines that load it."""
    notes: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


class ImagePacker:
    """Packs layers, from the bottom up, into a scratch folder; then writes the documents."""

    def __init__(self, trees: Trees, scratch: Path) -> None:
        self._trees = trees
        self._scratch = scratch
        self._layers: list[dict[str, Any]] = []
        self._blobs: dict[str, Path | bytes] = {}

    async def add(self, source: Path, names: tuple[str, ...] = (), *, plain: bool = False) -> str:
        """Pack one more layer; return its digest."""
        tar = self._scratch / f"{len(self._layers)}.tar"
        digest, size = await self._trees.pack(source, tar, names, plain=plain)
        self._blobs[_PLACE + digest] = tar
        self.name(digest, size)
        return digest

    def name(self, digest: str, size: int = 0) -> None:
        """Name one more layer, which the reader already has."""
        self._layers.append({"mediaType": _LAYER, "digest": f"sha256:{digest}", "size": size})

    def files(self, image: Image, title: ImageTitle) -> dict[str, Path | bytes]:
        """Return all files by name, the documents first."""
        digests = [str(layer["digest"]) for layer in self._layers]
        config = self._put(_config(image, digests, title.labels))
        manifest = self._put(
            {
                "schemaVersion": 2,
                "mediaType": _MANIFEST,
                "config": {"mediaType": _CONFIG, **config},
                "layers": self._layers,
                "annotations": {"org.opencontainers.image.created": _creation_time(image), **title.notes},
            }
        )
        described = {
            **{"mediaType": _MANIFEST, **manifest},
            "platform": {"os": "linux", "architecture": architecture()},
            "annotations": {"org.opencontainers.image.ref.name": title.reference},
        }
        saved = {
            "Config": _place(config["digest"]),
            "RepoTags": [title.reference],
            "Layers": [_place(digest) for digest in digests],
        }
        return {
            "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
            "index.json": _json({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [described]}),
            "manifest.json": _json([saved]),
            **self._blobs,
        }

    def _put(self, document: dict[str, Any]) -> dict[str, Any]:
        content = _json(document)
        digest = hashlib.sha256(content).hexdigest()
        self._blobs[_PLACE + digest] = content
        return {"digest": f"sha256:{digest}", "size": len(content)}


def _config(image: Image, digests: list[str], labels: Mapping[str, str]) -> dict[str, Any]:
    # Kept apart as in the original image: a Dockerfile on top may replace one and keep the other.
    command = len(image.entrypoint) - len(image.command)
    run = {
        "Env": [f"{name}={value}" for name, value in image.env.items()],
        "User": image.user,
        "WorkingDir": image.working_directory,
        "Entrypoint": list(image.entrypoint[:command]),
        "Cmd": list(image.command),
        "Labels": dict(labels),
    }
    history = {"created": _creation_time(image), "created_by": "benchyard"}
    return {
        "created": _creation_time(image),
        "architecture": architecture(),
        "os": "linux",
        "config": {name: value for name, value in run.items() if value},
        "rootfs": {"type": "layers", "diff_ids": digests},
        # Engines that build on the image want one entry for each layer.
        "history": [history] * len(digests),
    }


def _creation_time(image: Image) -> str:
    moment = datetime.fromtimestamp(image.create_time_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _place(digest: str) -> str:
    return _PLACE + digest.removeprefix("sha256:")


def _json(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


_CHUNK = 1024 * 1024
_BLOCK = 512
_TIME = 946_684_800  # the first second of 2000, as in the layers that we make ourselves
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class _Member:
    """A file of the archive: its header, its size, and the source of its content."""

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


class ImageArchive:
    """A tar of files on disk, which can be read several times."""

    def __init__(self, files: Mapping[str, Path | bytes]) -> None:
        self._members = [_Member.of(name, content) for name, content in files.items()]
        self._end = b"\0" * 2 * _BLOCK
        sizes = (len(member.header) + member.size + len(member.padding) for member in self._members)
        self.size = len(self._end) + sum(sizes)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the whole tar in pieces that fit into memory."""
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


class ImageExporter:
    """Packs an image into a scratch folder."""

    def __init__(self, trees: Trees, scratch: Path, root: Path) -> None:
        self._packing = ImagePacker(trees, scratch)
        self._root = root

    async def run(self, image: Image, rootfs: Rootfs, notes: Mapping[str, str]) -> ImageArchive:
        """Pack the layers from the bottom up; the shown part of this machine becomes the lowest layer."""
        if rootfs.host_dirs:
            await self._packing.add(self._root, rootfs.host_dirs)
        for layer in reversed(rootfs.layers):
            await self._packing.add(layer)
        name = _NOT_IN_NAMES.sub("-", image.name.lower()).strip("-") or "image"
        return ImageArchive(
            self._packing.files(image, ImageTitle(f"localhost/benchyard/{name}:latest", notes))
        )
