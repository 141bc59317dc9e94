"""Builds with BuildKit, by a Docker engine that this machine has already."""

import contextlib
import os
import secrets
from pathlib import Path

from benchyard.devboxes.base import Network
from benchyard.errors import BuildFailed
from benchyard.images.build import Built, Log, Recipe
from benchyard.images.builders.building import HIDDEN, Attempt, EngineBuilder, Parts
from benchyard.images.builders.buildkit_output import Progress
from benchyard.images.builders.disk import GrowthWatch
from benchyard.images.builders.docker_images import DockerImages, Saved
from benchyard.images.builders.docker_tool import DockerEngine, DockerTool
from benchyard.images.builders.failures import explained
from benchyard.images.builders.handover import Packed
from benchyard.images.builders.made import Made
from benchyard.images.builders.tool import Call
from benchyard.images.importing import Source
from benchyard.images.store import Label

_LABEL = "benchyard.builder"


class BuildKitBuilder(EngineBuilder):
    """Builds in the engine's own storage and takes its layers from there; the cache stays the engine's."""

    def __init__(self, parts: Parts, engine: DockerEngine) -> None:
        self._engine = engine
        self.about = f"BuildKit of Docker {engine.version}"
        self._tool = DockerTool(engine, parts.folder)
        self._packed = Packed(parts.folder / "packed.json")
        self._label = (_LABEL, parts.owner)
        self._images = DockerImages(self._tool, parts.trees, self._packed, self._label)
        self._used = parts.folder / "used"
        super().__init__(parts, self._images)

    async def open(self) -> None:
        # Whoever runs the server may put the keys of registries here, as `config.json`.
        (self._parts.folder / "settings").mkdir(mode=0o700, parents=True, exist_ok=True)
        await super().open()

    async def build(self, recipe: Recipe, label: Label, log: Log) -> Built:
        self._used.touch(mode=0o600)
        return await super().build(recipe, label, log)

    async def forget(self) -> bool:
        """Remove our images from the engine. Its cache is everybody's who uses it: not ours to clear."""
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
        return f"localhost/benchyard/heredocs-{self._parts.owner}:{secrets.token_hex(8)}"

    async def _knows_heredocs(self) -> bool:
        return self._engine.knows_heredocs

    async def _source(self, image_id: str, scratch: Path) -> Source:
        stored = await self._images.stored(image_id, scratch) if os.geteuid() == 0 else None
        if stored is not None:
            return Made(stored, self._packed)
        archive = scratch / "made.tar"
        told = await self._tool.ask(scratch, "save", "--output", str(archive), image_id)
        if told is None:
            raise BuildFailed("the engine did not hand over what it built: build again")
        return Saved(archive, self._parts.trees, self._packed)

    async def _run(self, attempt: Attempt) -> None:
        plan = attempt.plan
        laid = any(attempt.heredocs.iterdir())
        if laid and (
            problem := await self._images.load_folder(attempt.heredocs, attempt.files_name, attempt.scratch)
        ):
            raise BuildFailed(f"the here-documents could not be handed to the engine: {problem}")
        progress = Progress(attempt.output, plan.dockerfile, attempt.changes)
        try:
            status = await self._tool.run(self._call(attempt), progress.line)
        finally:
            if laid:
                await self._tool.ask(attempt.scratch, "rmi", "--force", attempt.files_name)
        if status != 0:
            told, instruction = progress.told(status)
            raise explained(told, instruction, attempt.context)

    def _call(self, attempt: Attempt) -> Call:
        recipe, scratch = attempt.plan.recipe, attempt.scratch
        network = "none" if recipe.network is Network.NONE else "host"
        options = ["--progress", "plain", "--network", network, "--label", "=".join(self._label)]
        options += ["--file", str(scratch / "Dockerfile"), "--iidfile", str(scratch / "image-id")]
        for name in sorted(recipe.secrets):
            options += ["--secret", f"id={name},env={HIDDEN}{name}"]
        for name, value in sorted(recipe.args.items()):
            options += ["--build-arg", f"{name}={value}"]
        limits = recipe.limits
        return Call(
            ["build", *options, str(attempt.context)],
            scratch,
            {f"{HIDDEN}{name}": value for name, value in recipe.secrets.items()},
            seconds=limits.seconds,
            overfull=GrowthWatch(self._engine.storage, scratch, self._parts.trees, limits.disk_bytes),
        )

    async def _clear(self) -> None:
        """Remove what was built: it is in our store, or was never asked for again."""
        async with self._scratch() as scratch:
            await self._images.remove(scratch, all_of_ours=False)
