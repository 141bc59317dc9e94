"""The image store of one machine: layers on disk, and images that name them in order."""

import asyncio
import contextlib
import dataclasses
import os
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path

from benchyard.devboxes.base import Rootfs, Trees
from benchyard.errors import Conflict, ImageError, NotFound
from benchyard.images.fingerprint import host_fingerprint, same_system, system_name
from benchyard.images.host_view import resolv_conf, write_host_layer
from benchyard.images.image import (
    Image,
    check_depth,
    check_id,
    check_name,
    clear_partial_records,
    new_id,
    newest_first,
    read_records,
    write_record,
)
from benchyard.images.importing import Importer
from benchyard.images.layers import Layers
from benchyard.images.layouts import file_digest

__all__ = ["HOST_IMAGE", "Image", "ImageStore"]

HOST_IMAGE = "host"
"""The default image: a view of this machine's own system."""


class ImageStore:
    """Layers and images under one closed folder (0700), with one process at a time using it."""

    def __init__(self, folder: Path, trees: Trees, *, root: Path = Path("/")) -> None:
        self._folder = folder
        self._records = folder / "images"
        self._holds = folder / "holds"
        self._trees = trees
        self._root = root
        self._layers = Layers(folder, trees)
        self._images: dict[str, Image] = {}
        self._fingerprint = ""
        self._sweeping = asyncio.Lock()
        self._complete = True

    async def open(self) -> None:
        """Make the folder, clear what a crash left half-made, make or refresh the default image `host`."""
        await asyncio.to_thread(self._make_folders)
        images, self._complete = await asyncio.to_thread(read_records, self._records)
        self._images = {image.id: image for image in images}
        self._fingerprint = await asyncio.to_thread(host_fingerprint, self._root)
        await asyncio.to_thread(clear_partial_records, self._records)
        await self._layers.clear()
        await self._refresh_host()
        await self._sweep()

    async def get(self, id_or_name: str) -> Image:
        """The image of that id, else the newest of that name; raises NotFound."""
        if id_or_name in self._images:
            return self._images[id_or_name]
        for image in newest_first([each for each in self._images.values() if each.name == id_or_name]):
            return image
        raise NotFound(f"there is no image {id_or_name[:200]!r}: see `benchyard image list`")

    async def list(self) -> list[Image]:
        """All images, newest first."""
        return newest_first([*self._images.values()])

    def rootfs(self, image: Image) -> Rootfs:
        """What a driver starts it from; raises ImageError if it belongs to another machine."""
        if image.fingerprint is not None and not same_system(image.fingerprint, self._fingerprint):
            message = (
                f"{image.name!r} was made on another system ({system_name(image.fingerprint)}, this one is "
                f"{system_name(self._fingerprint)}): use it there, or use an image that holds its own system"
            )
            raise ImageError(message, image=image.id)
        layers = tuple(self._layers.path(name) for name in image.layers)
        if missing := [layer.name for layer in layers if not layer.is_dir()]:
            raise ImageError(f"layers of {image.name!r} are missing from {self._folder}", layers=missing)
        return Rootfs(layers, image.host_dirs)

    async def import_archive(self, source: Path, name: str) -> Image:
        """Import a root filesystem folder, a tarball of one, or an OCI or docker archive."""
        check_name(name)
        if name in self._images:
            raise Conflict(f"{name!r} is the id of another image: choose another name")
        if source.is_dir() and self._folder.resolve().is_relative_to(source.resolve()):
            raise ImageError(f"{source} holds the image store itself: import a folder that does not")
        async with self._keeping() as pins:
            try:
                importer = Importer(self._layers, self._trees, pins)
                found = await importer.run(source, await asyncio.to_thread(resolv_conf, self._root))
            except OSError as error:
                raise ImageError(f"{source} could not be imported: {error}") from error
            config = {
                each.name: getattr(found.config, each.name) for each in dataclasses.fields(found.config)
            }
            return await self._register(Image(new_id(), name, found.layers, **config))

    async def add_layer(self, parent: Image, changes: Path, image_id: str, *, move: bool) -> Image:
        """Make a snapshot image of `changes` on top of `parent`; synced to disk when this returns.

        A move takes the folder as it is; when anything fails after it, the folder is put back.
        """
        check_id(image_id)
        if image_id in self._images:
            raise Conflict(f"there is an image {image_id!r} already")
        check_depth((image_id, *parent.layers))
        self.rootfs(parent)
        async with self._keeping() as pins:
            pins.update(parent.layers)
            moved = self._layers.move_in(changes, pins) if move else None
            layer = moved or await self._layers.add_copy(changes, pins)
            image = dataclasses.replace(
                parent,
                id=image_id,
                name=image_id,
                layers=(layer, *parent.layers),
                kind="snapshot",
                parent=parent.id,
            )
            try:
                image = await self._register(image)
            except BaseException:
                if moved and image_id not in self._images:
                    self._layers.path(moved).rename(changes)
                raise
        if move and not moved:
            await self._trees.remove(changes)
        return image

    async def remove(self, image_id: str) -> None:
        """Remove an image and the layers that no other image and no devbox needs."""
        if image_id not in self._images:
            raise NotFound(f"there is no image {image_id[:200]!r}: see `benchyard image list`")
        if image_id == HOST_IMAGE:
            raise Conflict("the default image cannot be removed")
        await asyncio.to_thread((self._records / f"{image_id}.json").unlink, missing_ok=True)
        self._images.pop(image_id, None)
        await self._sweep()

    def hold(self, image: Image, holder: str) -> None:
        """Keep an image's layers as long as `holder` (a devbox) uses them, also over a restart."""
        check_id(holder)
        path = self._holds / f"{holder}.json"
        path.unlink(missing_ok=True)
        try:
            os.link(self._records / f"{image.id}.json", path)
        except FileNotFoundError as error:
            raise NotFound(f"there is no image {image.id!r} any more") from error

    async def held(self, holder: str) -> Image | None:
        """The image a holder keeps, as it was then."""
        images, _ = await asyncio.to_thread(read_records, self._holds, f"{holder}.json")
        return images[0] if images else None

    async def release(self, holder: str) -> None:
        """End a hold, if there is one; layers nobody needs any more are removed."""
        check_id(holder)
        path = self._holds / f"{holder}.json"
        image = await self.held(holder)
        path.unlink(missing_ok=True)
        if image is not None and self._images.get(image.id) != image:
            await self._sweep()

    @contextlib.asynccontextmanager
    async def scratch(self) -> AsyncIterator[Path]:
        """A folder for half-made things on the store's disk, gone afterwards."""
        async with self._layers.scratch() as folder:
            yield folder

    def _make_folders(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = self._folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            message = (
                f"{self._folder} must be a folder of the user who runs the server: choose another data folder"
            )
            raise ImageError(message)
        self._folder.chmod(0o700)
        for name in ("layers", "images", "holds", "partial"):
            (self._folder / name).mkdir(mode=0o700, exist_ok=True)

    async def _refresh_host(self) -> None:
        current = self._images.get(HOST_IMAGE)
        if current and current.fingerprint == self._fingerprint and self._is_whole(current):
            return
        async with self._keeping() as pins, self._layers.scratch() as scratch:
            tar = scratch / "host.tar"
            host_dirs = await asyncio.to_thread(write_host_layer, self._root, tar)
            layer = await self._layers.add_tar(tar, await asyncio.to_thread(file_digest, tar), pins)
            image = Image(HOST_IMAGE, HOST_IMAGE, (layer,), host_dirs, self._fingerprint, kind="host")
            await self._register(image)

    def _is_whole(self, image: Image) -> bool:
        return all(self._layers.path(name).is_dir() for name in image.layers)

    @contextlib.asynccontextmanager
    async def _keeping(self) -> AsyncIterator[set[str]]:
        """Layer names that are kept until an image names them; what a failure leaves unnamed is removed."""
        try:
            with self._layers.pinned() as pins:
                yield pins
        except BaseException:
            await self._sweep()
            raise

    async def _register(self, image: Image) -> Image:
        """Write an image down once its layers are on disk."""
        check_depth(image.layers)
        own = image.layers[:1] if image.kind == "snapshot" else image.layers
        await self._layers.sync()
        size = await self._layers.size(own)
        image = dataclasses.replace(image, size_bytes=size, create_time_ms=time.time_ns() // 1_000_000)
        previous = self._images.get(image.id)
        if previous and image.id != HOST_IMAGE:
            raise Conflict(f"there is an image {image.id!r} already")
        # Named before it is written: a caller that goes away now leaves a record whose layers must stay.
        self._images[image.id] = image
        try:
            await asyncio.to_thread(write_record, self._records, image)
        except OSError as error:
            del self._images[image.id]
            raise ImageError(f"the record of image {image.name!r} could not be written: {error}") from error
        return image

    async def _sweep(self) -> None:
        """Remove layers nobody names; never while a record cannot be read, which may name any of them."""
        async with self._sweeping:
            held, readable = await asyncio.to_thread(read_records, self._holds)
            if not (self._complete and readable):
                return
            images = [*self._images.values(), *held]
            await self._layers.sweep({name for image in images for name in image.layers})
