"""Insights of a benchmark: a leader board with ranks, the worth of each scenario, and power."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median

from benchyard.models.comparisons import EstimateView
from benchyard.models.reports.trends import InsightsView, LeaderRow, PowerCellView, ScenarioInsight
from benchyard.reports.past_attempts import ByScenario, PastAttempt, ScenarioAttempts, Source
from benchyard.reports.statistics.attempts import variance_parts
from benchyard.reports.statistics.discrimination import discriminations
from benchyard.reports.statistics.power import NoiseParts, power_table
from benchyard.reports.statistics.ranks import Rank, standing
from benchyard.reports.trends import amount_estimate, score_estimate

_FEWEST = 0.5
"""Share of the scenarios that an agent of the leader board has a score for."""
_MOST_AGENTS = 100
_ATTEMPTS = (1, 2, 3, 5, 10)
_DIGITS = 9


def insights(
    benchmark: tuple[str, str],
    revisions: Mapping[str, tuple[str, int]],
    sources: Sequence[Source],
    attempts: Iterable[PastAttempt],
) -> InsightsView:
    """Return what is known of a benchmark, given its scenarios with their names and present revisions."""
    known = {(source.id, source.agent): source for source in sources}
    agents: dict[str, ByScenario] = defaultdict(dict)
    jobs: dict[str, set[str]] = defaultdict(set)
    for attempt in attempts:
        name, revision = revisions.get(attempt.scenario_id, ("", None))
        source = known.get(attempt.source)
        if source is None or revision is None or attempt.revision not in (None, revision):
            continue
        rows = agents[source.label]
        rows.setdefault(attempt.scenario_id, ScenarioAttempts(name, revision)).add(attempt)
        jobs[source.label].add(source.id)
    scored = {label: {id: row for id, row in rows.items() if row.scores} for label, rows in agents.items()}
    widest = max((len(rows) for rows in scored.values()), default=0)
    fit = sorted(label for label, rows in scored.items() if rows and len(rows) >= _FEWEST * widest)
    fit = sorted(fit, key=lambda label: -_mean(scored[label]))[:_MOST_AGENTS]
    common = [id for id in revisions if fit and all(id in scored[label] for label in fit)]
    table = [[scored[label][id].mean or 0.0 for id in common] for label in fit]
    order = standing(table)
    leaders = [
        _leader(label, agents[label], len(jobs[label]), rank)
        for label, rank in zip(fit, order.ranks, strict=True)
    ]
    return InsightsView(
        benchmark_id=benchmark[0],
        benchmark_name=benchmark[1],
        n_scenarios=len(revisions),
        n_common=len(common),
        leaders=sorted(leaders, key=lambda row: (row.place, -row.score.mean, row.label)),
        groups=[[fit[index] for index in group] for group in order.groups] if common else [],
        left_out=sorted(scored.keys() - set(fit)),
        scenarios=_scenarios(revisions, scored),
        power=_power(len(revisions), [scored[label] for label in fit]),
    )


def _mean(rows: ByScenario) -> float:
    return fmean(row.mean or 0.0 for row in rows.values())


def _leader(label: str, rows: ByScenario, n_jobs: int, rank: Rank) -> LeaderRow:
    counted = [row for row in rows.values() if row.scores]
    score = score_estimate([row.mean for row in counted if row.mean is not None])
    assert score is not None
    cost = amount_estimate(counted, lambda row: row.cost)
    time = amount_estimate(counted, lambda row: row.working_ms)
    return LeaderRow(
        label=label,
        n_jobs=n_jobs,
        n_scenarios=len(counted),
        n_attempts=sum(len(row.scores) for row in counted),
        unscored=sum(row.unscored for row in rows.values()),
        n_suspect=sum(row.n_suspect for row in rows.values()),
        score=score,
        place=rank.place,
        best=rank.best,
        worst=rank.worst,
        cost_usd=cost.mean if cost else None,
        cost_interval=_interval(cost),
        working_ms=time.mean if time else None,
        working_interval=_interval(time),
    )


def _interval(found: EstimateView | None) -> tuple[float, float] | None:
    if found is None or found.low is None or found.high is None:
        return None
    return found.low, found.high


def _scenarios(
    revisions: Mapping[str, tuple[str, int]], scored: Mapping[str, ByScenario]
) -> list[ScenarioInsight]:
    agents = list(scored.values())
    ids = list(revisions)
    cells = [[rows[id].mean if id in rows else None for rows in agents] for id in ids]
    found = []
    for id, each in zip(ids, discriminations(cells), strict=True):
        rows = [own[id] for own in agents if id in own]
        attempts = sum(len(row.scores) for row in rows)
        found.append(
            ScenarioInsight(
                scenario_id=id,
                scenario_name=revisions[id][0],
                mean=None if each.mean is None else round(each.mean, _DIGITS),
                n_agents=each.n_agents,
                n_attempts=attempts,
                n_flaky=sum(0 < row.passed < len(row.scores) for row in rows),
                tau=None if each.tau is None else round(each.tau, _DIGITS),
                p=each.p,
                # A single attempt is no more than its result.
                kind=each.kind if attempts > 1 else None,
            )
        )
    return sorted(found, key=lambda row: (row.mean is None, row.mean or 0.0, row.scenario_name))


def _power(scenarios: int, agents: Sequence[ByScenario]) -> list[PowerCellView]:
    """Return what comparisons on this benchmark show, with the noise that its agents have."""
    noise = _noise(agents)
    if noise is None or not scenarios:
        return []
    sizes = sorted({scenarios, *(size for size in (10, 30, 100, 300, 1000) if size < scenarios)})
    cells = power_table(noise, sizes, _ATTEMPTS)
    return [
        PowerCellView(
            attempts=each.attempts, scenarios=each.scenarios, detectable=round(each.detectable, _DIGITS)
        )
        for each in cells
    ]


def _noise(agents: Sequence[ByScenario]) -> NoiseParts | None:
    """Return the middle of the noise of all agents; without repeats, it is all taken for that of attempts."""
    parts = [variance_parts([row.scores for row in rows.values()]) for rows in agents]
    within = [part.within_scenarios for part in parts if part is not None]
    if within:
        of_attempts = median(within)
    else:
        # One attempt each: at most what a coin with this chance to pass has.
        shares = [row.mean or 0.0 for rows in agents for row in rows.values()]
        of_attempts = fmean(max(0.0, share * (1 - share)) for share in [fmean(shares)]) if shares else 0.0
    between = [
        _between(first, second, of_attempts)
        for index, first in enumerate(agents[:20])
        for second in agents[index + 1 : 20]
    ]
    of_scenarios = median(between) if between else 0.0
    if not of_attempts and not of_scenarios:
        return None
    return NoiseParts(of_scenarios, of_attempts, of_attempts)


def _between(first: ByScenario, second: ByScenario, of_attempts: float) -> float:
    """Return the variance of the difference of two agents from scenario to scenario, without their own."""
    shared = [(row, second[id]) for id, row in first.items() if id in second]
    if len(shared) < 2:
        return 0.0
    differences = [(b.mean or 0.0) - (a.mean or 0.0) for a, b in shared]
    mean = fmean(differences)
    total = sum((each - mean) ** 2 for each in differences) / (len(differences) - 1)
    noise = fmean(of_attempts / len(a.scores) + of_attempts / len(b.scores) for a, b in shared)
    return max(0.0, total - noise)
