"""Collection of images: removes the longest unused, and the builder's cache, when the store is too large."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from benchyard.devboxes.base import Trees
from benchyard.errors import NotFound
from benchyard.images.aliases import Aliases
from benchyard.images.builders.base import Builder
from benchyard.images.image import Image, check_id
from benchyard.images.store import ImageStore

InUse = Callable[[], Awaitable[set[str]]]
"""Returns ids of images that are needed, whatever their age."""


@dataclass(frozen=True)
class CollectionResult:
    """The result of a collection."""

    removed: tuple[str, ...]
    """Names of the removed images."""
    cleared_cache: bool
    freed_bytes: int
    used_bytes: int
    """Bytes under the store's folder after the collection."""


class ImagePins:
    """Images that are never collected: an empty file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def all(self) -> set[str]:
        """Return the ids of pinned images."""
        return {path.name for path in self._folder.iterdir()} if self._folder.is_dir() else set()

    def set(self, image_id: str) -> None:
        """Pin an image."""
        check_id(image_id)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        (self._folder / image_id).touch(mode=0o600)

    def remove(self, image_id: str) -> None:
        """Unpin an image, if it is pinned."""
        check_id(image_id)
        (self._folder / image_id).unlink(missing_ok=True)


class Collector:
    """Keeps a store below a size. Snapshots, the default image, and images that are pinned or in use stay."""

    def __init__(self, store: ImageStore, folder: Path, trees: Trees, builder: Builder) -> None:
        self._store = store
        self._folder = folder
        self._trees = trees
        self._builder = builder
        self._in_use: list[InUse] = []
        self._running = asyncio.Lock()
        self.pins = ImagePins(folder / "pins")
        self.aliases = Aliases(folder)

    def protect(self, in_use: InUse) -> None:
        """Call this function from now on before images are removed."""
        self._in_use.append(in_use)

    def last_used(self, image: Image) -> float:
        """Return the time an image was made or last started from, in seconds since 1970."""
        try:
            return (self._folder / "images" / f"{image.id}.json").stat().st_mtime
        except FileNotFoundError:
            return 0.0

    async def used_bytes(self) -> int:
        """Return the disk space under the store's folder; shared files count once."""
        return (await self._trees.usage(self._folder))[0]

    async def collect(self, most_bytes: int) -> CollectionResult:
        """Remove the images unused for longest until at most this much space is used."""
        async with self._running:
            before = used = await self.used_bytes()
            removed: list[str] = []
            cleared = False
            for image in await self._candidates() if used > most_bytes else ():
                if used <= most_bytes:
                    break
                if image is None:
                    cleared = await self._builder.forget()
                elif await self._remove(image):
                    removed.append(image.name)
                used = await self.used_bytes()
            return CollectionResult(tuple(removed), cleared, max(0, before - used), used)

    async def _candidates(self) -> list[Image | None]:
        """Return the removable images, oldest use first; None is the builder's cache."""
        named = await self._kept_images()
        images = [
            image for image in await self._store.list() if image.kind == "image" and image.id not in named
        ]
        aged: list[tuple[float, Image | None]] = [(self.last_used(image), image) for image in images]
        aged.append((self._builder.last_used(), None))
        return [each for _, each in sorted(aged, key=lambda pair: pair[0])]

    async def _kept_images(self) -> set[str]:
        named = self.pins.all()
        for holder in self._store.holders():
            if held := await self._store.held(holder):
                named.add(held.id)
        for in_use in self._in_use:
            named |= await in_use()
        aliased = set(self.aliases.all().values())
        return named | {image.id for image in await self._store.list() if {image.id, image.name} & aliased}

    async def _remove(self, image: Image) -> bool:
        # A devbox may have started from it since the images were listed.
        if image.id in await self._kept_images():
            return False
        try:
            await self._store.remove(image.id)
        except NotFound:
            return False
        return True
