"""Disks and images that are a container engine's."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from benchyard.devboxes.base import DevboxSpec, Storage
from benchyard.devboxes.parts.container_engine import ContainerEngine
from benchyard.devboxes.parts.containers import Containers
from benchyard.errors import DevboxError, ImageError

NO_DEFAULT_IMAGE = "name the default image with `--driver-option image=...`, or use the native driver"
NO_LAYERS = (
    "the engine keeps disks in a way that cannot be read as layers: use its overlay2 storage driver, and "
    "with Docker 29 or newer turn the containerd image store off"
)


class ContainerStorage(Storage):
    """A devbox's disk is its container; images are those of the engine."""

    is_in_folder = False

    def __init__(self, engine: ContainerEngine, containers: Containers, default: str | None) -> None:
        self._engine = engine
        self._containers = containers
        self._default = default

    @contextlib.asynccontextmanager
    async def changes(self, spec: DevboxSpec) -> AsyncIterator[Path]:
        folder = await self._containers.changes(spec.id)
        if folder is None or not folder.is_dir():
            raise DevboxError(f"the disk of devbox {spec.id} cannot be read: {NO_LAYERS}")
        yield folder

    async def discard(self, devbox_id: str) -> None:
        await self._containers.remove(devbox_id)

    async def default_image(self) -> str:
        if not self._default:
            raise ImageError(f"there is no default image: {NO_DEFAULT_IMAGE}")
        return self._default

    async def export(self, name: str, target: Path) -> None:
        with target.open("wb") as file:
            async for piece in self._engine.save(name):
                await asyncio.to_thread(file.write, piece)
