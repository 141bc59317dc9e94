"""Builds with buildah: the engine reads the whole syntax, and shares its layers with the store."""

import asyncio
import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchyard.devboxes.base import Network, Trees
from benchyard.errors import BuildFailed
from benchyard.images.aliases import Aliases
from benchyard.images.builders import processes
from benchyard.images.builders.base import BuildRecipe, Log
from benchyard.images.builders.buildah_tool import BuildahCall, BuildahTool
from benchyard.images.builders.disk_watch import DiskWatch
from benchyard.images.builders.engine_builder import HIDDEN, BuildAttempt, EngineBuilder
from benchyard.images.builders.engine_images import EngineImages
from benchyard.images.builders.engine_storage import ImageHandover, PackedLayers, StorageSource
from benchyard.images.builders.output import BuildSteps, build_error, failure_from_buildah
from benchyard.images.builders.processes import BuildGroup, BuildGroups, NoBuildGroup
from benchyard.images.dockerfile.heredocs import FILES
from benchyard.images.dockerfile.readings import ApartCall
from benchyard.images.image import Image
from benchyard.images.imports import LayerSource
from benchyard.images.layouts import image_config
from benchyard.images.references import is_loopback
from benchyard.images.store import ImageStore


class BuildahImages(EngineImages):
    """Images in the storage's own files; a layer that is already there is not packed again."""

    def __init__(self, tool: BuildahTool, trees: Trees, packed: PackedLayers) -> None:
        self._tool = tool
        self._trees = trees
        self._packed = packed

    async def find(self, name: str, scratch: Path) -> str | None:
        return self._tool.storage.find(name)

    async def env(self, image_id: str, scratch: Path) -> Mapping[str, str]:
        image = await asyncio.to_thread(self._tool.storage.image, image_id)
        return image_config(image.config.get("config") or {}).env

    async def fetch(self, full: str, scratch: Path, log: Log) -> str | None:
        lines: list[str] = []

        def note(line: str) -> None:
            lines.append(line)
            log(line)

        plain = ["--tls-verify=false"] if is_loopback(full) else []
        call = BuildahCall(["pull", "--retry", "1", *plain, f"docker://{full}"], scratch)
        status = await self._tool.run(call, note)
        if status == 0 and self._tool.storage.find(full):
            return None
        reason = next((line for line in reversed(lines) if line.startswith("Error: ")), f"status {status}")
        return reason.removeprefix("Error: ")

    async def load(self, image: Image, layers: Sequence[Path], name: str, scratch: Path) -> str | None:
        said: list[str] = []
        # The engine may be unable to use a layer that it lists: the second try hands over all layers.
        for present in (self._tool.storage.digests(), set[str]()):
            folder = scratch / f"base-{len(present)}"
            folder.mkdir()
            await ImageHandover(self._trees, self._packed, folder).write_layout(image, layers, present)
            said.clear()
            # The engine derives a name from the path, and not every path of a data folder is valid as one.
            pull = BuildahCall(["pull", "--quiet", f"oci:{folder.name}"], scratch)
            status = await self._tool.run(pull, said.append)
            if status == 0:
                status = await self._tool.run(
                    BuildahCall(["tag", said[-1].strip(), name], scratch), said.append
                )
            await self._trees.remove(folder)
            if status == 0 and self._tool.storage.find(name):
                return None
        return " / ".join(said[-5:])


_CHROOT = ["--isolation", "chroot"]
_SECONDS = 30.0
_MOUNT = 'mount --bind / "$0" && exec "$@"'


async def find_isolation(scratch: Path) -> list[str]:
    """Return the engine's options, found by trying: a container runs `true` on this machine's own files."""
    runc = shutil.which("runc", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if os.geteuid() != 0 or runc is None:
        return _CHROOT
    bundle = scratch / "probe"
    (bundle / "rootfs").mkdir(parents=True)
    (bundle / "config.json").write_text(json.dumps(_PROBE))
    name = f"benchyard-probe-{os.getpid()}"
    command = ["/bin/sh", "-c", _MOUNT, str(bundle / "rootfs")]
    command += [runc, "--root", str(scratch / "runc"), "run", "--bundle", str(bundle), name]
    work = processes.BuildProcess(command, {"PATH": os.environ.get("PATH", "")}, scratch, seconds=_SECONDS)
    status = await processes.run_process(work, lambda line: None)
    return ["--isolation", "oci", "--runtime", runc] if status == 0 else _CHROOT


_PROBE = {
    "ociVersion": "1.0.2",
    "process": {"args": ["true"], "cwd": "/", "env": ["PATH=/usr/bin:/bin"], "user": {"uid": 0, "gid": 0}},
    "root": {"path": "rootfs", "readonly": True},
    "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
    "linux": {"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts", "network")]},
}


class BuildahBuilder(EngineBuilder):
    """Builds in a separate storage of the engine, below the builder's folder."""

    has_doors = True

    def __init__(
        self,
        store: ImageStore,
        folder: Path,
        trees: Trees,
        aliases: Aliases,
        groups: BuildGroups | None,
        program: str,
        call: ApartCall,
    ) -> None:
        self._tool = BuildahTool(folder, program)
        self.about = self._tool.about
        self._packed = PackedLayers(folder / "packed.json")
        self._isolation: list[str] = []
        images = BuildahImages(self._tool, trees, self._packed)
        super().__init__(store, folder, trees, aliases, groups, images, call)

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
            await self._trees.remove(aside)
        return True

    def last_used(self) -> float:
        with contextlib.suppress(FileNotFoundError):
            return (self._tool.storage.folder / "overlay-images").stat().st_mtime
        return 0.0

    def _new_files_name(self) -> str:
        return FILES

    async def _knows_heredocs(self) -> bool:
        return self._tool.knows_heredocs

    async def _source(self, image_id: str, scratch: Path) -> LayerSource:
        return StorageSource(await asyncio.to_thread(self._tool.storage.image, image_id), self._packed)

    async def _run(self, attempt: BuildAttempt) -> None:
        recipe = attempt.plan.recipe
        with self._group(recipe) as group:
            status = await self._tool.run(await self._call(attempt, group), attempt.output.line)
            if status != 0 and group.ran_out_of_memory():
                raise BuildFailed(
                    f"the build used up its memory of {recipe.limits.memory_bytes} bytes: allow it more, or "
                    "let it do less at once",
                    "out_of_memory",
                )
        if status != 0:
            step = BuildSteps(attempt.rewritten.dockerfile, attempt.rewritten.changes).find(
                attempt.output.step
            )
            raise build_error(failure_from_buildah(attempt.output, status), step, attempt.context)

    async def _call(self, attempt: BuildAttempt, group: BuildGroup) -> BuildahCall:
        recipe, scratch = attempt.plan.recipe, attempt.scratch
        if not self._isolation:
            self._isolation = await find_isolation(scratch)
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
        return BuildahCall(
            ["build", *options, str(attempt.context)],
            scratch,
            {
                # The engine passes proxy variables to RUN and keeps them out of images.
                **(recipe.door.variables if recipe.door else {}),
                **{f"{HIDDEN}{name}": value for name, value in recipe.secrets.items()},
            },
            network=recipe.network is not Network.NONE,
            seconds=limits.seconds,
            group=group,
            door=recipe.door,
            overfull=DiskWatch(self._tool.storage.folder, scratch, self._trees, limits.disk_bytes),
        )

    def _group(self, recipe: BuildRecipe) -> contextlib.AbstractContextManager[BuildGroup]:
        if self._groups is None:
            return contextlib.nullcontext(NoBuildGroup())
        return self._groups.opened(f"build-{secrets.token_hex(6)}", recipe.limits.memory_bytes)

    async def _clear(self) -> None:
        """Remove the containers of interrupted builds."""
        if self._tool.storage.has_containers():
            async with self._scratch() as scratch:
                await self._tool.run(BuildahCall(["rm", "--all"], scratch), lambda line: None)
