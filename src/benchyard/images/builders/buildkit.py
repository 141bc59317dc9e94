"""Builds with BuildKit through a Docker engine that this machine already has."""

import asyncio
import contextlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchyard.devboxes.base import Network, Trees
from benchyard.errors import BuildFailed
from benchyard.images.aliases import Aliases
from benchyard.images.builders.base import BuildRecipe, BuiltImage, Log
from benchyard.images.builders.buildah_tool import BuildahCall
from benchyard.images.builders.buildkit_output import BuildKitProgress
from benchyard.images.builders.disk_watch import GrowthWatch
from benchyard.images.builders.docker_tool import DockerEngine, DockerTool
from benchyard.images.builders.engine_builder import HIDDEN, BuildAttempt, EngineBuilder, owner_of
from benchyard.images.builders.engine_images import EngineImages
from benchyard.images.builders.engine_storage import (
    ImageHandover,
    PackedLayers,
    StorageSource,
    StoredImage,
    StoredLayer,
)
from benchyard.images.builders.output import build_error
from benchyard.images.builders.processes import BuildGroups
from benchyard.images.dockerfile.readings import ApartCall
from benchyard.images.exports import ImageTitle
from benchyard.images.image import Image
from benchyard.images.imports import ImportedImage, LayerSource
from benchyard.images.layers import Layers
from benchyard.images.layouts import read_layout
from benchyard.images.store import ImageIdentity, ImageStore

_ENV = '{{range .Config.Env}}{{json .}}{{"\\n"}}{{end}}'
_DIGESTS = "{{range .RootFS.Layers}}{{println .}}{{end}}"
_FOLDERS = (
    "{{println .GraphDriver.Data.UpperDir}}"
    '{{range (split .GraphDriver.Data.LowerDir ":")}}{{println .}}{{end}}'
)
_REFUSED = "Error response from daemon: "


class DockerImages(EngineImages):
    """Images in the engine; a label with our name marks those that are ours."""

    def __init__(self, tool: DockerTool, trees: Trees, packed: PackedLayers, label: tuple[str, str]) -> None:
        self._tool = tool
        self._trees = trees
        self._packed = packed
        self._label = label

    async def find(self, name: str, scratch: Path) -> str | None:
        answer = await self._tool.ask(scratch, "image", "inspect", "--format", "{{.Id}}", name)
        return answer[-1].strip().removeprefix("sha256:") if answer else None

    async def env(self, image_id: str, scratch: Path) -> Mapping[str, str]:
        answer = await self._tool.ask(scratch, "image", "inspect", "--format", _ENV, image_id)
        pairs = [json.loads(line).partition("=") for line in answer or () if line.startswith('"')]
        return {name: value for name, _, value in pairs}

    async def fetch(self, full: str, scratch: Path, log: Log) -> str | None:
        lines = [""]

        def note(line: str) -> None:
            lines.append(line)
            log(line)

        status = await self._tool.run(BuildahCall(["pull", full], scratch), note)
        return None if status == 0 else lines[-1].removeprefix(_REFUSED)

    async def load(self, image: Image, layers: Sequence[Path], name: str, scratch: Path) -> str | None:
        folder = scratch / "base"
        folder.mkdir()
        title = ImageTitle(name, labels=dict([self._label]))
        archive = await ImageHandover(self._trees, self._packed, folder).write_archive(image, layers, title)
        said = await self._load(archive, scratch)
        await self._trees.remove(folder)
        return said

    async def load_folder(self, folder: Path, name: str, scratch: Path) -> str | None:
        """Make an image of a folder, for COPY --from; return the reason if that failed."""
        title = ImageTitle(name, labels=dict([self._label]))
        target = scratch / "folder"
        target.mkdir()
        handover = ImageHandover(self._trees, PackedLayers(target / "packed.json"), target)
        archive = await handover.write_archive(Image(name, name, ()), [folder], title)
        return await self._load(archive, scratch)

    async def _load(self, archive: Path, scratch: Path) -> str | None:
        lines = [""]
        status = await self._tool.run(
            BuildahCall(["load", "--quiet", "--input", str(archive)], scratch), lines.append
        )
        return None if status == 0 else lines[-1].removeprefix(_REFUSED)

    async def stored_image(self, image_id: str, scratch: Path) -> StoredImage | None:
        """Return the image in the engine's storage if its layers are folders that we can read."""
        digests = await self._inspect(image_id, _DIGESTS, scratch)
        # Topmost first; an image of one layer has no folders below it.
        folders = [
            Path(line) for line in await self._inspect(image_id, _FOLDERS, scratch) if line.startswith("/")
        ]
        config = await self._inspect(image_id, "{{json .Config}}", scratch)
        if not digests or len(folders) != len(digests) or not all(map(_is_readable, folders)):
            return None
        try:
            found = json.loads("".join(config))
        except ValueError:
            return None
        pairs = zip(digests, reversed(folders), strict=True)
        layers = [StoredLayer(digest.removeprefix("sha256:"), folder) for digest, folder in pairs]
        return StoredImage(image_id, tuple(layers), {"config": found})

    async def _inspect(self, image_id: str, template: str, scratch: Path) -> list[str]:
        answer = await self._tool.ask(scratch, "image", "inspect", "--format", template, image_id)
        return [line for line in answer or () if line]

    async def remove(self, scratch: Path, *, all_of_ours: bool) -> bool:
        """Remove images of ours, only unnamed ones or all; return whether there were any."""
        dangling = [] if all_of_ours else ["--filter", "dangling=true"]
        label = f"label={'='.join(self._label)}"
        names = await self._tool.ask(scratch, "images", "--quiet", "--filter", label, *dangling)
        ids = sorted({line.strip() for line in names or () if line.strip()})
        if ids:
            await self._tool.ask(scratch, "rmi", "--force", *ids)
        return bool(ids)


def _is_readable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.R_OK | os.X_OK)


@dataclass(frozen=True)
class SavedImage(LayerSource):
    """An image that an engine saved as an archive: known layers are named, the others unpacked."""

    archive: Path
    trees: Trees
    packed: PackedLayers

    async def bring(self, layers: Layers, pins: set[str]) -> ImportedImage:
        ours = self.packed.layers()
        async with layers.scratch() as scratch:
            tree = scratch / "tree"
            tree.mkdir(mode=0o755)
            await self.trees.unpack(self.archive, tree)
            layout = await asyncio.to_thread(read_layout, tree)
            names = []
            for layer in layout.layers:
                name = layers.known(ours.get(layer.digest, layer.digest), pins)
                names.append(name or await layers.add_tar(layer.path, layer.digest, pins))
        return ImportedImage(tuple(reversed(names)), layout.config)


_LABEL = "benchyard.builder"


class BuildKitBuilder(EngineBuilder):
    """Builds in the engine's own storage and takes its layers from there; the cache remains the engine's."""

    def __init__(
        self,
        store: ImageStore,
        folder: Path,
        trees: Trees,
        aliases: Aliases,
        groups: BuildGroups | None,
        engine: DockerEngine,
        call: ApartCall,
    ) -> None:
        self._engine = engine
        self.about = f"BuildKit of Docker {engine.version}"
        self._tool = DockerTool(engine, folder)
        self._packed = PackedLayers(folder / "packed.json")
        self._label = (_LABEL, owner_of(folder))
        self._images = DockerImages(self._tool, trees, self._packed, self._label)
        self._used = folder / "used"
        super().__init__(store, folder, trees, aliases, groups, self._images, call)

    async def open(self) -> None:
        # The operator of the server may put the keys of registries here, as `config.json`.
        (self._folder / "settings").mkdir(mode=0o700, parents=True, exist_ok=True)
        await super().open()

    async def build(self, recipe: BuildRecipe, identity: ImageIdentity, log: Log) -> BuiltImage:
        self._used.touch(mode=0o600)
        return await super().build(recipe, identity, log)

    async def forget(self) -> bool:
        """Remove our images from the engine. All its users share its cache, so it is not cleared."""
        async with self._idle:
            if self._users:
                return False
            async with self._scratch() as scratch:
                return await self._images.remove(scratch, all_of_ours=True)

    def last_used(self) -> float:
        with contextlib.suppress(FileNotFoundError):
            return self._used.stat().st_mtime
        return 0.0

    def _new_files_name(self) -> str:
        return f"localhost/benchyard/heredocs-{owner_of(self._folder)}:{secrets.token_hex(8)}"

    async def _knows_heredocs(self) -> bool:
        return self._engine.knows_heredocs

    async def _source(self, image_id: str, scratch: Path) -> LayerSource:
        stored = await self._images.stored_image(image_id, scratch) if os.geteuid() == 0 else None
        if stored is not None:
            return StorageSource(stored, self._packed)
        archive = scratch / "made.tar"
        answer = await self._tool.ask(scratch, "save", "--output", str(archive), image_id)
        if answer is None:
            raise BuildFailed("the engine did not hand over what it built: build again")
        return SavedImage(archive, self._trees, self._packed)

    async def _run(self, attempt: BuildAttempt) -> None:
        laid = any(attempt.heredocs.iterdir())
        if laid and (
            problem := await self._images.load_folder(attempt.heredocs, attempt.files_name, attempt.scratch)
        ):
            raise BuildFailed(f"the here-documents could not be handed to the engine: {problem}")
        progress = BuildKitProgress(attempt.output, attempt.rewritten.dockerfile, attempt.rewritten.changes)
        try:
            status = await self._tool.run(self._call(attempt), progress.line)
        finally:
            if laid:
                await self._tool.ask(attempt.scratch, "rmi", "--force", attempt.files_name)
        if status != 0:
            text, instruction = progress.failure(status)
            raise build_error(text, instruction, attempt.context)

    def _call(self, attempt: BuildAttempt) -> BuildahCall:
        recipe, scratch = attempt.plan.recipe, attempt.scratch
        network = "none" if recipe.network is Network.NONE else "host"
        options = ["--progress", "plain", "--network", network, "--label", "=".join(self._label)]
        options += ["--file", str(scratch / "Dockerfile"), "--iidfile", str(scratch / "image-id")]
        for name in sorted(recipe.secrets):
            options += ["--secret", f"id={name},env={HIDDEN}{name}"]
        for name, value in sorted(recipe.args.items()):
            options += ["--build-arg", f"{name}={value}"]
        limits = recipe.limits
        return BuildahCall(
            ["build", *options, str(attempt.context)],
            scratch,
            {f"{HIDDEN}{name}": value for name, value in recipe.secrets.items()},
            seconds=limits.seconds,
            overfull=GrowthWatch(self._engine.storage, scratch, self._trees, limits.disk_bytes),
        )

    async def _clear(self) -> None:
        """Remove all built images: each is in the store already, or no longer wanted."""
        async with self._scratch() as scratch:
            await self._images.remove(scratch, all_of_ours=False)
