"""The stages of a trial. Each finds what it began before, or begins it: none does anything twice."""

import asyncio
from functools import partial

from benchyard.agents.base import PROMPT_FILE, AgentEnd, Launch, contract_env
from benchyard.devboxes.inside import Folder
from benchyard.engine.descriptors import write_content
from benchyard.engine.devboxes import Asked
from benchyard.engine.disk_space import is_short
from benchyard.engine.egress import planned, require_gateway
from benchyard.engine.ids import id_from_bytes
from benchyard.engine.jobs.collecting import collect
from benchyard.engine.jobs.failures import TrialFailed, of_devbox, of_error, of_output, of_setup
from benchyard.engine.jobs.spending import ringing, settle
from benchyard.engine.jobs.turn import AGENT_EXECUTION
from benchyard.engine.jobs.way import Way, scrubber
from benchyard.engine.journal import now_ms
from benchyard.engine.model_keys import other_secrets
from benchyard.engine.runs.starting import RUN_PREFIX, Start
from benchyard.engine.setup import completed, run_step
from benchyard.engine.states import BOOTING, ENDED, SUSPENDED
from benchyard.engine.work import until_kept
from benchyard.errors import BenchyardError, BuildFailed, DevboxGone, DiskFull, NotFound
from benchyard.hosts.host import ExecRequest, ExecutionState
from benchyard.hosts.uninterrupted import uninterrupted
from benchyard.models.devboxes import Devbox, DevboxStatus
from benchyard.models.jobs import JOB_KEY, TRIAL_KEY
from benchyard.models.launch import KEEP_ALIVE_MAX_SECONDS, LaunchParameters
from benchyard.models.runs import REFERENCE_KEY, ContractResult, RunProfile, ScenarioRun
from benchyard.models.scenarios import of_round

PROVISION_SECONDS = 600.0
SETUP_SECONDS = 360.0
_SETUP_EXECUTION = "agent-setup"
_LEAST_SECONDS = 1.0
_GRACE_SECONDS = 30.0
"""After the bell: the devbox itself ends the agent's commands; if it does not, we do."""
_TAIL_LINES = 20
_STDOUT_BYTES = 64 * 1024

_MAKE_FOLDERS = 'mkdir -p -- "$1" "$2" && chmod 755 -- "$1" "$2" && chown -- "$3:" "$2"'


def _waits(way: Way) -> float:
    """How much longer that may be, if its model's provider lets it wait."""
    return way.cast.job.orchestrator.waits if way.cast.route else 0.0


async def provision(way: Way) -> None:
    """The scenario run and its devbox, up and running."""
    desk, trial = way.desk, way.trial
    run_id = id_from_bytes(RUN_PREFIX, desk.tools.vault.derive("trial-runs", trial.id))
    # Before it is there: whoever cancels the trial must know what to end.
    way.note(scenario_run_id=run_id)
    if not way.is_fresh:
        way.run = await until_kept(partial(desk.runs.records.find, run_id))
    if way.run is None:
        way.run = await _begun(way, run_id)
    way.note(devbox_id=way.run.devbox_id)
    way.devbox = await desk.tools.roster.wait(way.run.devbox_id, _is_up, PROVISION_SECONDS * way.multiplier)
    if way.devbox.status in BOOTING:
        raise TrialFailed("infrastructure", "ProvisionTimeout", "the devbox did not come up in time")
    way.note(network=planned(desk.tools, way.devbox).word(asks_models=way.cast.route is not None))
    if way.is_scored:
        await _recall(way)
    elif way.devbox.status in ENDED:
        raise of_devbox(way.devbox)


async def _begun(way: Way, run_id: str) -> ScenarioRun:
    """A new run; where it is refused there is none that could be looked up."""
    try:
        await _check_secrets(way)
        await _build(way)
        return await uninterrupted(until_kept(partial(way.desk.runs.begin, Asked(run_id), _start(way))))
    except BuildFailed as error:
        way.note(scenario_run_id=None)
        raise of_setup("EnvironmentBuildFailed", error.message) from error
    except (BenchyardError, TrialFailed):
        way.note(scenario_run_id=None)
        raise


async def _build(way: Way) -> None:
    """See to it that the images of the scenario are built, and say so while that takes its time."""
    supplies, scenario = way.desk.runs.supplies, way.cast.scenario
    unbuilt = await supplies.unbuilt(scenario)
    if not unbuilt:
        await supplies.built(scenario)
        return
    begun = now_ms()
    way.note(activity=", ".join(unbuilt))
    way.desk.ledger.soon(way.trial)
    try:
        await supplies.built(scenario)
    finally:
        way.note(activity=None, preparing_ms=max(0, now_ms() - begun))
    way.desk.ledger.soon(way.trial)


async def _check_secrets(way: Way) -> None:
    """Raise TrialFailed for a secret that is gone since the job began: that is not the scenario's failure."""
    environment = way.config.agent_environment
    try:
        for name in ((environment and environment.secrets) or {}).values():
            await until_kept(partial(way.desk.tools.secrets.value, name))
    except NotFound as error:
        raise TrialFailed("infrastructure", "SecretGone", error.message) from error


async def _recall(way: Way) -> None:
    """What an earlier server knew of the agent's end, and may not have kept."""
    if state := await _known(way):
        _note_end(way, state)
        if state.timed_out:
            way.end_by("timeout")


def _note_end(way: Way, state: ExecutionState) -> None:
    """Note how and when the agent ended in this round."""
    way.note(exit_status=state.exit_status)
    times = {"start_time_ms": state.start_ms, "end_time_ms": state.end_ms}
    way.note_round(exit_status=state.exit_status, **times)


def _start(way: Way) -> Start:
    job, trial = way.cast.job, way.trial
    environment = way.config.agent_environment
    scenario = way.cast.scenario
    rounds = [of_round(scenario, number) for number in range(1, scenario.n_rounds + 1)]
    scorers = sum(len(each.scoring_contract.scoring_function_parameters) for each in rounds)
    seconds = PROVISION_SECONDS + SETUP_SECONDS * len(rounds) + scenario.scorer_seconds * scorers
    agents = sum(way.limit_of(each) for each in (rounds[:1] if way.is_shared else rounds)) + _waits(way)
    # Scorers that fail are tried again, and then with the reference while the devbox waits.
    lifetime = min(KEEP_ALIVE_MAX_SECONDS, int(agents + 4 * seconds * max(1.0, way.multiplier)))
    return Start(
        scenario=scenario,
        profile=RunProfile(
            env_vars=dict(environment.environment_variables or {}) if environment else None,
            secrets=other_secrets(way.cast.agent, way.cast.route, environment) or None,
            purpose=f"trial {trial.id} of job {job.id}",
            # A trial ends its devbox itself; this is for the case that nobody is left to do it.
            launch_parameters=LaunchParameters(keep_alive_time_seconds=lifetime),
        ),
        benchmark_run_id=job.benchmark_run_ids[trial.agent],
        metadata={
            JOB_KEY: job.id,
            TRIAL_KEY: trial.id,
            "benchyard.attempt": str(trial.attempt),
            **({REFERENCE_KEY: way.cast.agent.name} if way.cast.agent.is_reference else {}),
        },
        shown=way.cast.shown,
        scorer_multiplier=way.multiplier,
    )


async def set_up(way: Way, launch: Launch) -> None:
    """What the agent finds in its devbox: the prompt, its own files, and a folder for its logs."""
    task, devbox_id = way.task(), way.the_devbox.id
    if way.cast.route is not None:
        require_gateway(way.desk.tools, way.the_devbox)
        # Also for an agent that works already: the gateway may have been killed with the server.
        await way.desk.access.open(way.cast.job, way.trial, devbox_id, way.cast.route, way.agent_seconds())
    if await _known(way) is not None:
        return
    try:
        async with asyncio.timeout(SETUP_SECONDS * way.multiplier):
            if way.round == 1:
                # Later the shell is whatever the agent made of it, and the folders are there.
                await _make_folders(way)
            for path, content in {**launch.files, task.prompt_file: task.prompt.encode()}.items():
                await _put_anew(way, path, content)
            if way.round == 1 and not way.desk.tools.host.pretends:
                # What is ours is nothing that the agent did.
                await way.desk.tools.host.rooms.mark(devbox_id)
    except TimeoutError as error:
        raise TrialFailed("infrastructure", "SetupTimeout", "the agent was not set up in time") from error


async def _make_folders(way: Way) -> None:
    task, devbox_id = way.task(), way.the_devbox.id
    wanted = [Folder(PROMPT_FILE.rpartition("/")[0]), Folder(task.logs_folder, owner=way.user)]
    if await way.desk.tools.host.rooms.make_folders(devbox_id, wanted):
        return
    folders = (PROMPT_FILE.rpartition("/")[0], task.logs_folder, way.user)
    argv = ("/bin/sh", "-c", _MAKE_FOLDERS, "sh", *folders)
    request = ExecRequest(id=way.numbered(_SETUP_EXECUTION), argv=argv, cwd="/", user="root")
    if failure := await run_step(way.desk.tools, devbox_id, request):
        raise of_setup("SetupError", f"the agent's folders could not be made: {failure}")


async def _put_anew(way: Way, path: str, content: bytes) -> None:
    """Write a file of the agent's; raises TrialFailed where memory of the devbox is full that it leads to."""
    tools = way.desk.tools
    try:
        opening = tools.host.open_fresh(way.the_devbox.id, path, "root", 0o755)
        await write_content(await opening, path, content)
    except DiskFull as error:
        if is_short(tools.settings.data):
            raise
        raise TrialFailed("scenario", "SetupError", error.message) from error


async def run_agent(way: Way, launch: Launch) -> None:
    """The agent at work, from its start to its end, and everything it started with it."""
    task, devbox_id = way.task(), way.the_devbox.id
    isolation = way.cast.scenario.isolation
    seconds = way.agent_seconds()
    waits = _waits(way)
    request = ExecRequest(
        id=way.numbered(AGENT_EXECUTION),
        command=f"exec < {task.prompt_file}\n{launch.command}",
        env={**contract_env(task), **launch.env},
        cwd=task.working_directory,
        timeout_seconds=max(_LEAST_SECONDS, seconds + waits),
        strict=isolation != "live",
    )
    try:
        state = await _known(way) or await way.desk.tools.host.exec(devbox_id, request)
        async with ringing(way, seconds, state) as bell:
            state, is_late = await _over(way, state, max(_LEAST_SECONDS, seconds + waits))
        if isolation != "live":
            await _stop_everything(way)
    except (BenchyardError, OSError):
        # What it spent is spent, whatever became of its devbox.
        await settle(way)
        raise
    printed = await _last_output(way, state)
    await settle(way, printed)
    await _judge(way, state, printed, is_late=is_late or bell.rang)


async def _known(way: Way) -> ExecutionState | None:
    """The agent's execution, if an earlier server began it."""
    try:
        return await way.desk.tools.host.execution(way.the_devbox.id, way.numbered(AGENT_EXECUTION))
    except NotFound:
        return None


async def _over(way: Way, state: ExecutionState, seconds: float) -> tuple[ExecutionState, bool]:
    """The agent's execution when it is over, or when it should have been for a while."""
    try:
        # Counted anew after a restart: what its clock says of the time before may be wrong by days.
        async with asyncio.timeout(seconds + _GRACE_SECONDS):
            return await completed(way.desk.tools, state), False
    except TimeoutError:
        # Root in a devbox can stop whoever would end it; the disk is scored as it is now.
        return state, True


async def _stop_everything(way: Way) -> None:
    """No work goes on after the bell: whatever the agent left running is killed."""
    devbox = await way.desk.tools.roster.get(way.the_devbox.id)
    if devbox.status is DevboxStatus.RUNNING:
        try:
            await way.desk.tools.host.rooms.kill_all(devbox.id)
        except BenchyardError:
            # It may have ended meanwhile; else the error is a real one.
            if (await way.desk.tools.roster.get(devbox.id)).status is DevboxStatus.RUNNING:
                raise


async def _judge(way: Way, state: ExecutionState, printed: str, *, is_late: bool) -> None:
    """Note how the agent ended, and collect what it left; raises TrialFailed where it failed."""
    tools, devbox_id = way.desk.tools, way.the_devbox.id
    way.devbox = await _seen(way)
    if way.devbox.status in ENDED:
        raise of_devbox(way.devbox)
    if lost_output := of_output(state.hint):
        raise lost_output
    timed_out = is_late or state.timed_out
    if timed_out:
        way.end_by("timeout")
    _note_end(way, state)
    await collect(way)
    error, _ = await tools.host.tail(devbox_id, way.numbered(AGENT_EXECUTION), "stderr", _TAIL_LINES)
    # Before anything is cut off: half of a secret is one too.
    clean = await scrubber(way)
    error = clean.text(error)
    ended = AgentEnd(
        exit_status=state.exit_status or 0,
        signal=state.signal,
        timed_out=timed_out,
        hint=state.hint,
        stderr_tail=error,
        stdout_tail=clean.text(printed),
        calls=int(way.trial.usage.get("model_calls", 0)),
        last_error=clean.text(way.last_error) if way.last_error else None,
    )
    if way.ended_by is None and (reason := way.cast.agent.judge(ended)):
        raise TrialFailed("agent", "AgentError", reason)


async def _last_output(way: Way, state: ExecutionState) -> str:
    """The end of what the agent printed, from the beginning of a line."""
    if way.cast.route is None:
        return ""
    start = max(0, state.stdout_bytes - _STDOUT_BYTES)
    pieces = way.desk.tools.host.output(way.the_devbox.id, state.id, "stdout", start, follow=False)
    text = b"".join([piece async for piece in pieces])[-_STDOUT_BYTES:].decode(errors="replace")
    return text.partition("\n")[2] if start else text


async def score(way: Way) -> ContractResult:
    """What the scorers say of what the agent left; raises TrialFailed where they say nothing."""
    runs, run_id = way.desk.runs, str(way.trial.scenario_run_id)
    if way.run is None or way.run.result_of(way.round) is None:
        request = way.numbered(f"trial-{way.trial.id}")
        await until_kept(partial(runs.score, run_id, request, is_job=True))
    way.run = await runs.settled(run_id)
    result = way.run.result_of(way.round)
    if result is None:
        raise of_devbox(await _seen(way))
    if result.rounds:
        way.note_round(score=result.rounds[-1].score, rewards=result.rounds[-1].rewards)
    wrong = [each for each in result.scoring_function_results if each.state == "error"]
    if not wrong:
        return result
    devbox = await _seen(way)
    if devbox.status is DevboxStatus.FAILURE:
        raise of_devbox(devbox)
    # What the answer did to its scorers is no error: this is theirs, or the machine's.
    told = f"scorer {wrong[0].scoring_function_name!r}: {wrong[0].reason}"
    raise TrialFailed("scorer", "ScorerError", told)


async def begin_round(way: Way) -> None:
    """Go on to the next round, for which the devbox was made ready when the last one was scored."""
    way.next_round()
    following = way.run.next_round if way.run else None
    if following and following.number == way.round and following.failure:
        told = f"step {following.name!r}: {following.failure}"
        if following.failure_cause == "scenario":
            raise TrialFailed("scenario", "SetupError", told, is_proved=True)
        if following.failure_cause == "machine":
            raise TrialFailed("infrastructure", "SetupError", told)
        raise of_setup("SetupError", told, is_disk_full=is_short(way.desk.tools.settings.data))
    if way.is_scored:
        await _recall(way)


async def lost(way: Way, error: DevboxGone) -> TrialFailed:
    """Why the devbox is gone that something was asked of."""
    if way.devbox is None:
        return of_error(error)
    devbox = await way.desk.tools.roster.wait(way.devbox.id, _has_ended, _GRACE_SECONDS)
    return of_devbox(devbox) if devbox.status in ENDED else of_error(error)


async def _seen(way: Way) -> Devbox:
    """The devbox as it is; the host sees that one has ended a moment before its record tells why."""
    tools, devbox_id = way.desk.tools, way.the_devbox.id
    devbox = await tools.roster.get(devbox_id)
    if devbox_id in tools.host.running() or devbox.status in SUSPENDED:
        return devbox
    return await tools.roster.wait(devbox_id, _has_ended, _GRACE_SECONDS)


def _is_up(devbox: Devbox) -> bool:
    return devbox.status not in BOOTING


def _has_ended(devbox: Devbox) -> bool:
    return devbox.status in ENDED
