"""Import of a root filesystem folder, a tarball of one, or an image archive as layers."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchyard.devboxes.base import Trees
from benchyard.errors import ImageError
from benchyard.images.layers import Layers
from benchyard.images.layouts import (
    ImageConfig,
    LayerFile,
    file_digest,
    is_layout,
    is_root_filesystem,
    read_layout,
)
from benchyard.images.merged_view import MergedView
from benchyard.images.user_layer import write_user_layer

_EXPECTED = (
    "expected a root filesystem (with bin, usr or etc at its top) as a folder or tar, "
    "an OCI layout, or what `docker save` writes"
)


@dataclass(frozen=True)
class ImportedImage:
    """Layers in the store, topmost first, and how to run a program in them."""

    layers: tuple[str, ...]
    config: ImageConfig
    notes: Mapping[str, str] = field(default_factory=dict)


class LayerSource(ABC):
    """A source that brings its own layers into a store."""

    @abstractmethod
    async def bring(self, layers: Layers, pins: set[str]) -> ImportedImage:
        """Add the missing layers, and pin all of them in the caller's set."""


def check_kind(source: Path) -> None:
    """Raise ImageError unless a path is a file, or a folder that contains an image."""
    if source.is_dir():
        if not (is_layout(source) or is_root_filesystem(source)):
            raise ImageError(f"{source} holds no image: {_EXPECTED}")
    elif not source.is_file():
        raise ImageError(f"{source} is neither a file nor a folder: {_EXPECTED}")


class ImageImporter:
    """Brings one source into the layers of a store."""

    def __init__(self, layers: Layers, trees: Trees, pins: set[str]) -> None:
        self._layers = layers
        self._trees = trees
        self._pins = pins

    async def run(self, source: Path | LayerSource, resolv_conf: bytes) -> ImportedImage:
        """Import; raises ImageError if the source is not an image. Layers stay pinned by the caller's set."""
        if isinstance(source, LayerSource):
            found = await source.bring(self._layers, self._pins)
        else:
            await asyncio.to_thread(check_kind, source)
            found = await (self._from_folder(source) if source.is_dir() else self._from_file(source))
        top = await self._add_user_layer(found.layers, resolv_conf)
        # The lower of two equal layers adds nothing to the upper one, and no mount accepts both.
        layers = tuple(dict.fromkeys((*top, *found.layers)))
        return ImportedImage(layers, found.config, found.notes)

    async def _from_folder(self, source: Path) -> ImportedImage:
        if await asyncio.to_thread(is_layout, source):
            return await self._from_layout(source)
        return ImportedImage((await self._layers.add_copy(source.resolve(), self._pins),), ImageConfig())

    async def _from_file(self, source: Path) -> ImportedImage:
        """Unpack first; the kind of archive is detected from its files."""
        digest = await asyncio.to_thread(file_digest, source)
        known = self._layers.known(digest, self._pins)
        if known is not None:
            return ImportedImage((known,), ImageConfig())
        async with self._layers.scratch() as scratch:
            tree = scratch / "tree"
            tree.mkdir(mode=0o755)
            await self._trees.unpack(source, tree)
            if await asyncio.to_thread(is_layout, tree):
                return await self._from_layout(tree)
            if not is_root_filesystem(tree):
                raise ImageError(f"{source.name} holds no image: {_EXPECTED}")
            return ImportedImage((self._layers.adopt(tree, digest, self._pins),), ImageConfig())

    async def _from_layout(self, folder: Path) -> ImportedImage:
        layout = await asyncio.to_thread(read_layout, folder)
        names = [await self._add(layer) for layer in layout.layers]
        return ImportedImage(tuple(reversed(names)), layout.config, layout.notes)

    async def _add(self, layer: LayerFile) -> str:
        return await self._layers.add_tar(layer.path, layer.digest, self._pins)

    async def _add_user_layer(self, names: tuple[str, ...], resolv_conf: bytes) -> tuple[str, ...]:
        """Return a layer of the files that a devbox's root needs beyond the image; empty if it needs none."""
        view = MergedView([self._layers.path(name) for name in names])
        async with self._layers.scratch() as scratch:
            tar = scratch / "user.tar"
            if await asyncio.to_thread(view.is_empty):
                raise ImageError(f"the archive holds no files: {_EXPECTED}")
            if not await asyncio.to_thread(write_user_layer, view, tar, resolv_conf):
                return ()
            return (await self._add(LayerFile(tar, await asyncio.to_thread(file_digest, tar))),)
