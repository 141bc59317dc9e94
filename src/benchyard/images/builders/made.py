"""What an engine made, on its way into our store."""

from dataclasses import dataclass

from benchyard.images.builders.handover import Packed
from benchyard.images.builders.storage import StoredImage
from benchyard.images.importing import Imported, Source
from benchyard.images.layers import Layers
from benchyard.images.layouts import image_config


@dataclass(frozen=True)
class Made(Source):
    """An image in an engine's storage: layers we know are named, the others shared with us as they are."""

    image: StoredImage
    packed: Packed

    async def bring(self, layers: Layers, pins: set[str]) -> Imported:
        ours = self.packed.layers()
        names = []
        for layer in self.image.layers:
            name = layers.known(ours.get(layer.digest, layer.digest), pins)
            names.append(name or await layers.add_copy(layer.folder, pins, layer.digest))
        return Imported(tuple(reversed(names)), image_config(self.image.config.get("config") or {}))
