"""Layers as images of a container engine, and disks that belong to the engine."""

import asyncio
import contextlib
import hashlib
import io
import json
import logging
import os
import platform
import secrets
import shutil
import stat
import tarfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import IO

from benchyard.devboxes.base import DevboxSpec, Rootfs, Storage
from benchyard.devboxes.container.containers import Containers
from benchyard.devboxes.container.engine_client import ContainerEngine
from benchyard.devboxes.layers.pack import pack_into
from benchyard.devboxes.layers.trees import is_whiteout
from benchyard.errors import BenchyardError, DevboxError, ImageError, NotFound, StartFailed

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_BLOCK = 512


def write_image_archive(target: Path, layers: Sequence[Path], tag: str, labels: dict[str, str]) -> None:
    """Write layers (topmost first) as an image with that tag, which has no default command (blocks)."""
    with target.open("wb", buffering=0) as file:
        digests, names = [], []
        for number, layer in enumerate(reversed(layers)):
            names.append(f"{number}.tar")
            digests.append(_add_layer(file, names[-1], layer))
        config = {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
            "history": [{"created_by": "benchyard"} for _ in digests],
        }
        text = json.dumps(config).encode()
        config_name = f"{hashlib.sha256(text).hexdigest()}.json"
        manifest = [{"Config": config_name, "RepoTags": [tag], "Layers": names}]
        with tarfile.open(fileobj=file, mode="w|", format=tarfile.GNU_FORMAT) as tar:
            for name, content in ((config_name, text), ("manifest.json", json.dumps(manifest).encode())):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))


def _add_layer(file: IO[bytes], name: str, layer: Path) -> str:
    """Add one layer's tar to the archive; its header follows once its size is known. Return its digest."""
    start = file.tell()
    file.write(bytes(_BLOCK))
    digest, size = pack_into(file.fileno(), str(layer), plain=True)
    info = tarfile.TarInfo(name)
    info.size = size
    file.write(bytes(-size % _BLOCK))
    os.pwrite(file.fileno(), info.tobuf(tarfile.GNU_FORMAT), start)
    return digest


_logger = logging.getLogger(__name__)

LAYERS_LABEL = "benchyard.layers"
"""Label of all our images: the folders of their layers, topmost first, as JSON."""
_REPOSITORY = "localhost/benchyard"
_MOUNT_POINTS = ("dev", "proc", "sys")
_LOOK_SECONDS = 2.0


class ContainerImages:
    """The images of one engine that stand for our layers; `folder` holds half-made archives."""

    def __init__(self, engine: ContainerEngine, folder: Path) -> None:
        self._engine = engine
        self._folder = folder
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._known: dict[str, tuple[Path, ...]] = {}

    async def open(self) -> None:
        """Remove the half-made files of a killed server, and the images with layers that are gone."""
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700, parents=True)
        await self.sweep()

    async def ensure(self, rootfs: Rootfs) -> str:
        """Return the engine's name of an image made of these layers; load the image if it is missing."""
        tag = f"{_REPOSITORY}:{_digest(rootfs.layers)}"
        task = self._loading.get(tag)
        if task is None:
            task = self._loading[tag] = asyncio.create_task(self._load(tag, rootfs.layers))
            task.add_done_callback(lambda _done: self._loading.pop(tag, None))
        # Others may wait for the same image: cancelling one of them must not stop the load.
        await asyncio.shield(task)
        return tag

    async def _load(self, tag: str, layers: tuple[Path, ...]) -> None:
        if await self._engine.has_image(tag):
            self._known[tag] = layers
            return
        _check_mount_points(layers)
        archive = self._folder / f"{secrets.token_hex(8)}.tar"
        labels = {LAYERS_LABEL: json.dumps([str(layer) for layer in layers])}
        try:
            await asyncio.to_thread(write_image_archive, archive, layers, tag, labels)
            await self._engine.load(archive)
        except (OSError, DevboxError) as error:
            raise StartFailed(
                f"the image could not be handed to the engine: {error}", step="image"
            ) from error
        finally:
            archive.unlink(missing_ok=True)
        self._known[tag] = layers

    async def close(self) -> None:
        """Wait for running loads, then remove stale images."""
        for task in list(self._loading.values()):
            with contextlib.suppress(BenchyardError):
                await task
        await self._tidy()

    async def sweep(self) -> None:
        """Remove the images with layers that are gone; an image used by a container waits for the next time.

        Afterwards the engine's images are known, even those that another server has loaded.
        """
        before = set(self._known)
        for image in await self._engine.images(LAYERS_LABEL):
            layers = _layers(image)
            if layers is None:
                continue
            for name in image.get("RepoTags") or [image["Id"]]:
                before.discard(name)
                if not _are_there(layers) and await self._is_removed(name):
                    self._known.pop(name, None)
                else:
                    self._known[name] = layers
        for name in before:
            # Another client has removed it.
            self._known.pop(name, None)

    async def _is_removed(self, name: str) -> bool:
        try:
            await self._engine.ask("DELETE", f"/images/{name}")
        except NotFound:
            return True
        except DevboxError as error:
            _logger.debug("image %s stays for now: %s", name, error.message)
            return False
        return True

    async def keep_tidy(self) -> None:
        """Sweep whenever layers have been removed, for ever."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self._tidy()

    async def _tidy(self) -> None:
        if not all(map(_are_there, self._known.values())):
            try:
                await self.sweep()
            except BenchyardError as error:
                _logger.warning("images whose layers are gone stay in the engine: %s", error.message)


def is_stale(image: dict[str, object]) -> bool:
    """Tell whether layers of one of our images are gone."""
    layers = _layers(image)
    return layers is not None and not _are_there(layers)


def _layers(image: dict[str, object]) -> tuple[Path, ...] | None:
    """Return the layers an image was made of; None if the label is not ours, so that the image stays."""
    labels = image.get("Labels")
    try:
        return tuple(map(Path, json.loads(labels[LAYERS_LABEL]))) if isinstance(labels, dict) else None
    except (KeyError, ValueError, TypeError):
        return None


def _check_mount_points(layers: tuple[Path, ...]) -> None:
    """Refuse layers with links that would lead runtimes out of the container when they mount there."""
    for name in _MOUNT_POINTS:
        path = next((layer / name for layer in layers if os.path.lexists(layer / name)), None)
        if path is not None and not is_whiteout(path.lstat()) and not stat.S_ISDIR(path.lstat().st_mode):
            raise StartFailed(f"/{name} of the image is not a directory: import an image where it is")


def _are_there(layers: tuple[Path, ...]) -> bool:
    return all(layer.is_dir() for layer in layers)


def _digest(layers: tuple[Path, ...]) -> str:
    facts = [(str(layer), layer.stat().st_dev, layer.stat().st_ino) for layer in layers]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


NO_DEFAULT_IMAGE = "name the default image with `--driver-option image=...`, or use the native driver"
NO_LAYERS = (
    "the engine keeps disks in a way that cannot be read as layers: use its overlay2 storage driver, and "
    "with Docker 29 or newer turn the containerd image store off"
)


class ContainerStorage(Storage):
    """Storage with containers as disks, and with the engine's images."""

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
