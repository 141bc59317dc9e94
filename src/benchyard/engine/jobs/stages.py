"""The stages of a trial. Each finds what it began before, or begins it: none does anything twice."""

import asyncio
import logging
import os
import re
import stat
from functools import partial

from benchyard.agents.base import PROMPT_FILE, TRAJECTORY, AgentEnd, Launch, contract_env
from benchyard.devboxes.base import NewFolder
from benchyard.engine.background import retry_store
from benchyard.engine.clock import now_ms
from benchyard.engine.context import Caller
from benchyard.engine.devboxes.commands import run_step, wait_for_completion
from benchyard.engine.devboxes.descriptors import read_pieces, write_content
from benchyard.engine.devboxes.states import BOOTING, ENDED, SUSPENDED
from benchyard.engine.disk_use import is_short
from benchyard.engine.ids import id_from_bytes
from benchyard.engine.jobs.failures import (
    TrialFailed,
    failure_of_devbox,
    failure_of_error,
    failure_of_output,
    failure_of_setup,
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
    """Keep the agent's logs; what cannot be kept is told in the server's log, and the trial goes on."""
    left = MOST_BYTES
    clean = await trial_scrubber(context)
    for path in (await _paths(context))[:MOST_FILES]:
        try:
            left -= await _keep(context, path, min(left, MOST_FILE_BYTES), clean)
        except (BenchyardError, OSError) as error:
            told = clean.text(f"{path} of the agent's logs is not kept: {error}")
            _log.warning("trial %s: %s", context.trial.id, told)


async def _paths(context: TrialContext) -> list[str]:
    """The files in the folder of logs, the trajectory first."""
    tools, devbox_id = context.services.tools, context.the_devbox.id
    folder = context.task().logs_folder
    # Of a later round, what it changed: the prompt was written when it began.
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
    return _in_order({f"{folder}/{line[2:]}" for line in text.splitlines() if line.startswith("./")})


def _in_order(found: set[str]) -> list[str]:
    return sorted(found, key=lambda path: (path != TRAJECTORY, path))


async def _keep(context: TrialContext, path: str, most: int, clean: Scrubber) -> int:
    """Keep one file, without secrets, as a trace of the run; its size. The same again changes nothing."""
    tools = context.services.tools
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
        # In pieces from one disk to the other: agents choose how large it is.
        pieces = clean.pieces(read_pieces(descriptor, path, about.st_size))
        run_id = str(context.trial.scenario_run_id)
        await context.services.traces.keep(run_id, name, pieces, None if path == TRAJECTORY else "file")
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
"""After the bell: the devbox itself ends the agent's commands; if it does not, we do."""
_TAIL_LINES = 20
_STDOUT_BYTES = 64 * 1024

_MAKE_FOLDERS = 'mkdir -p -- "$1" "$2" && chmod 755 -- "$1" "$2" && chown -- "$3:" "$2"'


def _waits(context: TrialContext) -> float:
    """How much longer that may be, if its model's provider lets it wait."""
    return context.inputs.job.orchestrator.waits if context.inputs.route else 0.0


async def provision(context: TrialContext) -> None:
    """The scenario run and its devbox, up and running."""
    services, trial = context.services, context.trial
    run_id = id_from_bytes(RUN_PREFIX, services.tools.vault.derive("trial-runs", trial.id))
    # Before it is there: whoever cancels the trial must know what to end.
    context.note(scenario_run_id=run_id)
    if not context.is_fresh:
        context.run = await retry_store(partial(services.runs.records.find, run_id))
    if context.run is None:
        context.run = await _begin_run(context, run_id)
    context.note(devbox_id=context.run.devbox_id)
    context.devbox = await services.tools.live_devboxes.wait(
        context.run.devbox_id, _is_up, PROVISION_SECONDS * context.multiplier
    )
    if context.devbox.status in BOOTING:
        raise TrialFailed("infrastructure", "ProvisionTimeout", "the devbox did not come up in time")
    context.note(
        network=plan_of_devbox(services.tools, context.devbox).word(
            asks_models=context.inputs.route is not None
        )
    )
    if context.is_scored:
        await _recall(context)
    elif context.devbox.status in ENDED:
        raise failure_of_devbox(context.devbox)


async def _begin_run(context: TrialContext, run_id: str) -> ScenarioRun:
    """A new run; where it is refused there is none that could be looked up."""
    try:
        await _check_secrets(context)
        await _build(context)
        return await run_to_end(
            retry_store(partial(context.services.runs.begin, Caller(run_id), _start(context)))
        )
    except BuildFailed as error:
        context.note(scenario_run_id=None)
        raise failure_of_setup("EnvironmentBuildFailed", error.message) from error
    except (BenchyardError, TrialFailed):
        context.note(scenario_run_id=None)
        raise


async def _build(context: TrialContext) -> None:
    """See to it that the images of the scenario are built, and say so while that takes its time."""
    prerequisites, scenario = context.services.runs.prerequisites, context.inputs.scenario
    unbuilt = await prerequisites.unbuilt(scenario)
    if not unbuilt:
        await prerequisites.built(scenario)
        return
    begun = now_ms()
    context.note(activity=", ".join(unbuilt))
    context.services.job_store.soon(context.trial)
    try:
        await prerequisites.built(scenario)
    finally:
        context.note(activity=None, preparing_ms=max(0, now_ms() - begun))
    context.services.job_store.soon(context.trial)


async def _check_secrets(context: TrialContext) -> None:
    """Raise TrialFailed for a secret that is gone since the job began: that is not the scenario's failure."""
    environment = context.config.agent_environment
    try:
        for name in ((environment and environment.secrets) or {}).values():
            await retry_store(partial(context.services.tools.secrets.value, name))
    except NotFound as error:
        raise TrialFailed("infrastructure", "SecretGone", error.message) from error


async def _recall(context: TrialContext) -> None:
    """What an earlier server knew of the agent's end, and may not have kept."""
    if state := await _known_execution(context):
        _note_end(context, state)
        if state.timed_out:
            context.end_by("timeout")


def _note_end(context: TrialContext, state: ExecutionState) -> None:
    """Note how and when the agent ended in this round."""
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
    # Scorers that fail are tried again, and then with the reference while the devbox waits.
    lifetime = min(KEEP_ALIVE_MAX_SECONDS, int(agents + 4 * seconds * max(1.0, context.multiplier)))
    return RunPlan(
        scenario=scenario,
        profile=RunProfile(
            env_vars=dict(environment.environment_variables or {}) if environment else None,
            secrets=other_secrets(context.inputs.agent, context.inputs.route, environment) or None,
            purpose=f"trial {trial.id} of job {job.id}",
            # A trial ends its devbox itself; this is for the case that nobody is left to do it.
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
    """What the agent finds in its devbox: the prompt, its own files, and a folder for its logs."""
    task, devbox_id = context.task(), context.the_devbox.id
    if context.inputs.route is not None:
        require_gateway(context.services.tools, context.the_devbox)
        # Also for an agent that works already: the gateway may have been killed with the server.
        await context.services.access.open(
            context.inputs.job, context.trial, devbox_id, context.inputs.route, context.agent_seconds()
        )
    if await _known_execution(context) is not None:
        return
    try:
        async with asyncio.timeout(SETUP_SECONDS * context.multiplier):
            if context.round == 1:
                # Later the shell is whatever the agent made of it, and the folders are there.
                await _make_folders(context)
            for path, content in {**launch.files, task.prompt_file: task.prompt.encode()}.items():
                await _put_anew(context, path, content)
            if context.round == 1 and not context.services.tools.host.pretends:
                # What is ours is nothing that the agent did.
                await context.services.tools.host.rooms.mark(devbox_id)
    except TimeoutError as error:
        raise TrialFailed("infrastructure", "SetupTimeout", "the agent was not set up in time") from error


async def _make_folders(context: TrialContext) -> None:
    task, devbox_id = context.task(), context.the_devbox.id
    wanted = [NewFolder(PROMPT_FILE.rpartition("/")[0]), NewFolder(task.logs_folder, owner=context.user)]
    if await context.services.tools.host.rooms.make_folders(devbox_id, wanted):
        return
    folders = (PROMPT_FILE.rpartition("/")[0], task.logs_folder, context.user)
    argv = ("/bin/sh", "-c", _MAKE_FOLDERS, "sh", *folders)
    request = ExecRequest(id=context.in_round(_SETUP_EXECUTION), argv=argv, cwd="/", user="root")
    if failure := await run_step(context.services.tools, devbox_id, request):
        raise failure_of_setup("SetupError", f"the agent's folders could not be made: {failure}")


async def _put_anew(context: TrialContext, path: str, content: bytes) -> None:
    """Write a file of the agent's; raises TrialFailed where memory of the devbox is full that it leads to."""
    tools = context.services.tools
    try:
        opening = tools.host.open_fresh(context.the_devbox.id, path, "root", 0o755)
        await write_content(await opening, path, content)
    except DiskFull as error:
        if is_short(tools.settings.data):
            raise
        raise TrialFailed("scenario", "SetupError", error.message) from error


async def run_agent(context: TrialContext, launch: Launch) -> None:
    """The agent at work, from its start to its end, and everything it started with it."""
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
        state = await _known_execution(context) or await context.services.tools.host.exec(devbox_id, request)
        async with agent_deadline(context, seconds, state) as deadline:
            state, is_late = await _wait_for_end(context, state, max(_LEAST_SECONDS, seconds + waits))
        if isolation != "live":
            await _stop_everything(context)
    except (BenchyardError, OSError):
        # What it spent is spent, whatever became of its devbox.
        await settle_usage(context)
        raise
    printed = await _last_output(context, state)
    await settle_usage(context, printed)
    await _judge(context, state, printed, is_late=is_late or deadline.rang)


async def _known_execution(context: TrialContext) -> ExecutionState | None:
    """The agent's execution, if an earlier server began it."""
    try:
        return await context.services.tools.host.execution(
            context.the_devbox.id, context.in_round(AGENT_EXECUTION)
        )
    except NotFound:
        return None


async def _wait_for_end(
    context: TrialContext, state: ExecutionState, seconds: float
) -> tuple[ExecutionState, bool]:
    """The agent's execution when it is over, or when it should have been for a while."""
    try:
        # Counted anew after a restart: what its clock says of the time before may be wrong by days.
        async with asyncio.timeout(seconds + _GRACE_SECONDS):
            return await wait_for_completion(context.services.tools, state), False
    except TimeoutError:
        # Root in a devbox can stop whoever would end it; the disk is scored as it is now.
        return state, True


async def _stop_everything(context: TrialContext) -> None:
    """No work goes on after the bell: whatever the agent left running is killed."""
    devbox = await context.services.tools.live_devboxes.get(context.the_devbox.id)
    if devbox.status is DevboxStatus.RUNNING:
        try:
            await context.services.tools.host.rooms.kill_all(devbox.id)
        except BenchyardError:
            # It may have ended meanwhile; else the error is a real one.
            if (await context.services.tools.live_devboxes.get(devbox.id)).status is DevboxStatus.RUNNING:
                raise


async def _judge(context: TrialContext, state: ExecutionState, printed: str, *, is_late: bool) -> None:
    """Note how the agent ended, and collect what it left; raises TrialFailed where it failed."""
    tools, devbox_id = context.services.tools, context.the_devbox.id
    context.devbox = await _look_at_devbox(context)
    if context.devbox.status in ENDED:
        raise failure_of_devbox(context.devbox)
    if lost_output := failure_of_output(state.hint):
        raise lost_output
    timed_out = is_late or state.timed_out
    if timed_out:
        context.end_by("timeout")
    _note_end(context, state)
    await collect_logs(context)
    error, _ = await tools.host.tail(devbox_id, context.in_round(AGENT_EXECUTION), "stderr", _TAIL_LINES)
    # Before anything is cut off: half of a secret is one too.
    clean = await trial_scrubber(context)
    error = clean.text(error)
    ended = AgentEnd(
        exit_status=state.exit_status or 0,
        signal=state.signal,
        timed_out=timed_out,
        hint=state.hint,
        stderr_tail=error,
        stdout_tail=clean.text(printed),
        calls=int(context.trial.usage.get("model_calls", 0)),
        last_error=clean.text(context.last_error) if context.last_error else None,
    )
    if context.ended_by is None and (reason := context.inputs.agent.judge(ended)):
        raise TrialFailed("agent", "AgentError", reason)


async def _last_output(context: TrialContext, state: ExecutionState) -> str:
    """The end of what the agent printed, from the beginning of a line."""
    if context.inputs.route is None:
        return ""
    start = max(0, state.stdout_bytes - _STDOUT_BYTES)
    pieces = context.services.tools.host.output(
        context.the_devbox.id, state.id, "stdout", start, follow=False
    )
    text = b"".join([piece async for piece in pieces])[-_STDOUT_BYTES:].decode(errors="replace")
    return text.partition("\n")[2] if start else text


async def score(context: TrialContext) -> ContractResult:
    """What the scorers say of what the agent left; raises TrialFailed where they say nothing."""
    runs, run_id = context.services.runs, str(context.trial.scenario_run_id)
    if context.run is None or context.run.result_of(context.round) is None:
        request = context.in_round(f"trial-{context.trial.id}")
        await retry_store(partial(runs.score, run_id, request, is_job=True))
    context.run = await runs.settled(run_id)
    result = context.run.result_of(context.round)
    if result is None:
        raise failure_of_devbox(await _look_at_devbox(context))
    if result.rounds:
        context.note_round(score=result.rounds[-1].score, rewards=result.rounds[-1].rewards)
    wrong = [each for each in result.scoring_function_results if each.state == "error"]
    if not wrong:
        return result
    devbox = await _look_at_devbox(context)
    if devbox.status is DevboxStatus.FAILURE:
        raise failure_of_devbox(devbox)
    # What the answer did to its scorers is no error: this is theirs, or the machine's.
    told = f"scorer {wrong[0].scoring_function_name!r}: {wrong[0].reason}"
    raise TrialFailed("scorer", "ScorerError", told)


async def begin_round(context: TrialContext) -> None:
    """Go on to the next round, for which the devbox was made ready when the last one was scored."""
    context.next_round()
    following = context.run.next_round if context.run else None
    if following and following.number == context.round and following.failure:
        told = f"step {following.name!r}: {following.failure}"
        if following.failure_cause == "scenario":
            raise TrialFailed("scenario", "SetupError", told, is_proved=True)
        if following.failure_cause == "machine":
            raise TrialFailed("infrastructure", "SetupError", told)
        raise failure_of_setup(
            "SetupError", told, is_disk_full=is_short(context.services.tools.settings.data)
        )
    if context.is_scored:
        await _recall(context)


async def devbox_failure(context: TrialContext, error: DevboxGone) -> TrialFailed:
    """Why the devbox is gone that something was asked of."""
    if context.devbox is None:
        return failure_of_error(error)
    devbox = await context.services.tools.live_devboxes.wait(context.devbox.id, _has_ended, _GRACE_SECONDS)
    return failure_of_devbox(devbox) if devbox.status in ENDED else failure_of_error(error)


async def _look_at_devbox(context: TrialContext) -> Devbox:
    """The devbox as it is; the host sees that one has ended a moment before its record tells why."""
    tools, devbox_id = context.services.tools, context.the_devbox.id
    devbox = await tools.live_devboxes.get(devbox_id)
    if devbox_id in tools.host.running() or devbox.status in SUSPENDED:
        return devbox
    return await tools.live_devboxes.wait(devbox_id, _has_ended, _GRACE_SECONDS)


def _is_up(devbox: Devbox) -> bool:
    return devbox.status not in BOOTING


def _has_ended(devbox: Devbox) -> bool:
    return devbox.status in ENDED
