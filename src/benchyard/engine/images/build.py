"""Build of a blueprint: its Dockerfile, then files and setup commands in a build devbox."""

import asyncio
import json
import logging
import os
import re
import shlex
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchyard.devboxes.base import DevboxLimits, Network, Stdin
from benchyard.engine.background import retry_store
from benchyard.engine.clock import now_ms
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.commands import wait_for_completion
from benchyard.engine.devboxes.descriptors import write_all
from benchyard.engine.devboxes.mounts import code_requests, put_mount
from benchyard.engine.devboxes.request_checks import host_architecture
from benchyard.engine.devboxes.start_image import DEFAULT_IMAGE
from benchyard.engine.images.build_log import MAX_BYTES, BuildLog, OutputLines
from benchyard.engine.network.egress import close_door, require_egress, serve_door
from benchyard.engine.network.policies import PROXY_PORT, NetworkPlan, plan_of
from benchyard.errors import BenchyardError, BuildFailed, NotFound
from benchyard.hosts import executions
from benchyard.hosts.cancellation import run_to_end
from benchyard.hosts.host import ExecRequest, ExecutionState, StartRequest
from benchyard.images.aliases import Aliases
from benchyard.images.builders.base import BuildDoor, BuildLimits, BuildRecipe
from benchyard.images.store import Image, ImageIdentity
from benchyard.models.blueprints import Blueprint, BlueprintRequest, BuildFailure
from benchyard.models.devboxes import Devbox
from benchyard.models.launch import FileMount, LaunchParameters

_FROM = re.compile(r"^[^\S\n]*FROM\s", re.IGNORECASE | re.MULTILINE)
_COMMENTS = re.compile(r"(?:[^\S\n]*+#[^\n]*+(?:\n|\Z))*+")
_STARTER = "runloop:runloop/starter-{}"
_SHOWN_FILE_CHARACTERS = 120


def dockerfile_with_base(dockerfile: str, base: Blueprint | None) -> str:
    """Return the Dockerfile; one without FROM continues its base blueprint."""
    if base is None or _FROM.search(dockerfile):
        return dockerfile
    # Parser directives and comments stay first. The pattern always fits, if only nothing.
    end = _COMMENTS.match(dockerfile).end()  # type: ignore[union-attr]
    comments = dockerfile[:end]
    gap = "\n" if comments and not comments.endswith("\n") else ""
    return f"{comments}{gap}FROM {base.id}\n{dockerfile[end:]}"


def dockerfile_preview(request: BlueprintRequest, base: Blueprint | None) -> str:
    """Return a Dockerfile for the whole build: the engine's own steps are written as RUN and COPY."""
    lines = [_beginning(request, base).rstrip("\n")]
    if request.secrets:
        lines.append(f"# In the environment of the commands below, in no layer: {', '.join(request.secrets)}")
    for path, text in (request.file_mounts or {}).items():
        shown = text[:_SHOWN_FILE_CHARACTERS]
        cut = "..." if len(text) > len(shown) else ""
        lines.append(f"# {path!r}: {len(text.encode(errors='surrogatepass'))} bytes: {shown!r}{cut}")
        lines.append(f"COPY {shlex.quote(path)} {shlex.quote(path)}".replace("\n", " "))
    commands = request.system_setup_commands or []
    if commands or request.code_mounts:
        lines.append(f"USER {(request.launch_parameters or LaunchParameters()).username}")
    for mount in request.code_mounts or []:
        reference = (
            f" && git -C {mount.repo_name} checkout {shlex.quote(mount.git_ref)}" if mount.git_ref else ""
        )
        lines.append(f"RUN git clone {mount.repo_owner}/{mount.repo_name} {mount.repo_name}{reference}")
        if mount.install_command:
            lines.append(_run(f"cd {mount.repo_name} && {mount.install_command}"))
    lines += [_run(command) for command in commands]
    return "\n".join(lines) + "\n"


def _beginning(request: BlueprintRequest, base: Blueprint | None) -> str:
    if request.dockerfile:
        return dockerfile_with_base(request.dockerfile, base)
    if request.build_context:
        return f"# The Dockerfile at the top of object {request.build_context.object_id}"
    return f"FROM {base.id}" if base else f"FROM {_STARTER.format(host_architecture())}"


def _run(command: str) -> str:
    if "\n" not in command.strip():
        return f"RUN {command.strip()}"
    mark = "BENCHYARD_END"
    while mark in command:
        mark += "_"
    return f"RUN <<'{mark}'\n{command.rstrip()}\n{mark}"


MAX_DOCKERFILE_BYTES = 1024**2
FOUNDATION = "-foundation"
_DOCKERFILE_DOOR = "-dockerfile"
_DOCKERFILE = "Dockerfile"
_STDERR_CHARACTERS = 8 * 1024


@dataclass(frozen=True)
class Build:
    """Attempt to build a blueprint, with all its inputs."""

    tools: EngineContext
    blueprint: Blueprint
    base: Blueprint | None
    log: BuildLog
    begin: Callable[[], Awaitable[None]]
    """Called when all inputs are ready and the build itself begins."""
    substitute: Callable[[Mapping[str, str]], Awaitable[None]]
    """Called with the images that replace those named in the Dockerfile."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variable -> value."""

    @property
    def devbox_id(self) -> str:
        """Return the id of this attempt's devbox: that of an earlier attempt may still be ending."""
        return build_devbox_id(self.blueprint)

    @property
    def limits(self) -> BuildLimits:
        """Return the limits of the build's time, disk and memory."""
        settings = self.tools.settings
        return BuildLimits(settings.build_seconds, settings.build_disk_bytes, settings.build_memory_bytes)

    @property
    def network(self) -> NetworkPlan:
        """Return the network of the build's commands: by its policy, else by the server's default."""
        if self.blueprint.build_egress is None:
            return NetworkPlan(Network(self.tools.settings.build_network))
        return plan_of(self.blueprint.build_egress)


def build_devbox_id(blueprint: Blueprint) -> str:
    """Return the id of the devbox of a blueprint's present attempt."""
    return f"{blueprint.id}-{blueprint.attempts}"


def foundation_id(blueprint: Blueprint) -> str:
    """Return the id of the image that a Dockerfile made; it exists only during the build."""
    return blueprint.id + FOUNDATION


async def make_foundation(build: Build) -> Image:
    """Return the image that the build's steps start from; made from a Dockerfile if there is one."""
    parameters = build.blueprint.parameters
    if parameters.prebuilt_image and (found := await _prebuilt_image(build, parameters.prebuilt_image)):
        return found
    if not parameters.dockerfile and parameters.build_context is None:
        await build.begin()
        return await build.tools.host.image(build.base.id if build.base else DEFAULT_IMAGE)
    async with build.tools.images.scratch() as scratch:
        context = await _context(build, scratch)
        recipe = BuildRecipe(
            dockerfile=dockerfile_with_base(
                parameters.dockerfile or await _read_dockerfile(context), build.base
            ),
            context=context,
            args=parameters.build_args or {},
            secrets=build.secrets,
            bases=dict.fromkeys((build.base.id, build.base.name), build.base.id) if build.base else {},
            network=build.network.network,
            door=_door(build),
            limits=build.limits,
        )
        await build.begin()
        identity = ImageIdentity(foundation_id(build.blueprint), foundation_id(build.blueprint))
        built = await build.tools.builder.build(recipe, identity, build.log.line)
    for reference, name in built.substituted.items():
        build.log.note(f"substituted base: image {name} stands in for {reference}", "warning")
    await build.substitute(built.substituted)
    return built.image


def door_ids(devbox_id: str) -> tuple[str, str]:
    """Return the ids under which the gateway serves a build: its devbox, and its Dockerfile."""
    return devbox_id, devbox_id + _DOCKERFILE_DOOR


def _door(build: Build) -> BuildDoor | None:
    rules = build.network.egress
    if rules is None:
        return None

    @asynccontextmanager
    async def serve(descriptor: int) -> AsyncIterator[None]:
        service = require_egress(build.tools)
        _, door_id = door_ids(build.devbox_id)
        await service.open_egress(door_id, descriptor, rules)
        try:
            yield
        finally:
            await run_to_end(service.close_egress(door_id))

    variables = build.network.variables()
    return BuildDoor(PROXY_PORT, variables, json.dumps(rules.to_json()), serve)


async def _prebuilt_image(build: Build, reference: str) -> Image | None:
    """Return the prebuilt image; None if it is not available and there is a Dockerfile instead."""
    made = foundation_id(build.blueprint)
    await build.begin()
    if stand_in := await _stand_in(build, reference):
        return stand_in
    try:
        return await build.tools.builder.pull(reference, ImageIdentity(made, made), build.log.line)
    except BuildFailed as error:
        if not build.blueprint.parameters.dockerfile:
            raise
        build.log.note(f"{error.message}; it is built from its Dockerfile", "warning")
        await build.substitute({reference: "built from its Dockerfile"})
        return None


async def _stand_in(build: Build, reference: str) -> Image | None:
    """Return the image that an alias names for a reference; None if there is no alias, or no such image."""
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
    record, content = await retry_store(build.tools.objects.content, given.object_id)
    build.log.note(f"context: object {record.id}, {record.size_bytes} bytes")
    archive, folder = scratch / "archive", scratch / "context"
    with archive.open("xb") as file:
        async for piece in content:
            await asyncio.to_thread(write_all, file.fileno(), piece)
    folder.mkdir(mode=0o755)
    await build.tools.images.trees.unpack(archive, folder)
    archive.unlink()
    return folder


async def _read_dockerfile(context: Path | None) -> str:
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
    # The context is untrusted: do not follow links, and do not wait for pipes.
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


BUILD_KIND = "blueprint"
MAX_OUTPUT_BYTES = 2 * MAX_BYTES
"""Most bytes of one command's output: the log keeps no more."""
_ATTEMPTS = 5
_PAUSE_SECONDS = 1.0
_STDERR_LINES = 100
_TOKEN = "BY_TOKEN"  # noqa: S105  (a variable's name)

_log = logging.getLogger(__name__)


def has_steps(parameters: BlueprintRequest) -> bool:
    """Tell whether the blueprint has steps that run in a devbox."""
    return bool(parameters.file_mounts or parameters.code_mounts or parameters.system_setup_commands)


async def run_steps(build: Build, image: Image) -> None:
    """Run all steps in a devbox of that image and keep its changes; the devbox ends in any case."""
    host = build.tools.host
    try:
        await host.start(_start_request(build, image))
        if build.network.egress is not None:
            await serve_door(build.tools, build.devbox_id, build.network.egress)
        await _Steps(build).apply()
        await host.stop(build.devbox_id, keep_disk=True)
        await host.snapshot(build.devbox_id, build.blueprint.id, BUILD_KIND, move=True)
    finally:
        await run_to_end(erase_devbox(build.tools, build.devbox_id))


async def keep_unchanged(build: Build, image: Image) -> None:
    """Make the blueprint's image from this one, with an empty layer."""
    async with build.tools.images.scratch() as scratch:
        nothing = scratch / "nothing"
        nothing.mkdir()
        nothing.chmod(0o755)
        await build.tools.images.add_layer(image, nothing, build.blueprint.id, move=True, kind=BUILD_KIND)


async def erase_devbox(tools: EngineContext, devbox_id: str) -> None:
    """End a build devbox and remove all its remains; failures are left to the next start."""
    for _ in range(_ATTEMPTS):
        try:
            for door_id in door_ids(devbox_id):
                await close_door(tools, door_id)
            await tools.host.stop(devbox_id, keep_disk=False)
            await tools.host.forget(devbox_id)
            tools.journal.forget(devbox_id)
        except (BenchyardError, OSError) as error:
            _log.warning("build devbox %s could not be cleared away: %s", devbox_id, error)
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            return


def _start_request(build: Build, image: Image) -> StartRequest:
    launch = build.blueprint.parameters.launch_parameters or LaunchParameters()
    limits = DevboxLimits(
        cpus=float(os.cpu_count() or 1),
        memory_bytes=build.limits.memory_bytes,
        disk_bytes=build.limits.disk_bytes,
        output_bytes=MAX_OUTPUT_BYTES,
    )
    return StartRequest(
        id=build.devbox_id,
        image=image.id,
        network=build.network.network,
        env=build.network.variables(),
        limits=limits,
        user=launch.username,
        uid=launch.user_parameters.uid if launch.user_parameters else None,
    )


class _Steps:
    """Steps in one build devbox, in order."""

    def __init__(self, build: Build) -> None:
        self._build = build
        self._tools = build.tools
        self._log = build.log
        self._ends = asyncio.get_running_loop().time() + build.limits.seconds

    async def apply(self) -> None:
        """Put files and repositories in place, then run the commands; raises BuildFailed if one fails."""
        parameters = self._build.blueprint.parameters
        image = self._build.blueprint.id
        devbox = Devbox(id=self._build.devbox_id, create_time_ms=now_ms(), image=image)
        for path, text in (parameters.file_mounts or {}).items():
            await put_mount(self._tools, devbox, 0, FileMount(target=path, content=text))
            self._log.note(f"file {path}: {len(text.encode())} bytes")
        for index, mount in enumerate(parameters.code_mounts or []):
            for request in code_requests(self._tools, mount, f"code-{index}"):
                await self._run(f"code {mount.repo_owner}/{mount.repo_name}", request)
        for index, command in enumerate(parameters.system_setup_commands or []):
            await self._run(f"$ {command}", ExecRequest(id=f"setup-{index}", command=command))

    async def _run(self, title: str, request: ExecRequest) -> None:
        self._log.note(title)
        self._log.last.clear()
        secrets = dict(self._build.secrets)
        if token := request.env.get(_TOKEN):
            secrets[_TOKEN] = token
        state = await self._start_command(request, secrets)
        lines = OutputLines(self._log)
        async for piece in self._tools.host.output(self._build.devbox_id, request.id, "stdout"):
            lines.feed(piece)
            # Let other tasks run: there may be much output at once.
            await asyncio.sleep(0)
        lines.finish()
        state = await wait_for_completion(self._tools, state)
        # Only output of the shell itself before it runs the command.
        early, _ = await self._tools.host.tail(state.devbox_id, state.id, "stderr", _STDERR_LINES)
        for line in early[-_STDERR_CHARACTERS:].splitlines():
            self._log.line(line)
        if state.exit_status != 0:
            raise self._failure(title, state)

    async def _start_command(self, request: ExecRequest, secrets: Mapping[str, str]) -> ExecutionState:
        """Start a command. Secrets come by standard input: files of the host would keep them."""
        env = {name: value for name, value in request.env.items() if name not in secrets}
        prelude = "exec 2>&1\n" + ('eval "$(cat)"\n' if secrets else "")
        changed = replace(
            request,
            command=prelude + request.command,
            env=env,
            attach_stdin=bool(secrets),
            timeout_seconds=max(1.0, self._ends - asyncio.get_running_loop().time()),
        )
        state = await self._tools.host.exec(self._build.devbox_id, changed)
        if secrets:
            script = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in secrets.items())
            await self._tools.host.control(
                state.devbox_id, state.id, Stdin(script.encode(errors="surrogateescape"), close=True)
            )
        return state

    def _failure(self, title: str, state: ExecutionState) -> BuildFailed:
        reason, why = _reason(state, has_policy=self._build.blueprint.build_egress is not None)
        said = "\n".join(self._log.last).strip()
        message = f"{title[:200]!r} ended with {state.exit_status}{why}"
        return BuildFailed(self._log.mask.hide(f"{message}: {said[-1000:]}" if said else message), reason)


def _reason(state: ExecutionState, *, has_policy: bool) -> tuple[BuildFailure, str]:
    hint = state.hint or ""
    if hint == executions.OUT_OF_MEMORY or "more memory than it has" in hint:
        return "out_of_memory", ": the build ran out of memory"
    if hint == executions.OUT_OF_DISK or "the disk holds" in hint:
        return "out_of_disk", ": the build ran out of disk"
    if hint == executions.NO_NETWORK:
        hint = "builds have no network here: start the server with --build-network host"
        if has_policy:
            hint = "the network policy of this build does not let it out: allow more, or take another"
    return "build_failed", f" ({hint})" if hint else ""
