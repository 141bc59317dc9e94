"""From a record to a running devbox: start it, fill it, prepare it, hand it over."""

from benchyard.devboxes.base import Network
from benchyard.engine.journal import now_ms
from benchyard.engine.launch import network
from benchyard.engine.mounts import put
from benchyard.engine.setup import entrypoint_id, launch_id, run_step
from benchyard.engine.sizes import resources
from benchyard.engine.states import Move, moved
from benchyard.engine.tools import Tools
from benchyard.errors import BenchyardError
from benchyard.hosts.host import ExecRequest, StartRequest
from benchyard.models.devboxes import Devbox, DevboxStatus

DEFAULT_USER = "user"


async def boot(tools: Tools, devbox_id: str) -> Move:
    """Bring a devbox up, from wherever an earlier attempt left it; returns the move that ends the boot."""
    devbox = await tools.roster.get(devbox_id)
    try:
        await tools.host.start(await start_request(tools, devbox))
    except BenchyardError as error:
        return Move(DevboxStatus.FAILURE, failure="health_check_failed", detail=error.message)
    try:
        failure = await _prepare(tools, devbox)
    except BenchyardError as error:
        failure = error.message
    if failure:
        tools.note(devbox_id, "setup_commands", failure, level="error")
        return Move(DevboxStatus.FAILURE, failure="execution_failed", detail=failure)
    return Move(DevboxStatus.RUNNING)


def after_boot(devbox: Devbox, move: Move) -> Devbox:
    """The record after a boot; one that had nothing to prepare passes through `initializing` on the way."""
    if move.status is DevboxStatus.RUNNING and devbox.status is not DevboxStatus.INITIALIZING:
        devbox = moved(devbox, Move(DevboxStatus.INITIALIZING), now_ms())
    return moved(devbox, move, now_ms())


async def start_request(tools: Tools, devbox: Devbox) -> StartRequest:
    """What the host is asked for; secret values go to the devbox and nowhere else."""
    launch = devbox.launch_parameters
    secrets = {name: await tools.secrets.value(secret) for name, secret in devbox.secrets.items()}
    user = launch.user_parameters
    return StartRequest(
        id=devbox.id,
        image=devbox.image,
        network=network(devbox.metadata, Network(tools.settings.devbox_network)),
        limits=resources(launch).limits(),
        user=user.username if user else DEFAULT_USER,
        uid=user.uid if user else None,
        env={**devbox.environment_variables, **secrets},
    )


async def _prepare(tools: Tools, devbox: Devbox) -> str | None:
    commands = devbox.launch_parameters.launch_commands or []
    if (devbox.mounts or commands) and devbox.status is not DevboxStatus.INITIALIZING:
        step = Move(DevboxStatus.INITIALIZING)
        devbox = await tools.roster.change(devbox.id, lambda record: moved(record, step, now_ms()))
    for index, mount in enumerate(devbox.mounts):
        if failure := await put(tools, devbox, index, mount):
            return failure
    for index, command in enumerate(commands):
        request = ExecRequest(id=launch_id(devbox, index), command=command)
        if failure := await run_step(tools, devbox.id, request):
            if not devbox.boot:
                return f"launch command {failure}"
            # It did its work on the first boot; to end the devbox now would take its disk along.
            tools.note(devbox.id, "setup_commands", f"launch command {failure}", level="error")
    if devbox.entrypoint:
        await tools.host.exec(devbox.id, ExecRequest(id=entrypoint_id(devbox), command=devbox.entrypoint))
    return None
