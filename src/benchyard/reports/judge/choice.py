"""Choice of the trials of a job that a judge is asked about, made in a worker of trials and findings."""

import gc
import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO

from benchyard.models.jobs import Job
from benchyard.models.reports.judgements import JudgeSelection
from benchyard.models.reports.problems import TrialFindings
from benchyard.models.trials import Trial
from benchyard.reports.problems.digests import ended_trials, failed_by, stored_findings, version_of
from benchyard.reports.problems.job_problems import job_problems

EXPLAINING = frozenset({"failed-stage", "limit-reached", "scorer-error"})
"""Signals that are causes by themselves; others only where they go with failing in the job."""


@dataclass(frozen=True)
class TrialChoice:
    """The chosen trials, each with its run, and the numbers of the others."""

    chosen: list[tuple[str, str | None]] = field(default_factory=list)
    n_matching: int = 0
    n_explained: int = 0
    n_unread: int = 0


def choose_trials(
    content: BinaryIO,
    size: int,
    job: Mapping[str, Any],
    only: JudgeSelection,
    agents: Sequence[int] | None,
    scenario: str | None,
    limit: int,
) -> bytes:
    """Return the choice as JSON.

    The content has the trials, of this size, and then the findings; each is a line of JSON.
    """
    gc.disable()
    trials = ended_trials(content.read(size).splitlines())
    findings = {each.trial_id: each for each in stored_findings(content)}
    wanted = [
        each
        for each in trials
        if (agents is None or each.agent in agents)
        and (scenario is None or scenario in (each.scenario_id, each.scenario_name))
    ]
    return json.dumps(
        asdict(chosen_of(Job.model_validate(job), trials, findings, wanted, only, limit))
    ).encode()


def chosen_of(
    job: Job,
    trials: Sequence[Trial],
    findings: Mapping[str, TrialFindings],
    wanted: Sequence[Trial],
    only: JudgeSelection,
    limit: int,
) -> TrialChoice:
    """Return the choice among some trials of a job.

    Cancelled trials are never chosen: nobody failed. A failed trial is explained by a signal that is a cause
    by itself, or that goes with failing in this job.
    """
    matching = [each for each in wanted if _is_judged(each, only)]
    n_explained = n_unread = 0
    if only == "unexplained":
        explaining = EXPLAINING | _connected(job, trials, findings)
        unexplained = []
        for each in matching:
            found = findings.get(each.id)
            if found is None or found.version != version_of(each):
                n_unread += 1
            elif explaining & {one.signal for one in found.findings}:
                n_explained += 1
            else:
                unexplained.append(each)
        matching = unexplained
    chosen = [(each.id, each.scenario_run_id) for each in _spread(matching)[:limit]]
    return TrialChoice(chosen, len(matching), n_explained, n_unread)


def _is_judged(trial: Trial, only: JudgeSelection) -> bool:
    kind = failed_by(trial)
    if kind == "cancelled" or (kind is None and trial.counted_score is None):
        return False
    return only == "all" or kind is not None


def _connected(job: Job, trials: Sequence[Trial], findings: Mapping[str, TrialFindings]) -> set[str]:
    """Return the signals that go with failing inside scenarios and agents of the job."""
    view = job_problems(job, trials, findings)
    return {
        each.signal
        for each in view.problems
        if each.association is not None and each.association.goes_with == "failing"
    }


def _spread(trials: Sequence[Trial]) -> list[Trial]:
    """Return trials in an order in which each beginning has many scenarios and agents; always the same."""
    by_place: dict[tuple[int, int], list[Trial]] = defaultdict(list)
    for each in trials:
        by_place[each.scenario, each.agent].append(each)
    ranked = [
        (rank, _mixed(each.id), each)
        for rows in by_place.values()
        for rank, each in enumerate(sorted(rows, key=lambda one: _mixed(one.id)))
    ]
    return [each for _, _, each in sorted(ranked, key=lambda row: row[:2])]


def _mixed(id: str) -> str:
    return hashlib.blake2b(id.encode(), digest_size=8).hexdigest()
