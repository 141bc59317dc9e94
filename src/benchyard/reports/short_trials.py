"""Trials with only the values that counts and comparisons need: faster to read than whole records."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

from benchyard.models.jobs import ENDED_JOBS, Job
from benchyard.models.trials import FailureReason, Trial, TrialState

SHORT_PATHS: Sequence[tuple[str | int, ...]] = (
    ("agent",),
    ("scenario",),
    ("scenario_id",),
    ("scenario_name",),
    ("attempt",),
    ("retry",),
    ("state",),
    ("is_superseded",),
    ("score",),
    ("failure", "kind"),
    ("suspicions", 0),
    ("conditions", 0),
    ("start_time_ms",),
    ("end_time_ms",),
    ("preparing_ms",),
    ("usage",),
    ("rewards",),
    ("scenario_run_id",),
    ("network",),
    ("scoring_network",),
    ("isolation",),
    ("scored_revision",),
)
"""Values of a stored trial that a short one has, in the order of a row."""
_STATES = {each.value: each for each in TrialState}


def short_trials(job: Job, rows: Iterable[Sequence[Any]]) -> list[Trial]:
    """Return the trials of a job, of rows with the values of `SHORT_PATHS`.

    Messages, stages, rounds and ids are left out. Trials that were still waiting at the end of the job are
    shown as canceled; a row that makes no sense is left out.
    """
    blank = Trial(id="", create_time_ms=job.create_time_ms, job_id=job.id, scenario_id="", scenario_name="")
    found = [trial for row in rows if (trial := _trial(blank, row)) is not None]
    found.sort(key=lambda trial: (trial.place, trial.retry))
    if job.state not in ENDED_JOBS:
        return found
    now = round(time.time() * 1000)
    return [trial if trial.has_ended else trial.never_begun(now) for trial in found]


def _trial(blank: Trial, row: Sequence[Any]) -> Trial | None:
    agent, scenario, id, name, attempt, retry, state, is_superseded, score, failure, *rest = row
    suspicion, condition, start, end, preparing, usage, rewards, run_id, *setup = rest
    if state not in _STATES or not isinstance(id, str) or not isinstance(name, str):
        return None
    network, scoring_network, isolation, revision = setup
    # A copy is not validated again, which would take most of the time.
    return blank.model_copy(
        update={
            "agent": agent or 0,
            "scenario": scenario or 0,
            "scenario_id": id,
            "scenario_name": name,
            "attempt": 1 if attempt is None else attempt,
            "retry": retry or 0,
            "state": _STATES[state],
            "is_superseded": bool(is_superseded),
            "score": score,
            "failure": None if failure is None else _reason(failure),
            "suspicions": [] if suspicion is None else [suspicion],
            "conditions": [] if condition is None else [condition],
            "start_time_ms": start,
            "end_time_ms": end,
            "preparing_ms": preparing or 0,
            "usage": usage or {},
            "rewards": rewards or {},
            "scenario_run_id": run_id,
            "network": network,
            "scoring_network": scoring_network,
            "isolation": isolation,
            "scored_revision": revision,
        }
    )


def _reason(kind: Any) -> FailureReason:
    return FailureReason.model_construct(exception_type="", exception_message="", kind=kind)
