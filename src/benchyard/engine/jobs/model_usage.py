"""Model usage of a trial: its agent's waits, spending and trajectory, also after an interruption."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass

from benchyard.devboxes.base import Kill
from benchyard.engine.background import retry_store
from benchyard.engine.clock import now_ms
from benchyard.engine.devboxes.secrets import scrubber_of
from benchyard.engine.jobs.model_access import TrialModelAccess
from benchyard.engine.jobs.trial_context import AGENT_EXECUTION, TrialContext, prompt_of, trial_scrubber
from benchyard.engine.runs.model_access import TrajectoryContext, usage_of
from benchyard.errors import BenchyardError
from benchyard.gateway.grants import GrantUsage
from benchyard.gateway.trajectory.builder import TrajectoryOwner
from benchyard.hosts.host import ExecutionState
from benchyard.models.jobs import AgentConfig, Job
from benchyard.models.scenarios import of_round
from benchyard.models.trials import Trial

_log = logging.getLogger(__name__)


def about_of(config: AgentConfig, trial: Trial, prompt: str) -> TrajectoryOwner:
    """Return the description of a trial for its trajectory."""
    return TrajectoryOwner(
        name=config.name,
        version=config.version or "unknown",
        model=config.model_name,
        session_id=trial.id,
        prompt=prompt,
        extra={"job_id": trial.job_id, "scenario": trial.scenario_name, "attempt": trial.attempt},
    )


async def settle_cut_short(access: TrialModelAccess, job: Job, trial: Trial) -> Trial:
    """End the token of an interrupted trial, and store its spending and trajectory; returns the trial."""
    is_told = bool(trial.usage) or not access.grants.records.file(trial.id).exists()
    if is_told and not access.grants.knows(trial.id):
        return trial
    try:
        return trial.model_copy(update={"usage": usage_of(await _end_grant(access, job, trial))})
    except BenchyardError as error:
        # A gateway that does not answer lets no calls through either.
        _log.warning("trial %s: what it spent is not known: %s", trial.id, error)
        return trial


async def _end_grant(access: TrialModelAccess, job: Job, trial: Trial) -> GrantUsage:
    run_id = str(trial.scenario_run_id)
    run = await retry_store(access.spending.runs.find, run_id)
    if run is None:
        # Interrupted before the trial had a run that could keep all this.
        return await access.grants.close(trial.id)
    revision = job.scenario_revisions[trial.scenario]
    scenario = await retry_store(access.scenarios.at, trial.scenario_id, revision)
    config = job.spec.agent_configs[trial.agent]
    # The run's own number is that of the last scored round.
    number = min(scenario.n_rounds, run.round + (run.result_of(run.round) is not None))
    about = about_of(config, trial, prompt_of(of_round(scenario, number)))
    environment = config.agent_environment
    # All secrets that the trial may have had, whichever of its keys it used.
    names = [*((environment and environment.secrets) or {}).values(), *access.keys.usual_names()]
    scrubber = await scrubber_of(access.tools, trial.devbox_id or "", names)
    return await access.spending.settle(run_id, trial.id, TrajectoryContext(about, scrubber, number=number))


@dataclass
class AgentDeadline:
    """Deadline of an agent: its time is extended by its waits for the provider."""

    rang: bool = False


@contextlib.asynccontextmanager
async def agent_deadline(
    context: TrialContext, seconds: float, state: ExecutionState
) -> AsyncIterator[AgentDeadline]:
    """Kill the agent, within this context, when its time and its waits are over.

    The devbox itself kills it too, but only after the longest possible waits.
    """
    deadline = AgentDeadline()
    if context.inputs.route is None:
        yield deadline
        return
    if state.status == "completed":
        deadline.rang = await _was_ended_in_time(context, seconds, state)
        yield deadline
        return
    # An agent begun under an earlier server has the rest of its time.
    ran = max(0.0, (now_ms() - state.start_ms) / 1000)
    ringer = asyncio.create_task(_end_in_time(context, seconds - ran, deadline))
    try:
        yield deadline
    finally:
        ringer.cancel()
        await asyncio.gather(ringer, return_exceptions=True)


async def _end_in_time(context: TrialContext, seconds: float, deadline: AgentDeadline) -> None:
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    await asyncio.sleep(seconds)
    left = end + await _seconds_waited(context) - clock()
    while left > 0:
        await asyncio.sleep(left)
        left = end + await _seconds_waited(context) - clock()
    deadline.rang = True
    try:
        await context.tools.host.control(
            context.the_devbox.id, context.in_round(AGENT_EXECUTION), Kill(tree=True)
        )
    except BenchyardError as error:
        # The agent has ended meanwhile, or the devbox will kill it a little later.
        _log.info("trial %s: its agent could not be ended: %s", context.trial.id, error)


async def _seconds_waited(context: TrialContext) -> float:
    try:
        waited_ms = (await context.access.grants.spent(context.trial.id)).rate_limited_ms
        # Each step has its own time: leave out the waits of earlier ones.
        return (waited_ms if context.is_shared else waited_ms - context.waited_ms) / 1000
    except BenchyardError as error:
        _log.warning("trial %s: how long it waited is not known: %s", context.trial.id, error)
        return 0.0


async def _was_ended_in_time(context: TrialContext, seconds: float, state: ExecutionState) -> bool:
    """Tell whether an earlier server killed the agent at the end of its time without noting it."""
    ran = ((state.end_ms or 0) - state.start_ms) / 1000
    return state.signal == signal.SIGKILL and ran >= seconds + await _seconds_waited(context)


async def settle_usage(context: TrialContext, printed: str = "") -> None:
    """End the agent's model access, and store its spending and trajectory with the run."""
    if context.inputs.route is None:
        return
    trial, task = context.trial, context.task()
    prompt = prompt_of(context.scenario) if task.continues else task.prompt
    about = about_of(context.config, trial, prompt)
    trajectory = TrajectoryContext(
        about, await trial_scrubber(context), context.inputs.agent.trailing(printed), number=context.round
    )
    spent = await context.access.spending.settle(str(trial.scenario_run_id), trial.id, trajectory)
    context.last_error = spent.last_error
    context.note(usage=usage_of(spent))
    if spent.over_budget:
        context.end_by("budget")
