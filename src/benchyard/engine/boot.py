"""From a record to a running devbox: start it, fill it, prepare it, hand it over."""

import os
import posixpath
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchyard.benchmarks.files import scenario_draft
from benchyard.devboxes.base import Capability, Limits, Shown
from benchyard.devboxes.inside import Folder
from benchyard.engine import egress, services
from benchyard.engine.agents.commands import put_into_path
from benchyard.engine.descriptors import write_content
from benchyard.engine.doors import open_doors, with_open_doors
from benchyard.engine.given_secrets import note_given
from benchyard.engine.homes import home_of
from benchyard.engine.journal import now_ms
from benchyard.engine.mounts import put
from benchyard.engine.setup import entrypoint_id, launch_id, run_step
from benchyard.engine.sizes import resources
from benchyard.engine.states import Move, moved
from benchyard.engine.step_setup import prepare_step
from benchyard.engine.supplies import Supplies
from benchyard.engine.tools import Tools
from benchyard.engine.work import until_kept
from benchyard.errors import (
    BenchyardError,
    BuildFailed,
    DevboxError,
    InstallFailed,
    NotFound,
    StoreError,
    UsageError,
    from_os,
)
from benchyard.hosts.host import ExecRequest, StartRequest
from benchyard.models.devboxes import Devbox, DevboxStatus

DEFAULT_USER = "user"
SCORING_KIND = "scoring"
"""The kind of images that serve a scoring and are in no list."""
FINAL_KIND = "final"
"""The kind of images that keep what a run left; they are in no list either."""
PRISTINE = "-pristine"
"""What the id of the image ends with that a devbox looked like when it began to run."""


async def boot(tools: Tools, devbox_id: str, supplies: Supplies) -> Move:
    """Bring a devbox up, from wherever an earlier attempt left it; returns the move that ends the boot."""
    devbox = await tools.roster.get(devbox_id)
    try:
        devbox = await supplies.provided(devbox)
        request = await until_kept(partial(start_request, tools, devbox))
        await note_given(tools, devbox, [request.env[name] for name in devbox.secrets])
        await tools.host.start(request)
        await egress.open_door(tools, devbox)
    except (BuildFailed, InstallFailed) as error:
        tools.note(devbox_id, "setup_commands", error.message, level="error")
        return Move(DevboxStatus.FAILURE, failure="execution_failed", detail=error.message)
    except BenchyardError as error:
        return Move(DevboxStatus.FAILURE, failure="health_check_failed", detail=error.message)
    except OSError as error:
        return Move(DevboxStatus.FAILURE, failure="health_check_failed", detail=from_os(error).message)
    try:
        failure = await _prepare(tools, devbox, request)
    except (StoreError, OSError) as error:
        # What was to be prepared is not to blame for a disk that is full.
        told = from_os(error).message if isinstance(error, OSError) else error.message
        return Move(DevboxStatus.FAILURE, failure="health_check_failed", detail=told)
    except BenchyardError as error:
        failure = error.message
    if failure:
        tools.note(devbox_id, "setup_commands", failure, level="error")
        return Move(DevboxStatus.FAILURE, failure="execution_failed", detail=failure)
    return Move(DevboxStatus.RUNNING)


def after_boot(devbox: Devbox, move: Move) -> Devbox:
    """The record after a boot; one that had nothing to prepare passes through `initializing` on the way."""
    if devbox.status is DevboxStatus.RUNNING:
        return devbox
    if move.status is DevboxStatus.RUNNING and devbox.status is not DevboxStatus.INITIALIZING:
        devbox = moved(devbox, Move(DevboxStatus.INITIALIZING), now_ms())
    return moved(devbox, move, now_ms())


def _begun(devbox: Devbox, step: Move) -> Devbox:
    return devbox if devbox.status is step.status else moved(devbox, step, now_ms())


async def start_request(tools: Tools, devbox: Devbox) -> StartRequest:
    """What the host is asked for; secret values go to the devbox and nowhere else."""
    launch = devbox.launch_parameters
    secrets = {name: await tools.secrets.value(secret) for name, secret in devbox.secrets.items()}
    user = launch.user_parameters
    plan = egress.planned(tools, devbox)
    return StartRequest(
        id=devbox.id,
        image=devbox.image,
        network=plan.network,
        limits=_limits(tools, devbox),
        user=user.username if user else DEFAULT_USER,
        uid=user.uid if user else None,
        env={**plan.variables(), **devbox.environment_variables, **secrets},
        mounts=shown_in(devbox),
        tracing_switch=devbox.purpose is not None and devbox.purpose.refuses_tracing,
    )


def _limits(tools: Tools, devbox: Devbox) -> Limits:
    limits = resources(devbox.launch_parameters).limits()
    if devbox.purpose is None:
        return limits
    most = tools.settings.trial_output_max_bytes
    return replace(limits, output_bytes=min(limits.output_bytes, most // 2), all_output_bytes=most)


def shown_in(devbox: Devbox) -> tuple[Shown, ...]:
    """What a devbox shows of the host: for the scorers of its scenario, and its agents."""
    shown = dict(devbox.purpose.shown) if devbox.purpose else {}
    for agent in devbox.agents:
        shown |= agent.shown
    return tuple(Shown(Path(source), target) for target, source in shown.items())


async def _prepare(tools: Tools, devbox: Devbox, request: StartRequest) -> str | None:
    launch = devbox.launch_parameters.launch_commands
    if (devbox.mounts or launch or devbox.services) and devbox.status is not DevboxStatus.INITIALIZING:
        move = Move(DevboxStatus.INITIALIZING)
        begin = partial(tools.roster.change, devbox.id, lambda record: _begun(record, move))
        devbox = await until_kept(begin)
    if failure := _tolerated(tools, devbox, await services.start(tools, devbox, request)):
        return failure
    for index, mount in enumerate(devbox.mounts):
        if failure := await put(tools, devbox, index, mount):
            return failure
    for step in (_doors, put_into_path, _working_directory, _launch, _first_step):
        if failure := await step(tools, devbox, request):
            return failure
    await egress.begin_agent_phase(tools, devbox)
    await _remember_start(tools, devbox, request.user)
    if devbox.entrypoint:
        await tools.host.exec(devbox.id, ExecRequest(id=entrypoint_id(devbox), command=devbox.entrypoint))
    return None


async def _doors(tools: Tools, devbox: Devbox, request: StartRequest) -> str | None:
    """Open its ways to HTTP APIs, before any command that may use them."""
    if not devbox.doors:
        return None
    try:
        doors = await open_doors(tools.opener, tools.host, devbox)
    except BenchyardError as error:
        return _tolerated(tools, devbox, f"a gateway could not be opened: {error.message}")
    await until_kept(partial(tools.roster.change, devbox.id, partial(with_open_doors, doors)))
    return None


async def _working_directory(tools: Tools, devbox: Devbox, request: StartRequest) -> str | None:
    """Make the directory a scenario is worked on in, where it is not there, as its user's own."""
    path = devbox.purpose.working_directory if devbox.purpose else None
    if path is None or devbox.boot:
        return None
    if await tools.host.rooms.make_folders(devbox.id, [Folder(path, owner=request.user, only_new=True)]):
        return None
    capabilities, _ = tools.host.report()
    owner = f"{request.user}:" if Capability.USERS in capabilities else ""
    script = '[ -d "$1" ] || { mkdir -p -- "$1" && { [ -z "$2" ] || chown -- "$2" "$1"; }; }'
    step = ExecRequest(
        id=f"setup-{devbox.boot}-directory",
        command="",
        # Relative: where a devbox is a folder without walls, its root is not the machine's.
        argv=("/bin/sh", "-c", script, "sh", path.lstrip("/"), owner),
        cwd="/",
        user="root" if owner else None,
    )
    failure = await run_step(tools, devbox.id, step)
    return failure and f"the working directory {path} could not be made: {failure}"


async def _remember_start(tools: Tools, devbox: Devbox, user: str) -> None:
    """Keep what a scenario's devbox looks like before anybody works in it."""
    if devbox.purpose is None or devbox.boot or tools.host.pretends:
        return
    purpose = devbox.purpose.model_copy(update={"home": await home_of(tools, devbox.id, user)})
    noted = partial(
        tools.roster.change, devbox.id, lambda record: record.model_copy(update={"purpose": purpose})
    )
    await until_kept(noted)
    await tools.host.rooms.mark(devbox.id)
    if devbox.purpose.keeps_start:
        await tools.host.snapshot(devbox.id, devbox.id + PRISTINE, SCORING_KIND)


async def _launch(tools: Tools, devbox: Devbox, request: StartRequest) -> str | None:
    for index, command in enumerate(devbox.launch_parameters.launch_commands or []):
        if await _write_file(tools, devbox, command):
            continue
        step = ExecRequest(id=launch_id(devbox, index), command=command)
        failure = await run_step(tools, devbox.id, step)
        if _tolerated(tools, devbox, failure and f"launch command {failure}"):
            return f"launch command {failure}"
    return None


async def _write_file(tools: Tools, devbox: Devbox, command: str) -> bool:
    """Do what a launch command does that writes a file and nothing else; False where it has to be run."""
    file = scenario_draft.starting_file_of(command, None)
    if file is None or not posixpath.isabs(file.path):
        return False
    try:
        descriptor = await tools.host.open_write(devbox.id, file.path, mode=file.mode)
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != file.mode:
            os.close(descriptor)
            return False
        await write_content(descriptor, file.path, file.content)
    except (UsageError, NotFound, DevboxError) as error:
        tools.note(devbox.id, "setup_commands", f"{file.path} is left to a command: {error.message}")
        return False
    tools.note(devbox.id, "setup_commands", f"wrote {file.path}")
    return True


async def _first_step(tools: Tools, devbox: Devbox, request: StartRequest) -> str | None:
    """Make it ready for the first step of its scenario, if that needs anything."""
    step = devbox.purpose.first_step if devbox.purpose else None
    if step is None or devbox.boot:
        return None
    failure = await prepare_step(tools, devbox, 1, step)
    return failure and f"the first step: {failure}"


def _tolerated(tools: Tools, devbox: Devbox, failure: str | None) -> str | None:
    """A failure as it is on the first boot; later it is noted only: to end the devbox would cost its disk."""
    if failure and devbox.boot:
        tools.note(devbox.id, "setup_commands", failure, level="error")
        return None
    return failure
