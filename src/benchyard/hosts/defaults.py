"""The default image where it cannot be a view of the host's own system: the one that the driver names."""

import asyncio

from benchyard.devboxes.base import Capability, Driver
from benchyard.errors import ImageError, NotFound
from benchyard.images.store import HOST_IMAGE, Image, ImageStore


class Defaults:
    """Finds images by name; the default one is brought into the store when it is first needed."""

    def __init__(self, driver: Driver, images: ImageStore) -> None:
        self._driver = driver
        self._images = images
        self._fetching = asyncio.Lock()

    async def find(self, name: str) -> Image:
        """The image of that name or id; raises NotFound, or ImageError if there is no default one."""
        if name != HOST_IMAGE or Capability.HOST_VIEW in self._driver.capabilities:
            return await self._images.get(name)
        async with self._fetching:
            default = await self._driver.storage.default_image()
            try:
                return await self._images.get(default)
            except NotFound:
                return await self._fetch(default)

    async def _fetch(self, name: str) -> Image:
        async with self._images.scratch() as scratch:
            archive = scratch / "image.tar"
            try:
                await self._driver.storage.export(name, archive)
            except NotFound as error:
                message = f"the default image {name!r} is neither in the store nor known to the engine"
                raise ImageError(f"{message}: import it, or pull it with the engine's own command") from error
            return await self._images.import_archive(archive, name)
