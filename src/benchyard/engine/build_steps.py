"""The build devbox: files, repositories and setup commands, whose changes become a blueprint's layer."""

import asyncio
import logging
import os
import shlex
from collections.abc import Mapping
from dataclasses import replace

from benchyard.devboxes.base import Limits, Stdin
from benchyard.engine.boot import DEFAULT_USER
from benchyard.engine.build import Build, door_ids
from benchyard.engine.build_log import MAX_BYTES, OutputLines
from benchyard.engine.egress import close_door, serve_door
from benchyard.engine.journal import now_ms
from benchyard.engine.mounts import code_requests, put
from benchyard.engine.setup import completed
from benchyard.engine.tools import Tools
from benchyard.errors import BenchyardError, BuildFailed
from benchyard.hosts import hints
from benchyard.hosts.host import ExecRequest, ExecutionState, StartRequest
from benchyard.hosts.uninterrupted import uninterrupted
from benchyard.images.store import Image
from benchyard.models.blueprints import BlueprintRequest, BuildFailure
from benchyard.models.devboxes import Devbox
from benchyard.models.mounts import FileMount

KIND = "blueprint"
MAX_OUTPUT_BYTES = 2 * MAX_BYTES
"""Of one command: the log keeps no more."""
_ATTEMPTS = 5
_PAUSE_SECONDS = 1.0
_STDERR_LINES = 100
_TOKEN = "BY_TOKEN"  # noqa: S105  (a variable's name)

_log = logging.getLogger(__name__)


def has_steps(parameters: BlueprintRequest) -> bool:
    """Whether anything is to be done in a devbox."""
    return bool(parameters.file_mounts or parameters.code_mounts or parameters.system_setup_commands)


async def run_steps(build: Build, image: Image) -> None:
    """Do everything in a devbox of that image and keep what it changed; the devbox ends whatever happens."""
    host = build.tools.host
    try:
        await host.start(_start_request(build, image))
        if build.network.egress is not None:
            await serve_door(build.tools, build.devbox_id, build.network.egress)
        await _Steps(build).apply()
        await host.stop(build.devbox_id, keep_disk=True)
        await host.snapshot(build.devbox_id, build.blueprint.id, KIND, move=True)
    finally:
        await uninterrupted(end_devbox(build.tools, build.devbox_id))


async def keep_as_it_is(build: Build, image: Image) -> None:
    """Make the blueprint's image of that one, with a layer that changes nothing."""
    async with build.tools.images.scratch() as scratch:
        nothing = scratch / "nothing"
        nothing.mkdir()
        nothing.chmod(0o755)
        await build.tools.images.add_layer(image, nothing, build.blueprint.id, move=True, kind=KIND)


async def end_devbox(tools: Tools, devbox_id: str) -> None:
    """End a build devbox and remove every trace, its output too; what resists is left to the next start."""
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
    launch = build.blueprint.parameters.launch_parameters
    user = launch.user_parameters if launch else None
    limits = Limits(
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
        user=user.username if user else DEFAULT_USER,
        uid=user.uid if user else None,
    )


class _Steps:
    """What is done in one build devbox, in order."""

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
            await put(self._tools, devbox, 0, FileMount(target=path, content=text))
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
        state = await self._started(request, secrets)
        lines = OutputLines(self._log)
        async for piece in self._tools.host.output(self._build.devbox_id, request.id, "stdout"):
            lines.feed(piece)
            # Much output may be there at once: others have their turn in between.
            await asyncio.sleep(0)
        lines.finish()
        state = await completed(self._tools, state)
        # Only what a shell says before it runs the command.
        early, _ = await self._tools.host.tail(state.devbox_id, state.id, "stderr", _STDERR_LINES)
        for line in early.splitlines():
            self._log.line(line)
        if state.exit_status != 0:
            raise self._failure(title, state)

    async def _started(self, request: ExecRequest, secrets: Mapping[str, str]) -> ExecutionState:
        """Start a command. Secrets come over its standard input: in files of the host they would last."""
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
    if hint == hints.OUT_OF_MEMORY or "more memory than it has" in hint:
        return "out_of_memory", ": the build ran out of memory"
    if hint == hints.OUT_OF_DISK or "the disk holds" in hint:
        return "out_of_disk", ": the build ran out of disk"
    if hint == hints.NO_NETWORK:
        hint = "builds have no network here: start the server with --build-network host"
        if has_policy:
            hint = "the network policy of this build does not let it out: allow more, or take another"
    return "build_failed", f" ({hint})" if hint else ""
