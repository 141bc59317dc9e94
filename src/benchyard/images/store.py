"""The image store of one machine: layers on disk, and images that name them in order."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchyard.devboxes.base import Rootfs, Trees


@dataclass(frozen=True)
class Image:
    """An ordered list of layers (topmost first) and how to run what is in it."""

    id: str
    name: str
    layers: tuple[str, ...]
    """Names of folders in the store."""
    host_dirs: tuple[str, ...] = ()
    fingerprint: str | None = None
    """Of the machine whose own system it shows; None when it holds everything itself."""
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    working_directory: str | None = None
    entrypoint: tuple[str, ...] = ()
    size_bytes: int = 0
    create_time_ms: int = 0
    kind: str = "image"
    """`host`, `image` or `snapshot`."""
    parent: str | None = None


class ImageStore:
    """Layers and images under one closed folder (0700)."""

    def __init__(self, folder: Path, trees: Trees) -> None: ...

    async def open(self) -> None:
        """Make the folder, clear what a crash left half-made, and make (or refresh) the default image `host`."""

    async def get(self, id_or_name: str) -> Image:
        """The image of that id, else the newest of that name; raises NotFound."""

    async def list(self) -> list[Image]:
        """All images, newest first."""

    def rootfs(self, image: Image) -> Rootfs:
        """What a driver starts it from; raises ImageError if it belongs to another machine."""

    async def import_archive(self, source: Path, name: str) -> Image:
        """Import a root filesystem folder, a tarball of one, or an OCI or docker archive."""

    async def add_layer(self, parent: Image, changes: Path, image_id: str, *, move: bool) -> Image:
        """Make a snapshot image of `changes` on top of `parent`; synced to disk when this returns."""

    async def remove(self, image_id: str) -> None:
        """Remove an image and the layers nobody else names; raises Conflict while others are built on it."""
