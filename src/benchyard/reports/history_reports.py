"""Trends, histories and insights that are made in a worker, of some values of many records.

The content has four lines, each a JSON array of rows: of jobs, benchmark runs, trials and scenario runs.
"""

import gc
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from pydantic import BaseModel

from benchyard.models.reports.trends import TrendsView
from benchyard.reports.insights import insights
from benchyard.reports.past_attempts import (
    PastAttempt,
    Source,
    of_runs,
    of_trials,
    sources_of_groups,
    sources_of_jobs,
    sources_of_runs,
)
from benchyard.reports.trends import scenario_history, trend_series

_FAST = 1


@dataclass(frozen=True)
class _Past:
    sources: list[Source]
    attempts: list[PastAttempt]


def make_trends(
    content: BinaryIO, benchmark: Sequence[str], agent: str | None, names: Mapping[str, str], n_left_out: int
) -> bytes:
    """Return the trends of a benchmark as compressed JSON."""
    past = _read(content, names)
    id, name = benchmark
    sources = [each for each in past.sources if agent is None or _is_meant(each, agent)]
    series = trend_series(sources, past.attempts)
    return _packed(TrendsView(benchmark_id=id, benchmark_name=name, series=series, n_left_out=n_left_out))


def _is_meant(source: Source, agent: str) -> bool:
    return agent in (source.agent_name, source.label, source.agent_name.partition(":")[0])


def make_insights(
    content: BinaryIO, benchmark: Sequence[str], revisions: Mapping[str, Sequence[Any]], n_left_out: int
) -> bytes:
    """Return what is known of a benchmark as compressed JSON."""
    scenarios = {id: (str(name), int(revision)) for id, (name, revision) in revisions.items()}
    past = _read(content, {id: name for id, (name, _) in scenarios.items()})
    view = insights((benchmark[0], benchmark[1]), scenarios, past.sources, past.attempts)
    return _packed(view.model_copy(update={"n_left_out": n_left_out}))


def make_history(content: BinaryIO, scenario: Sequence[Any], n_left_out: int = 0) -> bytes:
    """Return the history of a scenario as compressed JSON."""
    id, name, revision = scenario
    past = _read(content, {id: name})
    view = scenario_history((id, name, int(revision)), past.sources, past.attempts)
    return _packed(view.model_copy(update={"n_left_out": n_left_out}))


def _read(content: BinaryIO, names: Mapping[str, str]) -> _Past:
    gc.disable()
    jobs, groups, trials, runs = (json.loads(line) for line in content)
    sources = [*sources_of_jobs(jobs), *sources_of_groups(groups), *sources_of_runs(runs)]
    rules = {source.id: source.rule for source in sources if source.kind == "job"}
    attempts = [*of_trials(trials, rules), *of_runs(runs, names)]
    return _Past(sorted(sources, key=lambda each: each.time_ms), attempts)


def _packed(view: BaseModel) -> bytes:
    return gzip.compress(view.model_dump_json(exclude_none=True).encode(), _FAST, mtime=0)
