"""Agents on a benchmark over time, and a scenario over all jobs: changes are tested against the past."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchyard.models.comparisons import EstimateView
from benchyard.models.reports.trends import (
    ChangeView,
    HistoryPoint,
    ScenarioAgent,
    ScenarioHistoryView,
    ScorerNoiseView,
    TrendPoint,
    TrendSeries,
)
from benchyard.reports.paired_comparison import estimate_view
from benchyard.reports.past_attempts import (
    ByScenario,
    PastAttempt,
    ScenarioAttempts,
    Source,
    by_source,
)
from benchyard.reports.statistics.attempts import consistency
from benchyard.reports.statistics.differences import Stratum, paired_difference, strata_test
from benchyard.reports.statistics.means import amount, clopper_pearson, estimate
from benchyard.reports.statistics.multiple_tests import benjamini_hochberg

LEVEL = 0.05
_MOST_ATTEMPTS_EXACT = 2_000
"""Attempts up to which a change is tested exactly: there are many tests, of ever larger pasts."""
_DIGITS = 9

Value = Callable[[ScenarioAttempts], float | None]


def trend_series(sources: Sequence[Source], attempts: Iterable[PastAttempt]) -> list[TrendSeries]:
    """Return a series for each agent, by name; the sources must be ordered by time."""
    results = by_source(attempts)
    agents: dict[str, list[Source]] = defaultdict(list)
    for source in sources:
        if (source.id, source.agent) in results:
            agents[source.agent_name].append(source)
    found = {name: [results[each.id, each.agent] for each in own] for name, own in sorted(agents.items())}
    changes = {kind: _all_changes(list(found.values()), value, test) for kind, value, test in _CHANGES}
    return [
        TrendSeries(
            agent_name=name,
            points=_points(agents[name], own, {kind: each[number] for kind, each in changes.items()}),
        )
        for number, (name, own) in enumerate(found.items())
    ]


def _points(
    sources: Sequence[Source],
    results: Sequence[ByScenario],
    changes: Mapping[str, Sequence[ChangeView | None]],
) -> list[TrendPoint]:
    points = []
    for index, (source, result) in enumerate(zip(sources, results, strict=True)):
        rows = list(result.values())
        points.append(
            TrendPoint(
                kind=source.kind,
                id=source.id,
                name=source.name,
                time_ms=source.time_ms,
                label=source.label,
                version=source.version,
                n_scenarios=sum(bool(row.scores) for row in rows),
                n_attempts=sum(len(row.scores) for row in rows),
                unscored=sum(row.unscored for row in rows),
                n_suspect=sum(row.n_suspect for row in rows),
                score=score_estimate([row.mean for row in rows if row.mean is not None]),
                cost_usd=amount_estimate(rows, lambda row: row.cost),
                working_ms=amount_estimate(rows, lambda row: row.working_ms),
                notes=_notes(sources[index - 1], source, results[index - 1], result) if index else [],
                **{key: found[index] for key, found in changes.items()},
            )
        )
    return points


def score_estimate(values: Sequence[float]) -> EstimateView | None:
    """Return a mean score with its interval; None without scores."""
    return estimate_view(estimate(values))


def amount_estimate(rows: Sequence[ScenarioAttempts], value: Value) -> EstimateView | None:
    """Return the mean over scenarios of a cost or a time; None where it is not known for all."""
    values = [value(row) for row in rows if row.scores]
    known = [each for each in values if each is not None]
    if not known or len(known) < len(values):
        return None
    found = amount(known)
    assert found is not None
    return EstimateView(
        mean=found.mean,
        low=found.low,
        high=found.high,
        n=len(known),
        n_clusters=len(known),
        n_effective=len(known),
        method="student",
    )


@dataclass
class _Past:
    """The pooled earlier attempts at one scenario."""

    values: list[float]
    passed: int = 0
    attempts: int = 0
    is_binary: bool = True


@dataclass(frozen=True)
class _Pair:
    past: _Past
    now: ScenarioAttempts
    difference: float


_Change = tuple[float, int, float]
"""Mean difference from the past, number of its scenarios, and its p-value."""


def _all_changes(
    series: Sequence[Sequence[ByScenario]], value: Value, test: Callable[[Sequence[_Pair]], float]
) -> list[list[ChangeView | None]]:
    """Return the changes of each series, corrected for the number of points of all of them."""
    found = [_changes(results, value, test) for results in series]
    adjusted = iter(benjamini_hochberg([each[2] for own in found for each in own if each is not None]))
    return [_views(own, adjusted) for own in found]


def _changes(
    results: Sequence[ByScenario], value: Value, test: Callable[[Sequence[_Pair]], float]
) -> list[_Change | None]:
    """Return each point against the pooled points before it; scenarios pair with their own revision only."""
    past: dict[tuple[str, int | None], _Past] = {}
    found: list[_Change | None] = []
    for result in results:
        pairs = []
        for id, row in result.items():
            here, before = value(row), past.get((id, row.revision))
            if here is not None and before is not None:
                pairs.append(_Pair(before, row, here - fmean(before.values)))
        difference = fmean(each.difference for each in pairs) if pairs else 0.0
        found.append((difference, len(pairs), test(pairs)) if pairs else None)
        for id, row in result.items():
            if (here := value(row)) is not None:
                pool = past.setdefault((id, row.revision), _Past([]))
                pool.values.append(here)
                pool.passed += row.passed
                pool.attempts += len(row.scores)
                pool.is_binary = pool.is_binary and row.is_binary
    return found


def _views(found: Sequence[_Change | None], adjusted: Iterator[float]) -> list[ChangeView | None]:
    """Return the changes with their corrected p-values, which are taken from those of all series."""
    views: list[ChangeView | None] = []
    way = 0
    for each in found:
        if each is None:
            views.append(None)
            continue
        difference, count, p = each
        corrected = next(adjusted)
        here = 0 if corrected > LEVEL or not difference else 1 if difference > 0 else -1
        # What stays different was a change once.
        views.append(
            ChangeView(
                difference=round(difference, _DIGITS),
                n=count,
                p=p,
                p_adjusted=corrected,
                is_change=here not in (0, way),
            )
        )
        way = here
    return views


def _score_p(pairs: Sequence[_Pair]) -> float:
    if all(pair.past.is_binary and pair.now.is_binary for pair in pairs):
        strata = [
            Stratum(pair.past.passed, pair.past.attempts, pair.now.passed, len(pair.now.scores))
            for pair in pairs
        ]
        return strata_test(strata, _MOST_ATTEMPTS_EXACT).p
    return _paired_p(pairs)


def _paired_p(pairs: Sequence[_Pair]) -> float:
    """Return the p-value of Student's paired test; where nothing varies, that of the signs."""
    differences = [pair.difference for pair in pairs]
    found = paired_difference(differences)
    if found is not None and found.p is not None:
        return found.p
    return min(1.0, 2.0 * 0.5 ** len(differences)) if any(differences) else 1.0


_CHANGES: Sequence[tuple[str, Value, Callable[[Sequence[_Pair]], float]]] = (
    ("score_change", lambda row: row.mean, _score_p),
    ("cost_change", lambda row: row.cost, _paired_p),
    ("time_change", lambda row: row.working_ms, _paired_p),
)


def _notes(before: Source, source: Source, earlier: ByScenario, result: ByScenario) -> list[str]:
    notes = []
    if before.version != source.version:
        notes.append(f"version {before.version or '-'} became {source.version or '-'}")
    new, gone = len(result.keys() - earlier.keys()), len(earlier.keys() - result.keys())
    if new or gone:
        notes.append(f"other scenarios: {new} more, {gone} fewer")
    changed = sum(row.revision != earlier[id].revision for id, row in result.items() if id in earlier)
    if changed:
        notes.append(f"{changed} scenarios have another revision")
    return notes


def scenario_history(
    scenario: tuple[str, str, int], sources: Sequence[Source], attempts: Sequence[PastAttempt]
) -> ScenarioHistoryView:
    """Return the history of a scenario, given its id, name and present revision."""
    id, name, revision = scenario
    own = [each for each in attempts if each.scenario_id == id]
    known = {(source.id, source.agent): source for source in sources}
    groups: dict[tuple[Source, int | None], ScenarioAttempts] = {}
    revisions = {each.source: each.revision for each in own if each.revision is not None}
    for attempt in own:
        if (source := known.get(attempt.source)) is not None:
            # What crashed before it was scored has no revision of its own.
            key = source, attempt.revision or revisions.get(attempt.source)
            groups.setdefault(key, ScenarioAttempts(name, key[1])).add(attempt)
    points = [_history_point(source, row) for (source, _), row in groups.items()]
    return ScenarioHistoryView(
        scenario_id=id,
        scenario_name=name,
        revision=revision,
        agents=_agents(groups),
        points=sorted(points, key=lambda point: (point.time_ms, point.label)),
        scorer_noise=scorer_noise(own),
    )


def _history_point(source: Source, row: ScenarioAttempts) -> HistoryPoint:
    return HistoryPoint(
        kind=source.kind,
        id=source.id,
        name=source.name,
        time_ms=source.time_ms,
        label=source.label,
        revision=row.revision,
        n_attempts=len(row.scores),
        passed=row.passed,
        mean=row.mean,
        unscored=row.unscored,
        n_suspect=row.n_suspect,
        is_flaky=0 < row.passed < len(row.scores),
    )


def _agents(groups: Mapping[tuple[Source, int | None], ScenarioAttempts]) -> list[ScenarioAgent]:
    rows: dict[tuple[str, int | None], list[ScenarioAttempts]] = defaultdict(list)
    for (source, revision), row in groups.items():
        rows[source.label, revision].append(row)
    found = []
    for (label, revision), own in rows.items():
        scores = [score for row in own for score in row.scores]
        passed = sum(row.passed for row in own)
        found.append(
            ScenarioAgent(
                label=label,
                revision=revision,
                n_attempts=len(scores),
                passed=passed,
                score=score_estimate(scores),
                n_jobs=len(own),
                n_flaky=sum(0 < row.passed < len(row.scores) for row in own),
                consistency=consistency(len(scores), passed) if scores else None,
            )
        )
    return sorted(found, key=lambda each: (each.label, -(each.revision or 0)))


def scorer_noise(attempts: Iterable[PastAttempt]) -> ScorerNoiseView | None:
    """Return how often scoring a final state again changed its score; None if none was scored twice."""
    again = [[*each.earlier, each.score] for each in attempts if each.earlier and each.score is not None]
    return noise_of_scores(again) if again else None


def noise_of_scores(states: Sequence[Sequence[float]]) -> ScorerNoiseView:
    """Return how often the later scores of final states are not the first ones."""
    states = [scores for scores in states if scores]
    count = sum(len(scores) - 1 for scores in states)
    changed = sum(score != scores[0] for scores in states for score in scores[1:])
    low, high = clopper_pearson(changed, count) if count else (0.0, 1.0)
    return ScorerNoiseView(
        n_states=len(states),
        n_scorings=count,
        n_changed=changed,
        share=changed / count if count else None,
        low=round(low, _DIGITS),
        high=round(high, _DIGITS),
        scores=list(states[0]) if len(states) == 1 else [],
    )
