"""An image of our store for an engine: its layers, each packed once and known when they come back."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchyard.devboxes.base import Trees
from benchyard.images.exporting import Archive
from benchyard.images.image import Image
from benchyard.images.packing import Packing, Title


class Packed:
    """Which digest each of our layers has as a tar, so that it is known when an engine hands it back."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def layers(self) -> Mapping[str, str]:
        """Digest -> name of our layer."""
        try:
            found: dict[str, str] = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        return found

    def add(self, digest: str, layer: str) -> None:
        """Remember a layer's digest."""
        partial = self._path.with_suffix(".partial")
        partial.write_text(json.dumps({**self.layers(), digest: layer}))
        partial.replace(self._path)


@dataclass(frozen=True)
class Handover:
    """Packs one image into an empty folder."""

    trees: Trees
    packed: Packed
    folder: Path

    async def write_layout(self, image: Image, layers: Iterable[Path], present: set[str]) -> None:
        """Make the folder a layout; a layer whose digest the engine has already comes without its content."""
        known = {name: digest for digest, name in self.packed.layers().items()}
        packing = Packing(self.trees, self.folder)
        for layer in layers:
            if (digest := known.get(layer.name, "")) in present:
                packing.name(digest)
            else:
                self.packed.add(await packing.add(layer), layer.name)
        (self.folder / "blobs" / "sha256").mkdir(parents=True)
        for name, content in packing.files(image, Title("localhost/benchyard/base")).items():
            if isinstance(content, Path):
                content.rename(self.folder / name)
            else:
                (self.folder / name).write_bytes(content)

    async def write_archive(self, image: Image, layers: Iterable[Path], title: Title) -> Path:
        """Write an archive with all layers, for an engine that will save them again; returns where it is."""
        packing = Packing(self.trees, self.folder)
        for layer in layers:
            self.packed.add(await packing.add(layer, plain=True), layer.name)
        target = self.folder / "image.tar"
        with target.open("wb") as file:
            async for piece in Archive(packing.files(image, title)).chunks():
                await asyncio.to_thread(file.write, piece)
        return target
