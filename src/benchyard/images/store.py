"""The image store of one machine: layers on disk, and images that name them in order."""

import asyncio
import contextlib
import dataclasses
import logging
import os
import stat
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

from benchyard.devboxes.base import Rootfs, Trees
from benchyard.errors import BenchyardError, Conflict, ImageError, NotFound
from benchyard.images.exports import ImageArchive, ImageExporter
from benchyard.images.host_image import (
    host_fingerprint,
    resolv_conf,
    same_system,
    system_name,
    write_host_layer,
)
from benchyard.images.image import (
    MOST_LAYERS,
    Image,
    Label,
    check_depth,
    check_id,
    check_name,
    clear_partial_records,
    newest_first,
    read_records,
    write_record,
)
from benchyard.images.imports import ImageImporter, ImportedImage, LayerSource, check_kind
from benchyard.images.layers import Layers
from benchyard.images.layouts import file_digest

__all__ = ["HOST_IMAGE", "Image", "ImageStore", "Label"]

HOST_IMAGE = "host"
"""The default image: a view of this machine's own system."""


_CLOSE_SECONDS = 10.0
_DEEPEST = 20
"""Number of snapshots' layers that are stacked before they are merged; so many slow a start only slightly."""

_log = logging.getLogger(__name__)


PASSING = frozenset({"scoring"})
"""Kinds of images that serve running devboxes: they need not be on disk, since they end with those."""


class ImageStore:
    """Layers and images under a private folder (0700), used by one process at a time."""

    def __init__(self, folder: Path, trees: Trees, *, root: Path = Path("/")) -> None:
        self._folder = folder
        self._records = folder / "images"
        self._holds = folder / "holds"
        self._holders: set[str] = set()
        self._held: dict[str, Image] = {}
        """Images held since this process began; earlier ones are read from disk when needed."""
        self.trees = self._trees = trees
        self._root = root
        self._layers = Layers(folder, trees)
        self._images: dict[str, Image] = {}
        self._named: Counter[str] = Counter()
        self._loose: set[str] = set()
        """Layers that no image names; a devbox may still use them."""
        self._fingerprint = ""
        self._sweeping = asyncio.Lock()
        self._complete = True

    async def open(self) -> None:
        """Make the folder, clear the remains of a crash, and make or refresh the default image `host`."""
        await asyncio.to_thread(self._make_folders)
        images, self._complete = await asyncio.to_thread(read_records, self._records)
        self._images = {image.id: image for image in images}
        self._named = Counter(name for image in images for name in image.layers)
        self._fingerprint = await asyncio.to_thread(host_fingerprint, self._root)
        for folder in (self._records, self._holds):
            await asyncio.to_thread(clear_partial_records, folder)
        self._holders = {path.stem for path in self._holds.iterdir() if path.suffix == ".json"}
        await self._layers.clear()
        await self._refresh_host()
        await self._sweep()

    async def close(self) -> None:
        """Remove unneeded layers, for some seconds; the next start removes the rest."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._sweep()
                await self._layers.clear()
        except TimeoutError:
            _log.info("layers that nobody needs are still being removed: the next start does the rest")
        except (BenchyardError, OSError) as error:
            _log.warning("layers that nobody needs are left, the next start tries again: %s", error)

    async def get(self, id_or_name: str) -> Image:
        """Return the image of this id, else the newest of this name; raises NotFound."""
        if id_or_name in self._images:
            return self._images[id_or_name]
        for image in newest_first([each for each in self._images.values() if each.name == id_or_name]):
            return image
        raise NotFound(f"there is no image {id_or_name[:200]!r}: see `benchyard image list`")

    async def list(self) -> list[Image]:
        """Return all images, newest first."""
        return newest_first([*self._images.values()])

    def rootfs(self, image: Image) -> Rootfs:
        """Return the root filesystem for a driver; raises ImageError if it belongs to another machine."""
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

    async def import_archive(self, source: Path | LayerSource, name: str | Label) -> Image:
        """Import a root filesystem folder or tarball, an OCI or docker archive, or an engine's image."""
        label = Label(name) if isinstance(name, str) else name
        self.check_name(label.name)
        async with self._keeping() as pins:
            layers = await self._brought_in(source, pins)
            image = Image(
                label.id,
                label.name,
                layers.layers,
                request_hash=label.request_hash,
                stands_for=label.stands_for,
            )
            return await self._register(_configured(image, layers))

    def check_name(self, name: str) -> None:
        """Raise UsageError or Conflict if an image cannot have this name."""
        check_name(name)
        if name in self._images:
            raise Conflict(f"{name!r} is the id of another image: choose another name")

    async def import_snapshot(self, source: Path, image_id: str) -> tuple[Image, Mapping[str, str]]:
        """Import an archive as a snapshot of this id; also return the notes in it."""
        check_id(image_id)
        async with self._keeping() as pins:
            layers = await self._brought_in(source, pins)
            image = Image(image_id, image_id, layers.layers, kind="snapshot")
            return await self._register(_configured(image, layers)), layers.notes

    async def _brought_in(self, source: Path | LayerSource, pins: set[str]) -> ImportedImage:
        if isinstance(source, Path):
            await self.check_source(source)
        try:
            importer = ImageImporter(self._layers, self._trees, pins)
            return await importer.run(source, await asyncio.to_thread(resolv_conf, self._root))
        except OSError as error:
            raise ImageError(f"{source} could not be imported: {error}") from error

    async def check_source(self, source: Path) -> None:
        """Raise ImageError for a path that can be seen to contain no image without reading it completely."""
        if source.is_dir() and self._folder.resolve().is_relative_to(source.resolve()):
            raise ImageError(f"{source} holds the image store itself: import a folder that does not")
        await asyncio.to_thread(check_kind, source)

    @contextlib.asynccontextmanager
    async def exported(self, image: Image, notes: Mapping[str, str]) -> AsyncIterator[ImageArchive]:
        """Yield an OCI archive of an image, with these notes; it is removed when the block ends.

        For an image that shows this machine's own system, the archive includes the shown files.
        """
        rootfs = self.rootfs(image)
        async with self._keeping() as pins, self._layers.scratch() as scratch:
            pins.update(image.layers)
            yield await ImageExporter(self._trees, scratch, self._root).run(image, rootfs, notes)

    @contextlib.asynccontextmanager
    async def shallow(self, image: Image) -> AsyncIterator[Image]:
        """Yield the image to put below a new layer: many layers of snapshots are merged into one.

        The snapshots that name the layers keep them. The merged layer is kept until the block ends.
        """
        async with self._keeping() as pins:
            yield await self._merged(image, pins) if _is_deep(image) else image

    async def _merged(self, image: Image, pins: set[str]) -> Image:
        pins.update(image.layers)
        try:
            layer = await self._layers.add_merged(self.rootfs(image), image.own_layers, pins)
        except (BenchyardError, OSError) as error:
            # The image can be started and built on all the same; the next due merge tries again.
            _log.warning("the layers of %s could not be merged: %s", image.id, error)
            return image
        return dataclasses.replace(image, layers=(layer, *image.layers[image.own_layers :]), own_layers=1)

    async def add_layer(
        self, parent: Image, changes: Path, image_id: str, *, move: bool, kind: str = "snapshot"
    ) -> Image:
        """Make an image of `changes` on top of `parent`; it is on disk when this returns.

        With `move`, the folder itself is taken; if a later step fails, it is put back.
        """
        check_id(image_id)
        if image_id in self._images:
            raise Conflict(f"there is an image {image_id!r} already")
        check_depth((image_id, *parent.layers))
        self.rootfs(parent)
        async with self._keeping() as pins:
            pins.update(parent.layers)
            layer = self._layers.new_name(pins)
            is_moved = move and self._layers.move_in(changes, layer)
            if not is_moved:
                layer = await self._layers.add_copy(changes, pins)
            try:
                image = await self._register(_on_top(parent, layer, image_id, kind))
            except BaseException:
                if is_moved and image_id not in self._images:
                    self._layers.path(layer).rename(changes)
                raise
        if move and not is_moved:
            await self._trees.remove(changes)
        return image

    async def take_layer(self, parent: Image, changes: Path, image_id: str, kind: str) -> Image:
        """Make an image of `changes` on top of `parent` by moving the folder; its size is not measured.

        The record is written first. After a kill, a repeated call finishes the work.
        """
        check_id(image_id)
        image = self._images.get(image_id)
        if image is None:
            self.rootfs(parent)
            async with self._keeping() as pins:
                pins.update(parent.layers)
                made = _on_top(parent, self._layers.new_name(pins), image_id, kind)
                image = await self._register(made, is_measured=False)
        if not self.has_top(image) and not self._layers.move_in(changes, image.layers[0]):
            await self.remove(image_id)
            return await self.add_layer(parent, changes, image_id, move=True, kind=kind)
        return image

    def has_top(self, image: Image) -> bool:
        """Tell whether the topmost layer of an image has been moved in."""
        return self.top(image).is_dir()

    def top(self, image: Image) -> Path:
        """Return the folder of the topmost layer of an image."""
        return self._layers.path(image.layers[0])

    async def size(self, image: Image, most: int) -> int:
        """Return the bytes on disk that an image adds to its parent; above `most`, it is not exact."""
        return await self._layers.size(image.layers if image.parent is None else image.layers[:1], most)

    def note_size(self, image: Image, size: int, *, is_exact: bool) -> None:
        """Note what the topmost layer of an image takes, or takes at least, so that nothing measures it."""
        self._layers.note_size(image.layers[0], size, is_exact=is_exact)

    async def share(self, image_id: str, new_id: str, kind: str) -> Image:
        """Name the layers of an image by another id too, so that they stay when the image is removed."""
        check_id(new_id)
        image = self._images.get(image_id)
        if image is None:
            raise NotFound(f"there is no image {image_id[:200]!r}: see `benchyard image list`")
        async with self._keeping() as pins:
            pins.update(image.layers)
            made = dataclasses.replace(image, id=new_id, name=new_id, kind=kind, request_hash=None)
            return await self._register(made)

    async def remove(self, image_id: str) -> None:
        """Remove an image and the layers that no other image and no devbox needs."""
        if image_id not in self._images:
            raise NotFound(f"there is no image {image_id[:200]!r}: see `benchyard image list`")
        if image_id == HOST_IMAGE:
            raise Conflict("the default image cannot be removed")
        (self._records / f"{image_id}.json").unlink(missing_ok=True)
        await self._sweep(self._drop(image_id))

    def hold(self, image: Image, holder: str) -> None:
        """Keep an image's layers as long as `holder` (a devbox) uses them, also over a restart."""
        check_id(holder)
        path = f"{self._holds}/{holder}.json"
        record = f"{self._records}/{image.id}.json"
        try:
            # The time of the record is the time the image was last used.
            os.utime(record)
            try:
                os.link(record, path)
            except FileExistsError:
                self._hold_anew(record, holder)
        except FileNotFoundError as error:
            raise NotFound(f"there is no image {image.id!r} any more") from error
        self._holders.add(holder)
        self._held[holder] = image

    def _hold_anew(self, record: str, holder: str) -> None:
        """Replace the image that a holder keeps, with no moment in which it keeps none."""
        fresh = self._holds / f".{holder}.partial"
        fresh.unlink(missing_ok=True)
        os.link(record, fresh)
        fresh.rename(self._holds / f"{holder}.json")
        # A rename between two names of the same file has no effect.
        fresh.unlink(missing_ok=True)

    def holders(self) -> set[str]:
        """Return the names of all holders."""
        return set(self._holders)

    async def held(self, holder: str) -> Image | None:
        """Return the image that a holder keeps, as it was at the beginning of the hold."""
        if holder in self._held or holder not in self._holders:
            return self._held.get(holder)
        images, _ = read_records(self._holds, f"{holder}.json")
        return images[0] if images else None

    async def _all_held(self) -> tuple[Iterable[Image], bool]:
        """Return the images that holders keep, and whether all of them are known."""
        if self._holders <= self._held.keys():
            return tuple(self._held.values()), True
        return await asyncio.to_thread(read_records, self._holds)

    async def release(self, holder: str) -> None:
        """End a hold, if there is one, and remove layers that are no longer needed."""
        check_id(holder)
        image = await self.held(holder)
        if holder in self._holders:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self._holds}/{holder}.json")  # noqa: PTH108  (done for every devbox)
            self._holders.discard(holder)
            self._held.pop(holder, None)
        if image is not None and self._images.get(image.id) != image:
            await self._sweep(image.layers)

    @contextlib.asynccontextmanager
    async def scratch(self) -> AsyncIterator[Path]:
        """Yield a folder for half-made files on the store's disk, which is removed afterwards."""
        async with self._layers.scratch() as folder:
            yield folder

    @contextlib.asynccontextmanager
    async def examined(
        self, final: Image, start: Image | None, wanted: Mapping[str, Any]
    ) -> AsyncIterator[Path]:
        """Yield a report of what an image has otherwise than its start, or else than the image below it.

        See `Trees.examine`. The layers are kept until the block ends.
        """
        async with self._keeping() as pins, self._layers.scratch() as scratch:
            pins.update(final.layers)
            whole = self.rootfs(final)
            if start is not None:
                pins.update(start.layers)
            below = self.rootfs(start) if start else Rootfs(whole.layers[1:], whole.host_dirs)
            report = scratch / "work"
            await self._trees.examine(whole, below, wanted, report)
            yield report

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
        if (
            current
            and current.fingerprint == self._fingerprint
            and all(self._layers.path(name).is_dir() for name in current.layers)
        ):
            return
        async with self._keeping() as pins, self._layers.scratch() as scratch:
            tar = scratch / "host.tar"
            host_dirs = await asyncio.to_thread(write_host_layer, self._root, tar)
            layer = await self._layers.add_tar(tar, await asyncio.to_thread(file_digest, tar), pins)
            image = Image(HOST_IMAGE, HOST_IMAGE, (layer,), host_dirs, self._fingerprint, kind="host")
            await self._register(image)

    @contextlib.asynccontextmanager
    async def _keeping(self) -> AsyncIterator[set[str]]:
        """Yield a set of layers to keep until an image names them; a failure removes unnamed ones."""
        used: set[str] = set()
        try:
            with self._layers.pinned() as pins:
                used = pins
                yield pins
        except BaseException:
            await self._sweep(used)
            raise

    async def _register(self, image: Image, *, is_measured: bool = True) -> Image:
        """Write an image's record once its layers are on disk."""
        check_depth(image.layers)
        own = image.layers if image.parent is None else image.layers[:1]
        if image.kind not in PASSING:
            await self._layers.sync()
        is_measured = is_measured and image.kind not in PASSING
        size = await self._layers.size(own) if is_measured else 0
        image = dataclasses.replace(image, size_bytes=size, create_time_ms=time.time_ns() // 1_000_000)
        previous = self._images.get(image.id)
        if previous and image.id != HOST_IMAGE:
            raise Conflict(f"there is an image {image.id!r} already")
        # Named before the record is written: if the caller is cancelled now, the record needs its layers.
        self._named.update(image.layers)
        self._drop(image.id)
        self._images[image.id] = image
        try:
            await asyncio.to_thread(write_record, self._records, image, lasts=image.kind not in PASSING)
        except OSError as error:
            self._drop(image.id)
            raise ImageError(f"the record of image {image.name!r} could not be written: {error}") from error
        return image

    def _drop(self, image_id: str) -> tuple[str, ...]:
        """Forget an image; return the layers that it named."""
        image = self._images.pop(image_id, None)
        layers = image.layers if image else ()
        self._named.subtract(layers)
        for name in layers:
            if self._named[name] <= 0:
                del self._named[name]
        return layers

    async def _sweep(self, among: Iterable[str] | None = None) -> None:
        """Remove layers that no image or devbox uses, among these or all.

        Does nothing while a record is unreadable, since it may name any layer.
        """
        async with self._sweeping:
            # Layers still in use are checked again in the next sweep.
            self._loose.update(among or ())
            self._loose -= self._named.keys()
            loose = None if among is None else set(self._loose)
            if loose is not None and not loose:
                return
            held, readable = await self._all_held()
            if not (self._complete and readable):
                return
            named = set(self._named).union(*(image.layers for image in held))
            await self._layers.sweep(named, loose)
            self._loose = {name for name in self._loose if self._layers.path(name).exists()}


def _configured(image: Image, imported: ImportedImage) -> Image:
    config = {
        field.name: getattr(imported.config, field.name) for field in dataclasses.fields(imported.config)
    }
    return dataclasses.replace(image, **config)


def _is_deep(image: Image) -> bool:
    """Tell whether a merge is due: at every twentieth layer, so that failing merges are seldom repeated."""
    own = image.own_layers
    return own > 1 and (own % _DEEPEST == 0 or len(image.layers) >= MOST_LAYERS)


def _on_top(parent: Image, layer: str, image_id: str, kind: str) -> Image:
    """Return an image with one more layer than another."""
    return dataclasses.replace(
        parent,
        id=image_id,
        name=image_id,
        layers=(layer, *parent.layers),
        kind=kind,
        parent=parent.id,
        own_layers=parent.own_layers + 1,
        request_hash=None,
    )
