"""One build of a blueprint: what it needs, and the image it starts its steps from."""

import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchyard.devboxes.base import Network
from benchyard.engine.build_log import BuildLog
from benchyard.engine.descriptors import write_all
from benchyard.engine.dockerfiles import continued
from benchyard.engine.egress import required_gate
from benchyard.engine.network_plans import PROXY_PORT, NetworkPlan, plan_of
from benchyard.engine.origins import DEFAULT_IMAGE
from benchyard.engine.tools import Tools
from benchyard.engine.work import until_kept
from benchyard.errors import BuildFailed, NotFound
from benchyard.hosts.uninterrupted import uninterrupted
from benchyard.images.aliases import Aliases
from benchyard.images.build import BuildDoor, BuildLimits, Recipe
from benchyard.images.store import Image, Label
from benchyard.models.blueprints import Blueprint

MAX_DOCKERFILE_BYTES = 1024**2
FOUNDATION = "-foundation"
_DOCKERFILE_DOOR = "-dockerfile"
_DOCKERFILE = "Dockerfile"


@dataclass(frozen=True)
class Build:
    """One attempt at a blueprint and all it works with."""

    tools: Tools
    blueprint: Blueprint
    base: Blueprint | None
    log: BuildLog
    begin: Callable[[], Awaitable[None]]
    """Told when everything is at hand and the build itself begins."""
    substitute: Callable[[Mapping[str, str]], Awaitable[None]]
    """Told which images stand in for what the Dockerfile names."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variable -> value."""

    @property
    def devbox_id(self) -> str:
        """The devbox of this attempt: no other attempt's, whose end may still be under way."""
        return build_devbox_id(self.blueprint)

    @property
    def limits(self) -> BuildLimits:
        """What it may use."""
        settings = self.tools.settings
        return BuildLimits(settings.build_seconds, settings.build_disk_bytes, settings.build_memory_bytes)

    @property
    def network(self) -> NetworkPlan:
        """What its commands can reach: as its policy says, else as is usual on this server."""
        if self.blueprint.build_egress is None:
            return NetworkPlan(Network(self.tools.settings.build_network))
        return plan_of(self.blueprint.build_egress)


def build_devbox_id(blueprint: Blueprint) -> str:
    """The id of the devbox of a blueprint's present attempt."""
    return f"{blueprint.id}-{blueprint.attempts}"


def foundation_id(blueprint: Blueprint) -> str:
    """The id of what a Dockerfile made, as long as the build takes."""
    return blueprint.id + FOUNDATION


async def foundation(build: Build) -> Image:
    """The image that the steps of a build start from; made from a Dockerfile if there is one."""
    parameters = build.blueprint.parameters
    if parameters.prebuilt_image and (found := await _prebuilt(build, parameters.prebuilt_image)):
        return found
    if not parameters.dockerfile and parameters.build_context is None:
        await build.begin()
        return await build.tools.host.image(build.base.id if build.base else DEFAULT_IMAGE)
    async with build.tools.images.scratch() as scratch:
        context = await _context(build, scratch)
        recipe = Recipe(
            dockerfile=continued(parameters.dockerfile or await _found_in(context), build.base),
            context=context,
            args=parameters.build_args or {},
            secrets=build.secrets,
            bases=dict.fromkeys((build.base.id, build.base.name), build.base.id) if build.base else {},
            network=build.network.network,
            door=_door(build),
            limits=build.limits,
        )
        await build.begin()
        label = Label(foundation_id(build.blueprint), foundation_id(build.blueprint))
        built = await build.tools.builder.build(recipe, label, build.log.line)
    for reference, name in built.substituted.items():
        build.log.note(f"substituted base: image {name} stands in for {reference}", "warning")
    await build.substitute(built.substituted)
    return built.image


def door_ids(devbox_id: str) -> tuple[str, str]:
    """Under which ids the gateway serves a build: its devbox, and its Dockerfile before that."""
    return devbox_id, devbox_id + _DOCKERFILE_DOOR


def _door(build: Build) -> BuildDoor | None:
    rules = build.network.egress
    if rules is None:
        return None

    @asynccontextmanager
    async def serve(descriptor: int) -> AsyncIterator[None]:
        gate = required_gate(build.tools)
        _, door_id = door_ids(build.devbox_id)
        await gate.open_egress(door_id, descriptor, rules)
        try:
            yield
        finally:
            await uninterrupted(gate.close_egress(door_id))

    variables = build.network.variables()
    return BuildDoor(PROXY_PORT, variables, json.dumps(rules.to_json()), serve)


async def _prebuilt(build: Build, reference: str) -> Image | None:
    """The image that was built elsewhere; None where it cannot be had and there is a Dockerfile instead."""
    made = foundation_id(build.blueprint)
    await build.begin()
    if stand_in := await _stand_in(build, reference):
        return stand_in
    try:
        return await build.tools.builder.pull(reference, Label(made, made), build.log.line)
    except BuildFailed as error:
        if not build.blueprint.parameters.dockerfile:
            raise
        build.log.note(f"{error.message}; it is built from its Dockerfile", "warning")
        await build.substitute({reference: "built from its Dockerfile"})
        return None


async def _stand_in(build: Build, reference: str) -> Image | None:
    """The image that an alias puts in the place of a reference; None where there is none, or no more."""
    alias = Aliases(build.tools.settings.data / "images").find(reference)
    if alias is None:
        return None
    try:
        image = await build.tools.images.get(alias)
    except NotFound:
        build.log.note(
            f"the alias of {reference} names {alias!r}, which is not there any more; name another image with "
            "`benchyard image alias`, or forget it with `benchyard image unalias`",
            "warning",
        )
        return None
    build.log.note(f"substituted base: image {alias} stands in for {reference}", "warning")
    await build.substitute({reference: alias})
    return image


async def _context(build: Build, scratch: Path) -> Path | None:
    given = build.blueprint.parameters.build_context
    if given is None:
        return None
    record, content = await until_kept(partial(build.tools.objects.content, given.object_id))
    build.log.note(f"context: object {record.id}, {record.size_bytes} bytes")
    archive, folder = scratch / "archive", scratch / "context"
    with archive.open("xb") as file:
        async for piece in content:
            await asyncio.to_thread(write_all, file.fileno(), piece)
    folder.mkdir(mode=0o755)
    await build.tools.images.trees.unpack(archive, folder)
    archive.unlink()
    return folder


async def _found_in(context: Path | None) -> str:
    remedy = "give `dockerfile`, or put a file called Dockerfile at the top of the context"
    if context is None:
        raise BuildFailed(f"there is no Dockerfile; {remedy}")
    try:
        return (await asyncio.to_thread(_read, context / _DOCKERFILE)).decode()
    except OSError as error:
        raise BuildFailed(f"no Dockerfile in the context: {error.strerror}; {remedy}") from error
    except UnicodeDecodeError as error:
        raise BuildFailed("the context's Dockerfile is not UTF-8 text") from error


def _read(path: Path) -> bytes:
    # The context is anybody's: no link is followed, and a pipe is not waited for.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BuildFailed("the context's Dockerfile is not a file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_DOCKERFILE_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > MAX_DOCKERFILE_BYTES:
        raise BuildFailed(f"the context's Dockerfile is over {MAX_DOCKERFILE_BYTES} bytes")
    return data
