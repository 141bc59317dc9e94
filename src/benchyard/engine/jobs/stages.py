"""Stages of a trial. Each finds or starts its work, so that none of it is done twice."""

import asyncio
import contextlib
import logging
import os
import re
import stat
from collections.abc import Iterator

from benchyard.agents.base import PROMPT_FILE, TRAJECTORY, AgentEnd, Launch, contract_env
from benchyard.devboxes.base import NewFolder, OpenFile
from benchyard.engine.background import retry_store
from benchyard.engine.clock import now_ms
from benchyard.engine.context import Caller
from benchyard.engine.devboxes.commands import run_step, wait_for_completion
from benchyard.engine.devboxes.descriptors import read_pieces, write_contents
from benchyard.engine.devboxes.states import BOOTING, ENDED, SUSPENDED
from benchyard.engine.disk_use import is_short
from benchyard.engine.ids import id_from_bytes
from benchyard.engine.jobs.failures import (
    TrialFailed,
    failure_of_devbox,
    failure_of_error,
    failure_of_setup,
    note_of_output,
)
from benchyard.engine.jobs.model_usage import agent_deadline, settle_usage
from benchyard.engine.jobs.trial_context import AGENT_EXECUTION, TrialContext, trial_scrubber
from benchyard.engine.network.egress import plan_of_devbox, require_gateway
from benchyard.engine.network.model_routes import other_secrets
from benchyard.engine.redaction import Scrubber
from benchyard.engine.runs.start import RUN_PREFIX, RunPlan
from benchyard.errors import BenchyardError, BuildFailed, DevboxGone, DiskFull, NotFound, TooLarge
from benchyard.hosts.cancellation import run_to_end
from benchyard.hosts.host import ExecRequest, ExecutionState
from benchyard.models.devboxes import Devbox, DevboxStatus
from benchyard.models.jobs import JOB_KEY, TRIAL_KEY
from benchyard.models.launch import KEEP_ALIVE_MAX_SECONDS, LaunchParameters
from benchyard.models.runs import REFERENCE_KEY, ContractResult, RunProfile, ScenarioRun
from benchyard.models.scenarios import of_round

MOST_FILES = 50
MOST_FILE_BYTES = 32 * 1024**2
MOST_BYTES = 128 * 1024**2
_OBJECT_PREFIX = "obj_"
_LIST_EXECUTION = "agent-logs"
_LIST = 'cd -- "$1" && shift && find . -type f "$@" | head -n 200'
_LIST_SECONDS = 30.0
_MOST_LISTED = 200
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")

_log = logging.getLogger(__name__)


async def collect_logs(context: TrialContext) -> None:
    """Store the agent's logs; failures go to the server's log, and the trial goes on."""
    left = MOST_BYTES
    clean = await trial_scrubber(context)
    for path in (await _paths(context))[:MOST_FILES]:
        try:
            left -= await _keep(context, path, min(left, MOST_FILE_BYTES), clean)
        except (BenchyardError, OSError) as error:
            warning = clean.text(f"{path} of the agent's logs is not kept: {error}")
            _log.warning("trial %s: %s", context.trial.id, warning)


async def _paths(context: TrialContext) -> list[str]:
    """Return the files in the folder of logs, the trajectory first."""
    tools, devbox_id = context.tools, context.the_devbox.id
    folder = context.task().logs_folder
    # In a later round only files that it changed: the prompt was written when it began.
    prompt = context.task().prompt_file if context.round > 1 else None
    try:
        names = await tools.host.rooms.files(devbox_id, folder, context.user, prompt, _MOST_LISTED)
    except BenchyardError as error:
        _log.warning("trial %s: the agent's logs are not kept: %s", context.trial.id, error)
        return []
    if names is not None:
        return _in_order({f"{folder}/{name}" for name in names})
    newer = ("-newer", prompt) if prompt else ()
    argv = ("/bin/sh", "-c", _LIST, "sh", folder, *newer)
    request = ExecRequest(
        id=context.in_round(_LIST_EXECUTION),
        argv=argv,
        cwd="/",
        user=context.user,
        timeout_seconds=_LIST_SECONDS,
        strict=True,
    )
    try:
        state = await wait_for_completion(tools, await tools.host.exec(devbox_id, request))
        text, _ = await tools.host.tail(devbox_id, state.id, "stdout", 200)
    except BenchyardError as error:
        _log.warning("trial %s: the agent's logs are not kept: %s", context.trial.id, error)
        return []
    return _in_order({f"{folder}/{line[2:]}" for line in text.split("\n") if line.startswith("./")})


def _in_order(found: set[str]) -> list[str]:
    return sorted(found, key=lambda path: (path != TRAJECTORY, path))


async def _keep(context: TrialContext, path: str, most: int, clean: Scrubber) -> int:
    """Store a file, without secrets, as a trace of the run, once; returns its size."""
    tools = context.tools
    name = _name(clean.text(path.removeprefix(context.task().logs_folder).strip("/")))
    if context.round > 1:
        name = f"round-{context.round}__{name}"[:200]
    descriptor = await tools.host.open_read(context.the_devbox.id, path, context.user)
    try:
        about = os.fstat(descriptor)
        if not about.st_size or not stat.S_ISREG(about.st_mode):
            return 0
        if about.st_size > most:
            raise TooLarge(f"{path} is larger than {most} bytes")
        # In pieces from disk to disk: its size is up to the agent.
        pieces = clean.pieces(read_pieces(descriptor, path, about.st_size))
        run_id = str(context.trial.scenario_run_id)
        await context.traces.keep(run_id, name, pieces, None if path == TRAJECTORY else "file")
        return about.st_size
    finally:
        os.close(descriptor)


def _name(path: str) -> str:
    name = _UNSAFE.sub("_", path.replace("/", "__")).lstrip("._-")[-200:]
    return name if name and name[0].isalnum() else f"log-{name}"[:200]


PROVISION_SECONDS = 600.0
SETUP_SECONDS = 360.0
_SETUP_EXECUTION = "agent-setup"
_LEAST_SECONDS = 1.0
_GRACE_SECONDS = 30.0
"""Seconds that the devbox has to end the agent's commands after the time; then they are killed here."""
_TAIL_LINES = 20
_STDOUT_BYTES = 64 * 1024
_STDERR_CHARACTERS = 16 * 1024

_MAKE_FOLDERS = 'mkdir -p -- "$1" "$2" && chmod 755 -- "$1" "$2" && chown -- "$3:" "$2"'


def _waits(context: TrialContext) -> float:
    """Return the longest extension of the agent's time by waits for its model's provider."""
    return context.inputs.job.orchestrator.waits if context.inputs.route else 0.0


async def provision(context: TrialContext) -> None:
    """Begin the scenario run, and wait until its devbox runs."""
    tools = context.tools
    run_id = id_from_bytes(RUN_PREFIX, tools.vault.derive("trial-runs", context.trial.id))
    # Stored before the run exists: a cancellation must know which run to end.
    context.note(scenario_run_id=run_id)
    if not context.is_fresh:
        context.run = await retry_store(context.runs.records.find, run_id)
    if context.run is None:
        context.run = await _begin_run(context, run_id)
    context.note(devbox_id=context.run.devbox_id)
    context.devbox = await tools.live_devboxes.wait(
        context.run.devbox_id,
        lambda devbox: devbox.status not in BOOTING,
        PROVISION_SECONDS * context.multiplier,
    )
    if context.devbox.status in BOOTING:
        raise TrialFailed("infrastructure", "ProvisionTimeout", "the devbox did not come up in time")
    network = plan_of_devbox(tools, context.devbox)
    context.note(network=network.word(asks_models=context.inputs.route is not None))
    if context.is_scored:
        await _recall(context)
    elif context.devbox.status in ENDED:
        raise failure_of_devbox(context.devbox)
    elif context.round == 1 and context.launch() is None and not tools.host.pretends:
        # Without a program to start nothing is set up, which ends with the mark otherwise.
        await tools.host.rooms.mark(context.devbox.id)


async def _begin_run(context: TrialContext, run_id: str) -> ScenarioRun:
    """Begin a new run; a refused run leaves no record."""
    environment = context.config.agent_environment
    try:
        try:
            for name in ((environment and environment.secrets) or {}).values():
                await retry_store(context.tools.secrets.value, name)
        except NotFound as error:
            # Deleted since the job began, which is not the scenario's failure.
            raise TrialFailed("infrastructure", "SecretGone", error.message) from error
        await _build(context)
        return await run_to_end(retry_store(context.runs.begin, Caller(run_id), _start(context)))
    except BuildFailed as error:
        context.note(scenario_run_id=None)
        raise failure_of_setup("EnvironmentBuildFailed", error.message) from error
    except (BenchyardError, TrialFailed):
        context.note(scenario_run_id=None)
        raise


async def _build(context: TrialContext) -> None:
    """Build the images of the scenario if necessary, and show that as a preparation."""
    prerequisites, scenario = context.runs.prerequisites, context.inputs.scenario
    unbuilt = await prerequisites.unbuilt(scenario)
    if not unbuilt:
        await prerequisites.build_images(scenario)
        return
    begun = now_ms()
    context.note(activity=", ".join(unbuilt))
    context.job_store.soon(context.trial)
    try:
        await prerequisites.build_images(scenario)
    finally:
        context.note(activity=None, preparing_ms=max(0, now_ms() - begun))
    context.job_store.soon(context.trial)


async def _recall(context: TrialContext) -> None:
    """Note the agent's end if an earlier server saw it without storing it."""
    if state := await _known_execution(context):
        _note_end(context, state)
        if state.timed_out:
            context.end_by("timeout")


def _note_end(context: TrialContext, state: ExecutionState) -> None:
    """Note the agent's exit status and times in this round."""
    context.note(exit_status=state.exit_status)
    times = {"start_time_ms": state.start_ms, "end_time_ms": state.end_ms}
    context.note_round(exit_status=state.exit_status, **times)


def _start(context: TrialContext) -> RunPlan:
    job, trial = context.inputs.job, context.trial
    environment = context.config.agent_environment
    scenario = context.inputs.scenario
    rounds = [of_round(scenario, number) for number in range(1, scenario.n_rounds + 1)]
    scorers = sum(len(each.scoring_contract.scoring_function_parameters) for each in rounds)
    seconds = PROVISION_SECONDS + SETUP_SECONDS * len(rounds) + scenario.scorer_seconds * scorers
    agents = sum(context.limit_of(each) for each in (rounds[:1] if context.is_shared else rounds)) + _waits(
        context
    )
    # Failing scorers are retried, and then run with the reference while the devbox waits.
    lifetime = min(KEEP_ALIVE_MAX_SECONDS, int(agents + 4 * seconds * max(1.0, context.multiplier)))
    return RunPlan(
        scenario=scenario,
        profile=RunProfile(
            env_vars=dict(environment.environment_variables or {}) if environment else None,
            secrets=other_secrets(context.inputs.agent, context.inputs.route, environment) or None,
            purpose=f"trial {trial.id} of job {job.id}",
            # A trial ends its devbox itself; this limit is for the case that it cannot.
            launch_parameters=LaunchParameters(keep_alive_time_seconds=lifetime),
        ),
        benchmark_run_id=job.benchmark_run_ids[trial.agent],
        metadata={
            JOB_KEY: job.id,
            TRIAL_KEY: trial.id,
            "benchyard.attempt": str(trial.attempt),
            **({REFERENCE_KEY: context.inputs.agent.name} if context.inputs.agent.is_reference else {}),
        },
        shown=context.inputs.shown,
        scorer_multiplier=context.multiplier,
    )


async def set_up(context: TrialContext, launch: Launch) -> None:
    """Prepare the devbox for the agent: the prompt, the agent's own files, and a folder for its logs."""
    task, devbox_id = context.task(), context.the_devbox.id
    if context.inputs.route is not None:
        require_gateway(context.tools, context.the_devbox)
        # Also for an agent at work: the gateway may have been killed with the server.
        await context.access.open(
            context.inputs.job, context.trial, devbox_id, context.inputs.route, context.agent_seconds()
        )
    if await _known_execution(context) is not None:
        return
    try:
        async with asyncio.timeout(SETUP_SECONDS * context.multiplier):
            files = {**launch.files, task.prompt_file: task.prompt.encode()}
            if context.round > 1:
                # Here the agent may have replaced the shell; the folders exist by now.
                await _put_anew(context, files)
            elif not await _put_in_folders(context, _folders(context), files):
                await _make_folders(context, _folders(context))
                await _put_anew(context, files)
            if context.round == 1 and not context.tools.host.pretends:
                # These changes are not the agent's: exclude them from the tamper report.
                await context.tools.host.rooms.mark(devbox_id)
    except TimeoutError as error:
        raise TrialFailed("infrastructure", "SetupTimeout", "the agent was not set up in time") from error


def _folders(context: TrialContext) -> list[NewFolder]:
    logs = NewFolder(context.task().logs_folder, owner=context.user)
    return [NewFolder(PROMPT_FILE.rpartition("/")[0]), logs]


async def _put_in_folders(context: TrialContext, folders: list[NewFolder], files: dict[str, bytes]) -> bool:
    """Make folders and write files of the agent by one request; return False if that is not possible."""
    devbox_id, rooms = context.the_devbox.id, context.tools.host.rooms
    opened = await rooms.open_in_folders(devbox_id, folders, _fresh(files))
    if opened is None:
        return False
    await _write(context, opened, files)
    return True


async def _make_folders(context: TrialContext, folders: list[NewFolder]) -> None:
    devbox_id = context.the_devbox.id
    if await context.tools.host.rooms.make_folders(devbox_id, folders):
        return
    argv = ("/bin/sh", "-c", _MAKE_FOLDERS, "sh", *(folder.path for folder in folders), context.user)
    request = ExecRequest(id=context.in_round(_SETUP_EXECUTION), argv=argv, cwd="/", user="root")
    if failure := await run_step(context.tools, devbox_id, request):
        raise failure_of_setup("SetupError", f"the agent's folders could not be made: {failure}")


async def _put_anew(context: TrialContext, files: dict[str, bytes]) -> None:
    """Write the files of the agent; raises TrialFailed if a full memory disk of the devbox prevents it."""
    with _full_disk_is_the_scenarios(context):
        opened = await context.tools.host.open_all(context.the_devbox.id, _fresh(files))
    await _write(context, opened, files)


async def _write(context: TrialContext, opened: list[int], files: dict[str, bytes]) -> None:
    with _full_disk_is_the_scenarios(context):
        await write_contents(opened, files)


def _fresh(files: dict[str, bytes]) -> list[OpenFile]:
    return [OpenFile(path, write=True, mode=0o755, fresh=True) for path in files]


@contextlib.contextmanager
def _full_disk_is_the_scenarios(context: TrialContext) -> Iterator[None]:
    """Turn a full memory disk of the devbox into a failure of the scenario."""
    try:
        yield
    except DiskFull as error:
        if is_short(context.tools.settings.data):
            raise
        raise TrialFailed("scenario", "SetupError", error.message) from error


async def run_agent(context: TrialContext, launch: Launch) -> None:
    """Run the agent from its start to its end, then end all processes that it left."""
    task, devbox_id = context.task(), context.the_devbox.id
    isolation = context.inputs.scenario.isolation
    seconds = context.agent_seconds()
    waits = _waits(context)
    request = ExecRequest(
        id=context.in_round(AGENT_EXECUTION),
        command=f"exec < {task.prompt_file}\n{launch.command}",
        env={**contract_env(task), **launch.env},
        cwd=task.working_directory,
        timeout_seconds=max(_LEAST_SECONDS, seconds + waits),
        strict=isolation != "live",
    )
    try:
        state = await _known_execution(context) or await context.tools.host.exec(devbox_id, request)
        async with agent_deadline(context, seconds, state) as deadline:
            state, is_late = await _wait_for_end(context, state, max(_LEAST_SECONDS, seconds + waits))
        if isolation != "live":
            await _stop_everything(context)
    except (BenchyardError, OSError):
        # Settle the spending, whatever happened to the devbox.
        await settle_usage(context)
        raise
    printed = await _last_output(context, state)
    await settle_usage(context, printed)
    await _judge(context, state, printed, is_late=is_late or deadline.rang)


async def _known_execution(context: TrialContext) -> ExecutionState | None:
    """Return the agent's execution, if an earlier server began it."""
    try:
        return await context.tools.host.execution(context.the_devbox.id, context.in_round(AGENT_EXECUTION))
    except NotFound:
        return None


async def _wait_for_end(
    context: TrialContext, state: ExecutionState, seconds: float
) -> tuple[ExecutionState, bool]:
    """Return the agent's execution when it ends, or when it is overdue; and whether it is overdue."""
    try:
        # Counted anew after a restart: the clock may have been wrong by days before.
        async with asyncio.timeout(seconds + _GRACE_SECONDS):
            return await wait_for_completion(context.tools, state), False
    except TimeoutError:
        # Root in a devbox can stop any program that would end it; the disk is scored as it is now.
        return state, True


async def _stop_everything(context: TrialContext) -> None:
    """Kill all processes that the agent left, so that no work goes on after its time."""
    devbox = await context.tools.live_devboxes.get(context.the_devbox.id)
    if devbox.status is DevboxStatus.RUNNING:
        try:
            await context.tools.host.rooms.kill_all(devbox.id)
        except BenchyardError:
            # The devbox may have ended meanwhile; otherwise the error is a real one.
            if (await context.tools.live_devboxes.get(devbox.id)).status is DevboxStatus.RUNNING:
                raise


async def _judge(context: TrialContext, state: ExecutionState, printed: str, *, is_late: bool) -> None:
    """Note how the agent ended, and collect its logs; raises TrialFailed if it failed."""
    tools, devbox_id = context.tools, context.the_devbox.id
    context.devbox = await _look_at_devbox(context)
    if context.devbox.status in ENDED:
        raise failure_of_devbox(context.devbox)
    lost_output = note_of_output(state.hint, tools.settings.data)
    if isinstance(lost_output, TrialFailed):
        raise lost_output
    if lost_output is not None:
        context.note(conditions=list(dict.fromkeys([*context.trial.conditions, lost_output])))
    timed_out = is_late or state.timed_out
    if timed_out:
        context.end_by("timeout")
    _note_end(context, state)
    await collect_logs(context)
    error, _ = await tools.host.tail(devbox_id, context.in_round(AGENT_EXECUTION), "stderr", _TAIL_LINES)
    # Redact before cutting: half a secret would not be recognised.
    clean = await trial_scrubber(context)
    error = (await asyncio.to_thread(clean.text, error))[-_STDERR_CHARACTERS:]
    ended = AgentEnd(
        exit_status=state.exit_status or 0,
        signal=state.signal,
        timed_out=timed_out,
        hint=state.hint,
        stderr_tail=error,
        stdout_tail=await asyncio.to_thread(clean.text, printed),
        calls=int(context.trial.usage.get("model_calls", 0)),
        last_error=clean.text(context.last_error) if context.last_error else None,
    )
    if context.ended_by is None and (reason := context.inputs.agent.judge(ended)):
        raise TrialFailed("agent", "AgentError", reason)


async def _last_output(context: TrialContext, state: ExecutionState) -> str:
    """Return the end of the agent's output, from the beginning of a line."""
    if context.inputs.route is None:
        return ""
    start = max(0, state.stdout_bytes - _STDOUT_BYTES)
    pieces = context.tools.host.output(context.the_devbox.id, state.id, "stdout", start, follow=False)
    text = b"".join([piece async for piece in pieces])[-_STDOUT_BYTES:].decode(errors="replace")
    return text.partition("\n")[2] if start else text


async def score(context: TrialContext) -> ContractResult:
    """Score the round; raises TrialFailed if the scorers give no result."""
    runs, run_id = context.runs, str(context.trial.scenario_run_id)
    if context.run is None or context.run.result_of(context.round) is None:
        request = context.in_round(f"trial-{context.trial.id}")
        await retry_store(runs.score, run_id, request, is_job=True)
    context.run = await runs.wait_until_settled(run_id)
    result = context.run.result_of(context.round)
    if result is None:
        raise failure_of_devbox(await _look_at_devbox(context))
    if result.rounds:
        context.note_round(score=result.rounds[-1].score, rewards=result.rounds[-1].rewards)
    wrong = [
        function_result
        for function_result in result.scoring_function_results
        if function_result.state == "error"
    ]
    if not wrong:
        return result
    devbox = await _look_at_devbox(context)
    if devbox.status is DevboxStatus.FAILURE:
        raise failure_of_devbox(devbox)
    # Failures caused by the answer are no errors: this one is the scorer's or the machine's.
    reason = f"scorer {wrong[0].scoring_function_name!r}: {wrong[0].reason}"
    raise TrialFailed("scorer", "ScorerError", reason)


async def begin_round(context: TrialContext) -> None:
    """Go on to the next round; its devbox was prepared when the last round was scored."""
    context.next_round()
    following = context.run.next_round if context.run else None
    if following and following.number == context.round and following.failure:
        reason = f"step {following.name!r}: {following.failure}"
        if following.failure_cause == "scenario":
            raise TrialFailed("scenario", "SetupError", reason, is_proved=True)
        if following.failure_cause == "machine":
            raise TrialFailed("infrastructure", "SetupError", reason)
        raise failure_of_setup("SetupError", reason, is_disk_full=is_short(context.tools.settings.data))
    if context.is_scored:
        await _recall(context)


async def devbox_failure(context: TrialContext, error: DevboxGone) -> TrialFailed:
    """Return the failure for a devbox that has gone during an operation."""
    if context.devbox is None:
        return failure_of_error(error)
    devbox = await context.tools.live_devboxes.wait(context.devbox.id, _has_ended, _GRACE_SECONDS)
    return failure_of_devbox(devbox) if devbox.status in ENDED else failure_of_error(error)


async def _look_at_devbox(context: TrialContext) -> Devbox:
    """Return the devbox; one that the host has lost is awaited until its record has the end."""
    tools, devbox_id = context.tools, context.the_devbox.id
    devbox = await tools.live_devboxes.get(devbox_id)
    if devbox_id in tools.host.running() or devbox.status in SUSPENDED:
        return devbox
    return await tools.live_devboxes.wait(devbox_id, _has_ended, _GRACE_SECONDS)


def _has_ended(devbox: Devbox) -> bool:
    return devbox.status in ENDED
