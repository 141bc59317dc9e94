"""Plan of a job: agents x scenarios x attempts. Pure: the same job always has the same plan."""

import hashlib
import random
from collections.abc import Iterator, Sequence

from benchyard.engine.ids import id_from_bytes
from benchyard.errors import UsageError
from benchyard.models.jobs import MOST_TRIALS, Job, Selection
from benchyard.models.scenarios import Scenario
from benchyard.models.trials import Trial

TRIAL_PREFIX = "trl_"

Place = tuple[int, int, int]
"""Indexes of agent and scenario, and the number of the attempt."""


def places(job: Job) -> Iterator[Place]:
    """Yield all places of the plan in their order: agents go through the scenarios side by side."""
    for attempt in range(1, job.orchestrator.attempts + 1):
        for scenario in range(len(job.spec.scenario_ids)):
            for agent in range(len(job.spec.agent_configs)):
                yield agent, scenario, attempt


def first_trials(job: Job, names: Sequence[str], now_ms: int) -> list[Trial]:
    """Return the first trial of every place; `names` are those of the scenarios."""
    return [trial_at(job, names[place[1]], place, 0, now_ms) for place in places(job)]


def is_planned(job: Job, trials: Sequence[Trial]) -> bool:
    """Tell whether every place has a trial, which is not so if the job was ended during planning."""
    return len({trial.place for trial in trials}) == job.n_trials


def trial_at(job: Job, name: str, place: Place, retry: int, now_ms: int) -> Trial:
    """Return the trial of a place; the same arguments always make the same trial."""
    agent, scenario, attempt = place
    config = job.spec.agent_configs[agent]
    return Trial(
        id=trial_id(job.id, place, retry),
        create_time_ms=now_ms,
        job_id=job.id,
        agent=agent,
        scenario=scenario,
        scenario_id=job.spec.scenario_ids[scenario],
        scenario_name=name,
        agent_name=config.name,
        agent_label=config.label,
        benchmark_id=job.source.benchmark_id,
        attempt=attempt,
        retry=retry,
    )


def trial_id(job_id: str, place: Place, retry: int) -> str:
    """Return the id of a trial, computed from its place."""
    agent, scenario, attempt = place
    source = f"{job_id}/{agent}/{scenario}/{attempt}/{retry}"
    return id_from_bytes(TRIAL_PREFIX, hashlib.sha256(source.encode()).digest())


def retry_of(job: Job, trial: Trial, now_ms: int) -> Trial:
    """Return the trial that replaces one that did not count."""
    lost = trial.failure is not None and trial.failure.kind == "infrastructure"
    new = trial_at(job, trial.scenario_name, trial.place, trial.retry + 1, now_ms)
    return new.model_copy(update={"n_lost": trial.n_lost + 1 if lost else 0})


def sample_scenarios(scenarios: Sequence[Scenario], selection: Selection) -> list[Scenario]:
    """Return a random sample of the scenarios in their own order, or only the first ones of it."""
    chosen = list(scenarios)
    if selection.sample is not None and selection.sample < len(chosen):
        # Reproducible, not secret: the same seed gives the same sample.
        dice = random.Random(selection.seed or 0)  # noqa: S311
        kept = set(dice.sample(range(len(chosen)), selection.sample))
        chosen = [each for index, each in enumerate(chosen) if index in kept]
    return chosen if selection.limit is None else chosen[: selection.limit]


def scenarios_with_ids(scenarios: Sequence[Scenario], ids: Sequence[str]) -> list[Scenario]:
    """Return the scenarios with these ids, in their own order; raises UsageError for an unknown id."""
    missing = set(ids) - {scenario.id for scenario in scenarios}
    if missing:
        raise UsageError(f"the benchmark has no scenario {min(missing)[:100]}", field="spec.selection")
    wanted = set(ids)
    return [scenario for scenario in scenarios if scenario.id in wanted]


def check_job_size(job: Job) -> None:
    """Raise UsageError for a job without scenarios or with too many trials."""
    if not job.spec.scenario_ids:
        raise UsageError("there are no scenarios to run; add some to the benchmark", field="spec")
    if job.n_trials > MOST_TRIALS:
        raise UsageError(f"this job would have {job.n_trials} trials, and one may have {MOST_TRIALS}")
