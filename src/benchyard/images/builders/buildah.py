"""Builds with buildah: the whole syntax by the engine itself, its layers shared with our store."""

import asyncio
import contextlib
import secrets
from pathlib import Path

from benchyard.devboxes.base import Network
from benchyard.errors import BuildFailed
from benchyard.images.build import Recipe
from benchyard.images.builders.buildah_images import BuildahImages
from benchyard.images.builders.building import HIDDEN, Attempt, EngineBuilder, Parts
from benchyard.images.builders.confine import Group, NoGroup
from benchyard.images.builders.disk import DiskWatch
from benchyard.images.builders.failures import Steps, explained, told_by_buildah
from benchyard.images.builders.handover import Packed
from benchyard.images.builders.isolation import isolation
from benchyard.images.builders.made import Made
from benchyard.images.builders.tool import Call, Tool
from benchyard.images.heredocs import FILES
from benchyard.images.importing import Source


class BuildahBuilder(EngineBuilder):
    """Builds in a storage of the engine's own, below our folder."""

    has_doors = True

    def __init__(self, parts: Parts, program: str) -> None:
        self._tool = Tool(parts.folder, program)
        self.about = self._tool.about
        self._packed = Packed(parts.folder / "packed.json")
        self._isolation: list[str] = []
        super().__init__(parts, BuildahImages(self._tool, parts.trees, self._packed))

    async def open(self) -> None:
        await asyncio.to_thread(self._tool.write_settings)
        await super().open()

    async def forget(self) -> bool:
        async with self._idle:
            if self._users:
                return False
            aside = self._work / secrets.token_hex(8)
            if not self._tool.storage.folder.exists():
                return False
            self._tool.storage.folder.rename(aside)
            await self._parts.trees.remove(aside)
        return True

    def last_used(self) -> float:
        with contextlib.suppress(FileNotFoundError):
            return (self._tool.storage.folder / "overlay-images").stat().st_mtime
        return 0.0

    def _new_files_name(self) -> str:
        return FILES

    async def _knows_heredocs(self) -> bool:
        return self._tool.knows_heredocs

    async def _source(self, image_id: str, scratch: Path) -> Source:
        return Made(await asyncio.to_thread(self._tool.storage.image, image_id), self._packed)

    async def _run(self, attempt: Attempt) -> None:
        recipe = attempt.plan.recipe
        with self._group(recipe) as group:
            status = await self._tool.run(await self._call(attempt, group), attempt.output.line)
            if status != 0 and group.ran_out_of_memory():
                raise _out_of_memory(recipe)
        if status != 0:
            step = Steps(attempt.plan.dockerfile, attempt.changes).find(attempt.output.step)
            raise explained(told_by_buildah(attempt.output, status), step, attempt.context)

    async def _call(self, attempt: Attempt, group: Group) -> Call:
        recipe, scratch = attempt.plan.recipe, attempt.scratch
        if not self._isolation:
            self._isolation = await isolation(scratch)
        options = ["--layers", "--force-rm", "--format", "docker", "--network", "host", "--pull=never"]
        options += [*self._isolation, "--build-context", f"{attempt.files_name}={attempt.heredocs}"]
        options += ["--file", str(scratch / "Dockerfile"), "--iidfile", str(scratch / "image-id")]
        for name in sorted(recipe.secrets):
            options += ["--secret", f"id={name},env={HIDDEN}{name}"]
        for name, value in sorted(recipe.args.items()):
            options += ["--build-arg", f"{name}={value}"]
        if group.parent:
            options += ["--cgroup-parent", group.parent]
        limits = recipe.limits
        return Call(
            ["build", *options, str(attempt.context)],
            scratch,
            {
                # The engine tells RUN of proxies, and keeps them out of images.
                **(recipe.door.variables if recipe.door else {}),
                **{f"{HIDDEN}{name}": value for name, value in recipe.secrets.items()},
            },
            network=recipe.network is not Network.NONE,
            seconds=limits.seconds,
            group=group,
            door=recipe.door,
            overfull=DiskWatch(self._tool.storage.folder, scratch, self._parts.trees, limits.disk_bytes),
        )

    def _group(self, recipe: Recipe) -> contextlib.AbstractContextManager[Group]:
        if self._parts.groups is None:
            return contextlib.nullcontext(NoGroup())
        return self._parts.groups.opened(f"build-{secrets.token_hex(6)}", recipe.limits.memory_bytes)

    async def _clear(self) -> None:
        """Remove the containers of builds that were cut short."""
        if self._tool.storage.has_containers():
            async with self._scratch() as scratch:
                await self._tool.run(Call(["rm", "--all"], scratch), lambda line: None)


def _out_of_memory(recipe: Recipe) -> BuildFailed:
    used_up = f"the build used up its memory of {recipe.limits.memory_bytes} bytes"
    return BuildFailed(f"{used_up}: allow it more, or let it do less at once", "out_of_memory")
