"""Reports that are made in a worker, of the stored trials of a job as lines of JSON.

A job may have 100,000 trials: to read and count them takes seconds, in which the server would answer nobody.
"""

import gc
import gzip
import json
import time
from collections.abc import Mapping
from typing import Any, BinaryIO

from pydantic import BaseModel, ValidationError

from benchyard.models.comparisons import ComparisonView
from benchyard.models.jobs import ENDED_JOBS, Job
from benchyard.models.runs import BenchmarkRun
from benchyard.models.trials import SuspectRule, Trial
from benchyard.reports.attempt_cells import read_cells, stage_lengths
from benchyard.reports.attempt_report import make_report
from benchyard.reports.outcomes import job_view
from benchyard.reports.paired_comparison import Side, compare, gate, n_tried
from benchyard.reports.report_subjects import job_subject, most_attempts, run_rows, run_subject
from benchyard.reports.short_trials import short_trials
from benchyard.reports.trial_table import make_table

_FAST = 1
"""Level of compression that costs a fraction of the counting."""


def make_job_view(
    content: BinaryIO, job: Mapping[str, Any], suspect: SuspectRule | None, *, with_scenarios: bool
) -> bytes:
    """Return the view of a job as compressed JSON."""
    gc.disable()
    whole = Job.model_validate(job)
    view = job_view(whole, read_trials(whole, content), with_scenarios=with_scenarios, suspect=suspect)
    return _packed(view)


def make_short_view(content: BinaryIO, job: Mapping[str, Any], suspect: SuspectRule | None) -> bytes:
    """Return a job without its scenarios as compressed JSON; the content has values of its trials."""
    gc.disable()
    whole = Job.model_validate(job)
    trials = short_trials(whole, json.loads(content.readline()))
    return _packed(job_view(whole, trials, with_scenarios=False, suspect=suspect))


def make_comparison(
    content: BinaryIO,
    jobs: list[Mapping[str, Any]],
    agents: list[int],
    suspect: SuspectRule | None,
    clusters: Mapping[str, str] | None,
    cluster_key: str | None,
    margin: float = 0.0,
) -> bytes:
    """Return a comparison as compressed JSON; the content has a line of values for each job."""
    gc.disable()
    a, b = (Job.model_validate(job) for job in jobs)
    trials = {
        job.id: short_trials(job, json.loads(content.readline())) for job in {a.id: a, b.id: b}.values()
    }
    sides = [
        Side(
            job,
            agent,
            [trial for trial in trials[job.id] if trial.agent == agent],
            suspect or job.orchestrator.suspect_rule,
        )
        for job, agent in zip((a, b), agents, strict=True)
    ]
    return _packed(compare(sides[0], sides[1], clusters, cluster_key, margin))


def make_gate(
    content: BinaryIO, margin: float, rule: SuspectRule, max_unscored: str, *, with_scenarios: bool
) -> bytes:
    """Return the verdict of a gate as compressed JSON; the content has a comparison as compressed JSON.

    `max_unscored` is a number of attempts, or a share of them such as 5%.
    """
    gc.disable()
    comparison = ComparisonView.model_validate_json(gzip.decompress(content.read()))
    number = float(max_unscored.removesuffix("%"))
    allowed = number * n_tried(comparison) / 100 if max_unscored.endswith("%") else number
    found = gate(comparison, margin, rule, allowed)
    if not with_scenarios:
        short = comparison.model_copy(update={"scenarios": []})
        found = found.model_copy(update={"comparison": short})
    return _packed(found)


def make_job_report(
    content: BinaryIO,
    job: Mapping[str, Any],
    suspect: SuspectRule | None,
    clusters: Mapping[str, str] | None,
    cluster_key: str | None,
) -> bytes:
    """Return the report of a job as compressed JSON.

    The content has two lines: values of its trials, and the stages of some of them.
    """
    gc.disable()
    subject = job_subject(Job.model_validate(job), suspect, clusters, cluster_key)
    rows, stages = json.loads(content.readline()), json.loads(content.readline())
    found = read_cells(
        rows, len(subject.agents), len(subject.scenario_ids), subject.rule, is_over=subject.is_over
    )
    return _packed(make_report(subject, found, stage_lengths(stages, len(subject.agents))))


def make_run_report(
    content: BinaryIO,
    run: Mapping[str, Any],
    benchmark_name: str,
    names: Mapping[str, str],
    clusters: Mapping[str, str] | None,
    cluster_key: str | None,
) -> bytes:
    """Return the report of a benchmark run as compressed JSON; the content has values of its runs."""
    gc.disable()
    whole = BenchmarkRun.model_validate(run)
    rows = run_rows(json.loads(content.readline()), whole, names)
    subject = run_subject(whole, benchmark_name, most_attempts(rows), clusters, cluster_key)
    found = read_cells(rows, 1, len(subject.scenario_ids), subject.rule, is_over=subject.is_over)
    return _packed(make_report(subject, found))


def make_trial_table(
    content: BinaryIO, job: Mapping[str, Any], columns: list[str], suspect: SuspectRule | None
) -> bytes:
    """Return the trials of a job as columns, as compressed JSON; the content has values of them."""
    gc.disable()
    whole = Job.model_validate(job)
    rule = suspect or whole.orchestrator.suspect_rule
    return _packed(make_table(whole, json.loads(content.readline()), columns, rule))


def read_trials(job: Job, content: BinaryIO) -> list[Trial]:
    """Return the trials of a job; those still waiting at its end are shown as canceled."""
    return _as_shown(job, list(_trials(content)))


def _trials(content: BinaryIO) -> list[Trial]:
    trials = []
    for line in content:
        try:
            trials.append(Trial.model_validate_json(line))
        except ValidationError:
            # One broken record must not hide all the others; lists of trials log it.
            continue
    return trials


def _as_shown(job: Job, trials: list[Trial]) -> list[Trial]:
    if job.state not in ENDED_JOBS:
        return trials
    now = round(time.time() * 1000)
    return [trial if trial.has_ended else trial.never_begun(now) for trial in trials]


def _packed(view: BaseModel) -> bytes:
    text = view.model_dump_json(exclude_none=True, by_alias=True)
    return gzip.compress(text.encode(), _FAST, mtime=0)
