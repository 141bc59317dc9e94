"""An image on its way out: its layers as tars, and the documents that name them.

The documents are those of an OCI layout and, beside them, the one that `docker save` writes: with both, every
engine reads it, old ones too.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchyard.devboxes.base import Trees
from benchyard.images.image import Image
from benchyard.images.layouts import architecture

_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_PLACE = "blobs/sha256/"


@dataclass(frozen=True)
class Title:
    """What is told of an image beside what it holds."""

    reference: str
    """The name an engine will know it by."""
    notes: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


class Packing:
    """Packs layers, bottom first, into a scratch folder; then writes the documents."""

    def __init__(self, trees: Trees, scratch: Path) -> None:
        self._trees = trees
        self._scratch = scratch
        self._layers: list[dict[str, Any]] = []
        self._blobs: dict[str, Path | bytes] = {}

    async def add(self, source: Path, names: tuple[str, ...] = (), *, plain: bool = False) -> str:
        """Pack one more layer; returns its digest."""
        tar = self._scratch / f"{len(self._layers)}.tar"
        digest, size = await self._trees.pack(source, tar, names, plain=plain)
        self._blobs[_PLACE + digest] = tar
        self.name(digest, size)
        return digest

    def name(self, digest: str, size: int = 0) -> None:
        """Name one more layer, whose content the reader has."""
        self._layers.append({"mediaType": _LAYER, "digest": f"sha256:{digest}", "size": size})

    def files(self, image: Image, title: Title) -> dict[str, Path | bytes]:
        """Everything by its name, the documents first."""
        digests = [str(layer["digest"]) for layer in self._layers]
        config = self._put(_config(image, digests, title.labels))
        manifest = self._put(
            {
                "schemaVersion": 2,
                "mediaType": _MANIFEST,
                "config": {"mediaType": _CONFIG, **config},
                "layers": self._layers,
                "annotations": {"org.opencontainers.image.created": _created(image), **title.notes},
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
    # Apart, as the image had them: a Dockerfile on top may replace one and keep the other.
    command = len(image.entrypoint) - len(image.command)
    run = {
        "Env": [f"{name}={value}" for name, value in image.env.items()],
        "User": image.user,
        "WorkingDir": image.working_directory,
        "Entrypoint": list(image.entrypoint[:command]),
        "Cmd": list(image.command),
        "Labels": dict(labels),
    }
    history = {"created": _created(image), "created_by": "benchyard"}
    return {
        "created": _created(image),
        "architecture": architecture(),
        "os": "linux",
        "config": {name: value for name, value in run.items() if value},
        "rootfs": {"type": "layers", "diff_ids": digests},
        # Engines that build on it want one line for each layer.
        "history": [history] * len(digests),
    }


def _created(image: Image) -> str:
    moment = datetime.fromtimestamp(image.create_time_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _place(digest: str) -> str:
    return _PLACE + digest.removeprefix("sha256:")


def _json(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True).encode()
