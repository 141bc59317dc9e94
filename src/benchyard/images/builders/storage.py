"""The layers and images in an engine's storage, read from its own files (containers/storage, overlay)."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchyard.errors import BuildFailed

_MOST_LAYERS = 400


@dataclass(frozen=True)
class StoredLayer:
    """One layer of the engine: the digest of its content, and the folder that holds it."""

    digest: str
    folder: Path


@dataclass(frozen=True)
class StoredImage:
    """An image of the engine: layers from the bottom up, and its configuration."""

    id: str
    layers: tuple[StoredLayer, ...]
    config: dict[str, Any]


class Storage:
    """A folder that an engine keeps its images in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def digests(self) -> set[str]:
        """Of all layers that are there."""
        return {_digest(layer) for layer in self._records("layers") if layer.get("diff-digest")}

    def names(self) -> list[str]:
        """Of all images that have some."""
        return [str(name) for image in self._records("images") for name in image.get("names") or ()]

    def find(self, name: str) -> str | None:
        """The id of the image of that full name."""
        for image in self._records("images"):
            if name in (image.get("names") or ()):
                return str(image["id"])
        return None

    def has_containers(self) -> bool:
        """Whether an engine left a container behind."""
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
        found: dict[str, Any] = json.loads(
            (self.folder / "overlay-images" / image_id / f"={key}").read_bytes()
        )
        return found

    def _records(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        folder = self.folder / f"overlay-{kind}"
        for name in (f"{kind}.json", f"volatile-{kind}.json"):
            try:
                found += json.loads((folder / name).read_bytes() or b"[]") or []
            except FileNotFoundError:
                continue
        return found


def _digest(layer: dict[str, Any]) -> str:
    return str(layer["diff-digest"]).removeprefix("sha256:")
