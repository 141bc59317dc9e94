"""Layers and images in an engine's storage: read from its files, handed to it, and taken into the store."""

import asyncio
import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchyard.devboxes.base import Trees
from benchyard.errors import BuildFailed
from benchyard.images.exports import ImageArchive, ImagePacker, ImageTitle
from benchyard.images.image import Image
from benchyard.images.imports import ImportedImage, LayerSource
from benchyard.images.layers import Layers
from benchyard.images.layouts import image_config

_MOST_LAYERS = 400


@dataclass(frozen=True)
class StoredLayer:
    """A layer of the engine: the digest of its content, and its folder."""

    digest: str
    folder: Path


@dataclass(frozen=True)
class StoredImage:
    """An image of the engine: layers from the bottom up, and its configuration."""

    id: str
    layers: tuple[StoredLayer, ...]
    config: dict[str, Any]


class EngineStorage:
    """A folder in which an engine keeps its images."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def digests(self) -> set[str]:
        """Return the digests of all layers."""
        return {_digest(layer) for layer in self._records("layers") if layer.get("diff-digest")}

    def names(self) -> list[str]:
        """Return the names of all images."""
        return [str(name) for image in self._records("images") for name in image.get("names") or ()]

    def find(self, name: str) -> str | None:
        """Return the id of the image of this full name."""
        for image in self._records("images"):
            if name in (image.get("names") or ()):
                return str(image["id"])
        return None

    def has_containers(self) -> bool:
        """Tell whether an engine left a container behind."""
        return bool(self._records("containers"))

    def image(self, image_id: str) -> StoredImage:
        """Look an image up by its id."""
        for record in self._records("images"):
            if record["id"] == image_id:
                return StoredImage(image_id, self._chain(record.get("layer")), self._config(image_id))
        raise BuildFailed(f"the engine says that it made image {image_id[:20]}, but it is not in its storage")

    def _chain(self, top: str | None) -> tuple[StoredLayer, ...]:
        known = {layer["id"]: layer for layer in self._records("layers")}
        chain: list[StoredLayer] = []
        while top:
            if top not in known or len(chain) >= _MOST_LAYERS:
                raise BuildFailed(
                    "the image that was built has too many layers, or lacks one: squash some steps"
                )
            chain.append(StoredLayer(_digest(known[top]), self.folder / "overlay" / top / "diff"))
            top = known[top].get("parent")
        return tuple(reversed(chain))

    def _config(self, image_id: str) -> dict[str, Any]:
        key = base64.b64encode(f"sha256:{image_id}".encode()).decode()
        config: dict[str, Any] = json.loads(
            (self.folder / "overlay-images" / image_id / f"={key}").read_bytes()
        )
        return config

    def _records(self, kind: str) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = []
        folder = self.folder / f"overlay-{kind}"
        for name in (f"{kind}.json", f"volatile-{kind}.json"):
            try:
                records += json.loads((folder / name).read_bytes() or b"[]") or []
            except FileNotFoundError:
                continue
        return records


def _digest(layer: dict[str, Any]) -> str:
    return str(layer["diff-digest"]).removeprefix("sha256:")


class PackedLayers:
    """The digests of our layers as tars, by which they are recognised when an engine hands them back."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def layers(self) -> Mapping[str, str]:
        """Return digest -> name of our layer."""
        try:
            found: dict[str, str] = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        return found

    def add(self, digest: str, layer: str) -> None:
        """Store a layer's digest."""
        partial = self._path.with_suffix(".partial")
        partial.write_text(json.dumps({**self.layers(), digest: layer}))
        partial.replace(self._path)


@dataclass(frozen=True)
class ImageHandover:
    """Packs an image into an empty folder."""

    trees: Trees
    packed: PackedLayers
    folder: Path

    async def write_layout(self, image: Image, layers: Iterable[Path], present: set[str]) -> None:
        """Make the folder a layout; a layer that the engine has by its digest comes without its content."""
        known = {name: digest for digest, name in self.packed.layers().items()}
        packing = ImagePacker(self.trees, self.folder)
        for layer in layers:
            if (digest := known.get(layer.name, "")) in present:
                packing.name(digest)
            else:
                self.packed.add(await packing.add(layer), layer.name)
        (self.folder / "blobs" / "sha256").mkdir(parents=True)
        for name, content in packing.files(image, ImageTitle("localhost/benchyard/base")).items():
            if isinstance(content, Path):
                content.rename(self.folder / name)
            else:
                (self.folder / name).write_bytes(content)

    async def write_archive(self, image: Image, layers: Iterable[Path], title: ImageTitle) -> Path:
        """Write an archive with all layers, for an engine that saves them again later; return its path."""
        packing = ImagePacker(self.trees, self.folder)
        for layer in layers:
            self.packed.add(await packing.add(layer, plain=True), layer.name)
        target = self.folder / "image.tar"
        with target.open("wb") as file:
            async for piece in ImageArchive(packing.files(image, title)).chunks():
                await asyncio.to_thread(file.write, piece)
        return target


@dataclass(frozen=True)
class StorageSource(LayerSource):
    """An image in an engine's storage: known layers are named, the others shared with the store unchanged."""

    image: StoredImage
    packed: PackedLayers

    async def bring(self, layers: Layers, pins: set[str]) -> ImportedImage:
        ours = self.packed.layers()
        names = []
        for layer in self.image.layers:
            name = layers.known(ours.get(layer.digest, layer.digest), pins)
            names.append(name or await layers.add_copy(layer.folder, pins, layer.digest))
        return ImportedImage(tuple(reversed(names)), image_config(self.image.config.get("config") or {}))
