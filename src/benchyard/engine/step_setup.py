"""What a devbox is made ready with for one step of its scenario: files, and a command."""

from benchyard.engine.homes import home_of
from benchyard.engine.mounts import put_object
from benchyard.engine.setup import run_step
from benchyard.engine.tools import Tools
from benchyard.errors import BenchyardError, NotFound, from_os
from benchyard.hosts.host import ExecRequest
from benchyard.models.devboxes import Devbox
from benchyard.models.mounts import ObjectMount
from benchyard.models.rounds import StepSetup

SETUP_SECONDS = 600.0
_ROOT = "root"


async def prepare_step(tools: Tools, devbox: Devbox, number: int, step: StepSetup) -> str | None:
    """Make a devbox ready for a step; returns why that failed, or None. Done before, it is not done again."""
    try:
        return await _prepare(tools, devbox, f"setup-step-{number}", step)
    except BenchyardError as error:
        return error.message
    except OSError as error:
        return from_os(error).message


async def _prepare(tools: Tools, devbox: Devbox, id: str, step: StepSetup) -> str | None:
    user = _ROOT if step.as_root else None
    purpose = devbox.purpose
    directory = (purpose and (purpose.working_directory or purpose.home)) or await _home(tools, devbox)
    files = f"{id}-files"
    if step.files and not await _is_known(tools, devbox, files):
        mount = ObjectMount(object_id=step.files, object_path=directory)
        if failure := await put_object(tools, devbox, mount, files, user):
            return f"its files could not be put in place: {failure}"
    if not step.setup:
        return None
    request = ExecRequest(
        id=id, command=step.setup, cwd=directory, user=user, timeout_seconds=SETUP_SECONDS, strict=True
    )
    failure = await run_step(tools, devbox.id, request)
    return failure and f"its setup failed: {failure}"


async def _is_known(tools: Tools, devbox: Devbox, id: str) -> bool:
    """Whether an earlier server unpacked it: what it unpacked from is gone."""
    try:
        return (await tools.host.execution(devbox.id, id)).exit_status == 0
    except NotFound:
        return False


async def _home(tools: Tools, devbox: Devbox) -> str:
    user = devbox.launch_parameters.user_parameters
    return await home_of(tools, devbox.id, user.username if user else "user")
