"""Boots a devbox: starts it from its record, fills it, and prepares it for the steps of its scenario."""

import os
import posixpath
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchyard.benchmarks.files import scenario_draft
from benchyard.benchmarks.files.scenario_draft import StartingFile
from benchyard.devboxes.base import (
    MOST_OPENED,
    Capability,
    DevboxLimits,
    HostFolder,
    NewFolder,
    OpenFile,
)
from benchyard.engine.background import retry_store
from benchyard.engine.clock import now_ms
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes import services
from benchyard.engine.devboxes.commands import entrypoint_id, launch_id, run_step
from benchyard.engine.devboxes.descriptors import read_all, write_content, write_contents
from benchyard.engine.devboxes.mounts import put_mount, put_object
from benchyard.engine.devboxes.secrets import note_given_values
from benchyard.engine.devboxes.sizes import resources
from benchyard.engine.devboxes.start_image import Prerequisites
from benchyard.engine.devboxes.states import Move, record_after_move
from benchyard.engine.network import egress
from benchyard.engine.network.gateway_doors import open_doors, with_open_doors
from benchyard.errors import (
    BenchyardError,
    BuildFailed,
    DevboxError,
    InstallFailed,
    NotFound,
    StoreError,
    TooLarge,
    UsageError,
    from_os,
    message_of,
)
from benchyard.hosts.host import ExecRequest, StartRequest
from benchyard.models.devboxes import Devbox, DevboxStatus
from benchyard.models.launch import ObjectMount
from benchyard.models.scenarios import StepSetup

_MAX_PASSWD_BYTES = 1024**2
_ROOT = "root"


def usual_home(user: str) -> str:
    """Return the home directory that a user has by default."""
    return "/root" if user in (_ROOT, "0") else f"/home/{user}"


async def home_of(tools: EngineContext, devbox_id: str, user: str) -> str:
    """Return the home directory of a user of a running devbox according to its /etc/passwd."""
    try:
        descriptor = await tools.host.open_read(devbox_id, "/etc/passwd", _ROOT)
        data = await read_all(descriptor, "/etc/passwd", _MAX_PASSWD_BYTES)
    except (NotFound, TooLarge, UsageError):
        return usual_home(user)
    for line in data.decode(errors="replace").splitlines():
        fields = line.split(":")
        if len(fields) >= 6 and user in (fields[0], fields[2]) and fields[5].startswith("/"):
            return fields[5]
    return usual_home(user)


STEP_SETUP_SECONDS = 600.0


async def prepare_step(tools: EngineContext, devbox: Devbox, number: int, step: StepSetup) -> str | None:
    """Make a devbox ready for a step; returns why that failed, or None. A finished step is not repeated."""
    try:
        return await _prepare_files(tools, devbox, f"setup-step-{number}", step)
    except BenchyardError as error:
        return error.message
    except OSError as error:
        return from_os(error).message


async def _prepare_files(tools: EngineContext, devbox: Devbox, id: str, step: StepSetup) -> str | None:
    user = _ROOT if step.as_root else None
    purpose = devbox.purpose
    directory = purpose and (purpose.working_directory or purpose.home)
    if not directory:
        directory = await home_of(tools, devbox.id, devbox.launch_parameters.username)
    files = f"{id}-files"
    if step.files and not await _is_known(tools, devbox, files):
        mount = ObjectMount(object_id=step.files, object_path=directory)
        if failure := await put_object(tools, devbox, mount, files, user):
            return f"its files could not be put in place: {failure}"
    if not step.setup:
        return None
    request = ExecRequest(
        id=id, command=step.setup, cwd=directory, user=user, timeout_seconds=STEP_SETUP_SECONDS, strict=True
    )
    failure = await run_step(tools, devbox.id, request)
    return failure and f"its setup failed: {failure}"


async def _is_known(tools: EngineContext, devbox: Devbox, id: str) -> bool:
    """Tell whether an earlier server has run this execution successfully: its input may be gone now."""
    try:
        return (await tools.host.execution(devbox.id, id)).exit_status == 0
    except NotFound:
        return False


_LINK_COMMANDS = """\
mkdir -p /usr/local/bin && cd /usr/local/bin || exit
for folder in "$@"; do
    for path in "$folder"/bin/*; do
        name=${path##*/}
        case $name in
            *[!A-Za-z0-9._+-]* | -* | node | python* | pip* | activate* | deactivate*) continue ;;
        esac
        [ -f "$path" ] && [ -x "$path" ] || continue
        rm -f "$name" &&
            printf '#!/bin/sh\\nPATH=%s/bin:"$PATH" exec %s "$@"\\n' "$folder" "$path" > "$name" &&
            chmod 755 "$name" || exit
    done
done
"""
"""Scripts instead of links: programs beside the command come first in its PATH, before the image's own."""


async def link_agent_commands(tools: EngineContext, devbox: Devbox, request: StartRequest) -> str | None:
    """Make the commands of a devbox's agents available in its shells; returns why that failed, or None."""
    folders = [next(iter(agent.shown)) for agent in devbox.agents if agent.is_package]
    if not folders or devbox.boot:
        return None
    step = ExecRequest(
        id=f"setup-{devbox.boot}-agents",
        argv=("/bin/sh", "-c", _LINK_COMMANDS, "sh", *folders),
        cwd="/",
        user="root" if Capability.USERS in tools.host.capabilities else request.user,
    )
    failure = await run_step(tools, devbox.id, step)
    return failure and f"the commands of agents could not be put into PATH: {failure}"


SCORING_KIND = "scoring"
"""Kind of images that serve a scoring; they are in no list."""
FINAL_KIND = "final"
"""Kind of images that keep the final state of a run; they are in no list either."""
PRISTINE = "-pristine"
"""Suffix of the id of the image of a devbox's disk as it was when the devbox began to run."""


async def boot(tools: EngineContext, devbox_id: str, prerequisites: Prerequisites) -> Move:
    """Boot a devbox from whatever state an earlier attempt left; returns the move that ends the boot."""
    devbox = await tools.live_devboxes.get(devbox_id)
    try:
        devbox = await prerequisites.provide(devbox)
        request = await retry_store(start_request, tools, devbox)
        await note_given_values(tools, devbox, [request.env[name] for name in devbox.secrets])
        await tools.host.start(request)
        await egress.open_door(tools, devbox)
    except (BuildFailed, InstallFailed) as error:
        tools.note(devbox_id, "setup_commands", error.message, level="error")
        return Move(DevboxStatus.FAILURE, failure="execution_failed", detail=error.message)
    except (BenchyardError, OSError) as error:
        return Move(DevboxStatus.FAILURE, failure="health_check_failed", detail=message_of(error))
    try:
        failure = await _prepare(tools, devbox, request)
    except (StoreError, OSError) as error:
        # A full disk is not the fault of the prepared files and commands.
        return Move(DevboxStatus.FAILURE, failure="health_check_failed", detail=message_of(error))
    except BenchyardError as error:
        failure = error.message
    if failure:
        tools.note(devbox_id, "setup_commands", failure, level="error")
        return Move(DevboxStatus.FAILURE, failure="execution_failed", detail=failure)
    return Move(DevboxStatus.RUNNING)


def after_boot(devbox: Devbox, move: Move) -> Devbox:
    """Return the record after a boot; a devbox without preparation still passes through `initializing`."""
    if devbox.status is DevboxStatus.RUNNING:
        return devbox
    if move.status is DevboxStatus.RUNNING and devbox.status is not DevboxStatus.INITIALIZING:
        devbox = record_after_move(devbox, Move(DevboxStatus.INITIALIZING), now_ms())
    return record_after_move(devbox, move, now_ms())


async def start_request(tools: EngineContext, devbox: Devbox) -> StartRequest:
    """Return the host's start request; secret values go to the devbox and nowhere else."""
    launch = devbox.launch_parameters
    secrets = {name: await tools.secrets.value(secret) for name, secret in devbox.secrets.items()}
    user = launch.user_parameters
    plan = egress.plan_of_devbox(tools, devbox)
    return StartRequest(
        id=devbox.id,
        image=devbox.image,
        network=plan.network,
        limits=_limits(tools, devbox),
        user=launch.username,
        uid=user.uid if user else None,
        env={**plan.variables(), **devbox.environment_variables, **secrets},
        mounts=shown_mounts(devbox),
        tracing_switch=devbox.purpose is not None and devbox.purpose.refuses_tracing,
    )


def _limits(tools: EngineContext, devbox: Devbox) -> DevboxLimits:
    limits = resources(devbox.launch_parameters).limits()
    if devbox.purpose is None:
        return limits
    most = tools.settings.trial_output_max_bytes
    return replace(limits, output_bytes=min(limits.output_bytes, most // 2), all_output_bytes=most)


def shown_mounts(devbox: Devbox) -> tuple[HostFolder, ...]:
    """Return the host folders that a devbox shows: for the scorers of its scenario, and its agents."""
    shown = dict(devbox.purpose.shown) if devbox.purpose else {}
    for agent in devbox.agents:
        shown |= agent.shown
    return tuple(HostFolder(Path(source), target) for target, source in shown.items())


async def _prepare(tools: EngineContext, devbox: Devbox, request: StartRequest) -> str | None:
    launch = devbox.launch_parameters.launch_commands
    if (devbox.mounts or launch or devbox.services) and devbox.status is not DevboxStatus.INITIALIZING:

        def begin(record: Devbox) -> Devbox:
            if record.status is DevboxStatus.INITIALIZING:
                return record
            return record_after_move(record, Move(DevboxStatus.INITIALIZING), now_ms())

        devbox = await retry_store(tools.live_devboxes.change, devbox.id, begin)
    if failure := _failure_of_boot(tools, devbox, await services.start(tools, devbox, request)):
        return failure
    for index, mount in enumerate(devbox.mounts):
        if failure := await put_mount(tools, devbox, index, mount):
            return failure
    for step in (_doors, link_agent_commands, _begin_work, _first_step):
        if failure := await step(tools, devbox, request):
            return failure
    await egress.begin_agent_phase(tools, devbox)
    await _remember_start(tools, devbox, request.user)
    if devbox.entrypoint:
        await tools.host.exec(devbox.id, ExecRequest(id=entrypoint_id(devbox), command=devbox.entrypoint))
    return None


async def _doors(tools: EngineContext, devbox: Devbox, request: StartRequest) -> str | None:
    """Open its doors to HTTP APIs, before any command that may use them."""
    if not devbox.doors:
        return None
    try:
        doors = await open_doors(tools.opener, tools.host, devbox)
    except BenchyardError as error:
        return _failure_of_boot(tools, devbox, f"a gateway could not be opened: {error.message}")
    await retry_store(tools.live_devboxes.change, devbox.id, partial(with_open_doors, doors))
    return None


async def _begin_work(tools: EngineContext, devbox: Devbox, request: StartRequest) -> str | None:
    """Create the working directory of a scenario if it is missing, and carry out the launch commands."""
    path = devbox.purpose.working_directory if devbox.purpose and not devbox.boot else None
    folders = [] if path is None else [NewFolder(path, owner=request.user, only_new=True)]
    commands = devbox.launch_parameters.launch_commands or []
    files: list[StartingFile] = []
    for command in commands[:MOST_OPENED]:
        if (file := _file_of(command)) is None:
            break
        files.append(file)
    done = await _write_files(tools, devbox, folders, files, request.user)
    if path is not None and not done and (failure := await _working_directory(tools, devbox, request, path)):
        return failure
    return await _launch(tools, devbox, done)


async def _working_directory(
    tools: EngineContext, devbox: Devbox, request: StartRequest, path: str
) -> str | None:
    if await tools.host.rooms.make_folders(devbox.id, [NewFolder(path, owner=request.user, only_new=True)]):
        return None
    owner = f"{request.user}:" if Capability.USERS in tools.host.capabilities else ""
    script = '[ -d "$1" ] || { mkdir -p -- "$1" && { [ -z "$2" ] || chown -- "$2" "$1"; }; }'
    step = ExecRequest(
        id=f"setup-{devbox.boot}-directory",
        command="",
        # Relative: without a root of its own, a devbox is a folder of the machine.
        argv=("/bin/sh", "-c", script, "sh", path.lstrip("/"), owner),
        cwd="/",
        user="root" if owner else None,
    )
    failure = await run_step(tools, devbox.id, step)
    return failure and f"the working directory {path} could not be made: {failure}"


async def _remember_start(tools: EngineContext, devbox: Devbox, user: str) -> None:
    """Record the state of a scenario's devbox before any work in it."""
    if devbox.purpose is None or devbox.boot or tools.host.pretends:
        return
    purpose = devbox.purpose.model_copy(update={"home": await home_of(tools, devbox.id, user)})
    await retry_store(
        tools.live_devboxes.change, devbox.id, lambda record: record.model_copy(update={"purpose": purpose})
    )
    if not purpose.is_marked_later:
        await tools.host.rooms.mark(devbox.id)
    if devbox.purpose.keeps_start:
        await tools.host.snapshot(devbox.id, devbox.id + PRISTINE, SCORING_KIND)


async def _launch(tools: EngineContext, devbox: Devbox, done: int) -> str | None:
    """Carry out the launch commands, except for the first ones that are done."""
    for index, command in enumerate(devbox.launch_parameters.launch_commands or []):
        if index < done or await _write_file(tools, devbox, command):
            continue
        step = ExecRequest(id=launch_id(devbox, index), command=command)
        failure = await run_step(tools, devbox.id, step)
        if _failure_of_boot(tools, devbox, failure and f"launch command {failure}"):
            return f"launch command {failure}"
    return None


def _file_of(command: str) -> StartingFile | None:
    """Return the file that a launch command writes; None if it does anything else."""
    file = scenario_draft.starting_file_of(command, None)
    return file if file is not None and posixpath.isabs(file.path) else None


async def _write_files(
    tools: EngineContext, devbox: Devbox, folders: list[NewFolder], files: list[StartingFile], user: str
) -> int:
    """Make folders and write the files of the first launch commands, all at once; returns how many files.

    If something prevents that, each is left to be done by itself, with its own failure.
    """
    requests = [OpenFile(file.path, user, write=True, mode=file.mode) for file in files]
    opened = await tools.host.rooms.open_in_folders(devbox.id, folders, requests)
    if opened is None:
        return 0
    found = [os.fstat(descriptor) for descriptor in opened]
    is_as_asked = [stat.S_IMODE(each.st_mode) for each in found] == [file.mode for file in files]
    if not is_as_asked or len({(each.st_dev, each.st_ino) for each in found}) < len(files):
        # Two names of one file: the second command replaces what the first one wrote.
        for descriptor in opened:
            os.close(descriptor)
        return 0
    try:
        await write_contents(opened, {file.path: file.content for file in files})
    except DevboxError as error:
        tools.note(devbox.id, "setup_commands", f"files are written one by one instead: {error.message}")
        return 0
    for file in files:
        tools.note(devbox.id, "setup_commands", f"wrote {file.path}")
    return len(files)


async def _write_file(tools: EngineContext, devbox: Devbox, command: str) -> bool:
    """Write the file of a launch command that does only that; returns False if the command must be run."""
    file = _file_of(command)
    if file is None:
        return False
    try:
        descriptor = await tools.host.open_write(devbox.id, file.path, mode=file.mode)
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != file.mode:
            os.close(descriptor)
            return False
        await write_content(descriptor, file.path, file.content)
    except (UsageError, NotFound, DevboxError) as error:
        tools.note(
            devbox.id, "setup_commands", f"{file.path} is written by a command instead: {error.message}"
        )
        return False
    tools.note(devbox.id, "setup_commands", f"wrote {file.path}")
    return True


async def _first_step(tools: EngineContext, devbox: Devbox, request: StartRequest) -> str | None:
    """Prepare the first step of its scenario, if the step needs that."""
    step = devbox.purpose.first_step if devbox.purpose else None
    if step is None or devbox.boot:
        return None
    failure = await prepare_step(tools, devbox, 1, step)
    return failure and f"the first step: {failure}"


def _failure_of_boot(tools: EngineContext, devbox: Devbox, failure: str | None) -> str | None:
    """Return a failure of the first boot; only log a later one, since the end would cost the disk."""
    if failure and devbox.boot:
        tools.note(devbox.id, "setup_commands", failure, level="error")
        return None
    return failure


def shown_folders(tools: EngineContext) -> set[Path]:
    """Return the host folders shown in any devbox, also in those that come up and those in no list."""
    coming = {each.source for devbox in tools.live_devboxes.live() for each in shown_mounts(devbox)}
    return coming | tools.host.rooms.shown_folders()
