"""The choice of a builder among the engines of this machine."""

import asyncio
import importlib
import io
from dataclasses import dataclass
from pathlib import Path

from benchyard.devboxes.base import Trees
from benchyard.errors import BuildFailed, UsageError
from benchyard.images.aliases import Aliases
from benchyard.images.builders.base import Builder, BuildRecipe, BuiltImage, Log
from benchyard.images.builders.buildah import BuildahBuilder
from benchyard.images.builders.buildah_tool import find_buildah
from benchyard.images.builders.buildkit import BuildKitBuilder
from benchyard.images.builders.docker_tool import DockerEngine, find_engine
from benchyard.images.builders.engine_builder import EngineBuilder
from benchyard.images.builders.processes import BuildGroups
from benchyard.images.dockerfile.readings import ApartCall
from benchyard.images.store import Image, ImageIdentity, ImageStore

KINDS = ("auto", "buildah", "docker")
_BUILDAH = (
    "install buildah with `apt-get install buildah runc` (as an ordinary user also `uidmap`) "
    "and start the server again"
)
_NOT_IN_PATHS = frozenset(",:\"'\\\n")


@dataclass(frozen=True)
class BuilderChoice:
    """The requested builder."""

    kind: str = "auto"
    """`buildah`, `docker`, or `auto` for the first of them that is there."""
    docker_host: str | None = None
    """URL of the Docker engine; None is the default of `docker`."""


async def in_thread(function: str, content: bytes) -> bytes:
    """Run a function in a thread of this process, for builds of one's own Dockerfiles."""
    module, _, name = function.partition(":")
    made: bytes = await asyncio.to_thread(getattr(importlib.import_module(module), name), io.BytesIO(content))
    return made


async def open_builder(
    store: ImageStore,
    folder: Path,
    trees: Trees,
    groups: BuildGroups | None = None,
    wanted: BuilderChoice | None = None,
    call: ApartCall = in_thread,
) -> Builder:
    """Return a builder with its files in `builder` below the images' folder, cleared of a crash's remains.

    If there is no engine, the builder says how to install one when it is asked to build. A server that
    builds for others gives a `call` that has Dockerfiles read by workers.
    """
    parts = _Parts(store, folder, trees, groups, call)
    builder = await asyncio.to_thread(_find, parts, wanted or BuilderChoice())
    if isinstance(builder, EngineBuilder):
        if set(str(folder)) & _NOT_IN_PATHS:
            return NoBuilder(
                f"images cannot be built below {folder}: the engine cannot use a path with , : or quotes"
            )
        await builder.open()
    return builder


@dataclass(frozen=True)
class _Parts:
    """The parts of a builder, whatever its engine is."""

    store: ImageStore
    folder: Path
    trees: Trees
    groups: BuildGroups | None
    call: ApartCall


def _find(parts: _Parts, wanted: BuilderChoice) -> Builder:
    if wanted.kind not in KINDS:
        raise UsageError(f"{wanted.kind!r} is not a builder: choose one of {', '.join(KINDS)}")
    own, aliases = parts.folder / "builder", Aliases(parts.folder)
    program = find_buildah() if wanted.kind != "docker" else None
    if program is not None:
        return BuildahBuilder(parts.store, own, parts.trees, aliases, parts.groups, program, parts.call)
    if wanted.kind == "buildah":
        return NoBuilder()
    found = find_engine(wanted.docker_host)
    if isinstance(found, DockerEngine):
        return BuildKitBuilder(parts.store, own, parts.trees, aliases, parts.groups, found, parts.call)
    if wanted.kind == "docker":
        return NoBuilder(f"images cannot be built by Docker: {found}; then start the server again")
    needed = "building and pulling images needs buildah or Docker"
    return NoBuilder(f"{needed}. Either {_BUILDAH}; or let Docker do it ({found})")


class NoBuilder(Builder):
    """Takes the place of a builder if no engine was found, or none works."""

    def __init__(self, remedy: str = f"building and pulling images needs buildah: {_BUILDAH}") -> None:
        self.remedy: str = remedy

    async def build(self, recipe: BuildRecipe, identity: ImageIdentity, log: Log) -> BuiltImage:
        raise BuildFailed(self.remedy)

    async def pull(self, reference: str, identity: ImageIdentity, log: Log) -> Image:
        raise BuildFailed(self.remedy)
