"""Trials that are cut short: what they spent and said until then is kept with their runs all the same."""

import logging
from functools import partial

from benchyard.engine.given_secrets import scrubber_of
from benchyard.engine.jobs.access import Access
from benchyard.engine.jobs.way import prompt_of
from benchyard.engine.runs.spending import Telling, usage_of
from benchyard.engine.scrubbing import Scrubber
from benchyard.engine.work import until_kept
from benchyard.errors import BenchyardError
from benchyard.gateway.grants import Spent
from benchyard.gateway.trajectory.making import About
from benchyard.models.jobs import AgentConfig, Job
from benchyard.models.scenarios import of_round
from benchyard.models.trials import Trial

_log = logging.getLogger(__name__)


def about_of(config: AgentConfig, trial: Trial, prompt: str) -> About:
    """What a trajectory tells of a trial beside its calls."""
    return About(
        name=config.name,
        version=config.version or "unknown",
        model=config.model_name,
        session_id=trial.id,
        prompt=prompt,
        extra={"job_id": trial.job_id, "scenario": trial.scenario_name, "attempt": trial.attempt},
    )


async def settled(access: Access, job: Job, trial: Trial) -> Trial:
    """A trial that is cut short, with what it spent until now, and its trajectory kept; its token dies."""
    is_told = bool(trial.usage) or not access.grants.records.file(trial.id).exists()
    if is_told and not access.grants.knows(trial.id):
        return trial
    try:
        return trial.model_copy(update={"usage": usage_of(await _spent(access, job, trial))})
    except BenchyardError as error:
        # A gateway that does not answer lets nobody in either.
        _log.warning("trial %s: what it spent is not known: %s", trial.id, error)
        return trial


async def _spent(access: Access, job: Job, trial: Trial) -> Spent:
    run_id = str(trial.scenario_run_id)
    run = await until_kept(partial(access.spending.runs.find, run_id))
    if run is None:
        # It was cut before its run was there, to which all of it would belong.
        return await access.grants.close(trial.id)
    revision = job.scenario_revisions[trial.scenario]
    scenario = await until_kept(partial(access.scenarios.at, trial.scenario_id, revision))
    config = job.spec.agent_configs[trial.agent]
    # The run's own number is that of the round that was scored last.
    number = min(scenario.n_rounds, run.round + (run.result_of(run.round) is not None))
    about = about_of(config, trial, prompt_of(of_round(scenario, number)))
    telling = Telling(about, await _scrubber(access, config, trial), number=number)
    return await access.spending.settle(run_id, trial.id, telling)


async def _scrubber(access: Access, config: AgentConfig, trial: Trial) -> Scrubber:
    """What knows the secrets that the trial may have had, whichever of its keys it used."""
    environment = config.agent_environment
    given = [*((environment and environment.secrets) or {}).values()]
    return await scrubber_of(access.tools, trial.devbox_id or "", [*given, *access.keys.usual_names()])
