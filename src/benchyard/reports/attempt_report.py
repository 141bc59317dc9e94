"""The report of a job or of a benchmark run: every figure with what it rests on and how sure it is."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal

from benchyard.models.comparisons import DifferenceView, EstimateView
from benchyard.models.job_plans import count_text
from benchyard.models.jobs import AttemptCounts
from benchyard.models.reports.job_report import (
    AgainstFirst,
    AgentReport,
    AmountView,
    PassPointView,
    PowerReport,
    PowerRow,
    RankView,
    ReportView,
    ScenarioFinding,
    ScenarioLists,
    SetupFact,
    StageTime,
    VarianceView,
)
from benchyard.models.trials import SuspectRule
from benchyard.reports.attempt_cells import AgentCells, AttemptCells, Cell
from benchyard.reports.statistics.attempts import (
    VarianceParts,
    consistency,
    flaky_chance,
    pass_curve,
    variance_parts,
)
from benchyard.reports.statistics.differences import (
    Stratum,
    cluster_means,
    difference_parts,
    exact_odds_ratio,
    paired_difference,
    sign_test,
    strata_test,
)
from benchyard.reports.statistics.discrimination import discriminations
from benchyard.reports.statistics.means import Amount, Estimate, amount, beta_interval, estimate, ratio
from benchyard.reports.statistics.multiple_tests import holm
from benchyard.reports.statistics.posterior import chance_better
from benchyard.reports.statistics.power import (
    NoiseParts,
    attempts_for_shares,
    attempts_needed,
    detectable_difference,
    power_table,
    scenarios_needed,
    student_scenarios_needed,
)
from benchyard.reports.statistics.ranks import standing
from benchyard.reports.statistics.verdicts import difference_bounds

FEW_SCENARIOS = 30
POINTS = 0.02
"""Difference for which the needed size is told."""
MOST_LISTED = 200
_MOST_ATTEMPTS_EXACT = 2_000
"""Attempts of two agents up to which their test is exact; above, chi squared is as good, and fast."""
_MOST_PAIRS = 5
"""Pairs of agents from which the noise of a difference is estimated."""
_USUAL_ATTEMPTS = (1, 3, 5, 10)
_NO_NOISE = 1e-15
"""Variance below which it comes from rounding."""
_DIGITS = 9


@dataclass(frozen=True)
class ReportedAgent:
    """An agent as a report names it."""

    label: str
    name: str
    model_name: str | None = None
    version: str | None = None


@dataclass(frozen=True)
class ReportSubject:
    """The job or benchmark run that is reported on."""

    kind: Literal["job", "benchmark run"]
    id: str
    name: str
    state: str
    create_time_ms: int
    agents: Sequence[ReportedAgent]
    scenario_ids: Sequence[str]
    attempts: int = 1
    concurrency: int = 1
    is_over: bool = True
    benchmark_name: str | None = None
    end_time_ms: int | None = None
    rule: SuspectRule = "keep"
    cluster_key: str | None = None
    clusters: Mapping[str, str] | None = None
    """Scenario id -> the group whose scenarios may succeed and fail together."""
    setup: Sequence[SetupFact] = field(default_factory=list)

    def groups(self, indexes: Sequence[int]) -> list[str] | None:
        """Return the groups of scenarios, if there are any."""
        if self.clusters is None:
            return None
        return [self.clusters.get(id, id) for id in (self.scenario_ids[index] for index in indexes)]


def make_report(
    subject: ReportSubject, found: AttemptCells, stages: Sequence[Mapping[str, Sequence[float]]] = ()
) -> ReportView:
    """Return the report of a subject from its attempts, and from the lengths of stages by agent."""
    agents = [
        _agent(subject, index, found.agents[index], stages[index] if index < len(stages) else {})
        for index in range(len(subject.agents))
    ]
    agents, groups, n_ranked = _ranked(subject, found, _against_first(subject, found, agents))
    planned = len(subject.agents) * len(subject.scenario_ids) * subject.attempts
    view = ReportView(
        kind=subject.kind,
        id=subject.id,
        name=subject.name,
        state=subject.state,
        benchmark_name=subject.benchmark_name,
        create_time_ms=subject.create_time_ms,
        end_time_ms=subject.end_time_ms,
        n_scenarios=len(subject.scenario_ids),
        n_attempts=subject.attempts,
        n_planned=planned,
        n_ended=sum(each.n_ended for each in found.agents),
        suspect=subject.rule,
        cluster_key=subject.cluster_key,
        agents=agents,
        groups=groups,
        n_ranked=n_ranked,
        power=_power(subject, found, agents),
        scenarios=_scenarios(subject, found),
        setup=[*subject.setup, *_setup(found)],
    )
    return view.model_copy(update={"notes": _notes(subject, view)})


def _agent(
    subject: ReportSubject, index: int, own: AgentCells, stages: Mapping[str, Sequence[float]]
) -> AgentReport:
    named, scored = subject.agents[index], own.scored
    cells, groups = list(scored.values()), subject.groups(list(scored))
    means = [cell.mean for cell in cells]
    unscored = sum(cell.unscored for cell in own.cells.values())
    parts = variance_parts([cell.scores for cell in cells])
    counts = [(len(cell.scores), cell.passed) for cell in cells]
    repeated = [each for each in counts if each[0] > 1]
    agreements = [value for each in repeated if (value := consistency(*each)) is not None]
    is_graded = any(cell.is_graded for cell in cells)
    return AgentReport(
        agent=index,
        label=named.label,
        agent_name=named.name,
        model_name=named.model_name,
        version=named.version,
        n_planned=len(subject.scenario_ids) * subject.attempts,
        n_ended=own.n_ended,
        attempts=AttemptCounts.model_validate(own.outcomes),
        n_scenarios=len(cells),
        score=_estimate(estimate(means, groups)),
        bounds=_bounds(own) if unscored else None,
        posterior=_posterior(counts, is_graded=is_graded) if groups is None else None,
        n_suspect=own.n_suspect,
        n_retries=own.n_retries,
        pass_curve=_curve(counts, groups),
        is_graded=is_graded,
        variance=_variance(parts, len(cells)),
        n_flaky=sum(0 < passed < tried for tried, passed in repeated),
        consistency=round(fmean(agreements), _DIGITS) if agreements else None,
        total_usd=own.total_usd if own.asks_models and own.has_all_costs else None,
        stages=[_stage(name, lengths) for name, lengths in stages.items()],
        **_amounts(cells, groups),
    )


def _estimate(found: Estimate | None) -> EstimateView | None:
    if found is None:
        return None
    return EstimateView.model_construct(
        mean=found.mean,
        low=_finite(found.low),
        high=_finite(found.high),
        n=found.n,
        n_clusters=found.n_clusters,
        n_effective=found.n_effective,
        method=found.method,
    )


def _finite(value: float) -> float | None:
    return round(value, _DIGITS) if math.isfinite(value) else None


def _bounds(own: AgentCells) -> tuple[float, float]:
    cells = [cell for cell in own.cells.values() if cell.scores or cell.unscored]
    return tuple(round(fmean(cell.bound(worth) for cell in cells), _DIGITS) for worth in (0.0, 1.0))  # type: ignore[return-value]


def _posterior(counts: Sequence[tuple[int, int]], *, is_graded: bool) -> tuple[float, float] | None:
    """Return the interval from a uniform prior, where few scenarios had a single attempt each."""
    if is_graded or not counts or len(counts) >= FEW_SCENARIOS or any(tried != 1 for tried, _ in counts):
        return None
    return beta_interval(sum(passed for _, passed in counts), len(counts))


def _curve(counts: Sequence[tuple[int, int]], groups: Sequence[str] | None) -> list[PassPointView]:
    points = []
    for point in pass_curve(counts, clusters=groups):
        any_passes, all_pass = _estimate(point.any_passes), _estimate(point.all_pass)
        if any_passes and all_pass:
            points.append(
                PassPointView(
                    k=point.k,
                    any_passes=any_passes,
                    all_pass=all_pass,
                    n_scenarios=point.n_scenarios,
                    n_left_out=point.n_left_out,
                )
            )
    return points


def _variance(parts: VarianceParts | None, scenarios: int) -> VarianceView | None:
    if parts is None:
        return None
    of_attempts = parts.within_scenarios / parts.attempts
    return VarianceView(
        between_scenarios=round(parts.between_scenarios, _DIGITS),
        within_scenarios=round(parts.within_scenarios, _DIGITS),
        error_of_scenarios=round(math.sqrt(parts.between_scenarios / scenarios), _DIGITS),
        error_of_attempts=round(math.sqrt(of_attempts / scenarios), _DIGITS),
        n=parts.n,
        attempts=parts.attempts,
        # Twice the attempts halve the one part only, twice the scenarios halve both at the same price.
        helps="attempts" if of_attempts > parts.between_scenarios else "scenarios",
    )


def _amounts(cells: Sequence[Cell], groups: Sequence[str] | None) -> dict[str, Any]:
    """Return cost, time and tokens of an attempt; what is not known everywhere is left out."""
    found: dict[str, Any] = {}
    if any(cell.n_costs for cell in cells) and all(cell.n_costs >= cell.n_asked for cell in cells):
        # Attempts that asked no model cost nothing.
        costs = [cell.cost / len(cell.scores) for cell in cells]
        found["cost_usd"] = _amount(amount(costs, groups), sum(cell.cost for cell in cells))
        spent = [cell.cost for cell in cells]
        passes = [float(cell.passed) for cell in cells]
        found["usd_per_success"] = _amount(ratio(spent, passes, groups))
    if cells and all(cell.n_working == len(cell.scores) for cell in cells):
        times = [cell.working / cell.n_working for cell in cells]
        found["working_ms"] = _amount(amount(times, groups), sum(cell.working for cell in cells))
    if any(cell.tokens for cell in cells):
        tokens = [cell.tokens / len(cell.scores) for cell in cells]
        found["tokens"] = _amount(amount(tokens, groups), sum(cell.tokens for cell in cells))
    return found


def _amount(found: Amount | None, total: float | None = None) -> AmountView | None:
    if found is None:
        return None
    return AmountView(mean=found.mean, low=found.low, high=found.high, n=found.n, total=total)


def _stage(name: str, lengths: Sequence[float]) -> StageTime:
    found = amount(lengths)
    assert found is not None
    return StageTime(name=name[:100], mean=found.mean, low=found.low, high=found.high, n=found.n)


def _against_first(
    subject: ReportSubject, found: AttemptCells, agents: Sequence[AgentReport]
) -> list[AgentReport]:
    """Return the agents with what sets them apart from the first."""
    tested: dict[int, AgainstFirst] = {}
    for index in range(1, len(agents)):
        if (against := _against(subject, found.agents[0], found.agents[index])) is not None:
            tested[index] = against
    adjusted = dict(zip(tested, holm([each.p for each in tested.values()]), strict=True))
    return [
        agent.model_copy(
            update={
                "against_first": tested[agent.agent].model_copy(update={"p_adjusted": adjusted[agent.agent]})
            }
        )
        if agent.agent in tested
        else agent
        for agent in agents
    ]


def _against(subject: ReportSubject, first: AgentCells, other: AgentCells) -> AgainstFirst | None:
    left, right = first.scored, other.scored
    shared = [index for index in left if index in right]
    if not shared:
        return None
    groups = subject.groups(shared)
    pairs = [(left[index], right[index]) for index in shared]
    difference = _score_difference(pairs, groups)
    p, test, odds = _test(pairs, groups, difference.p)
    return AgainstFirst(
        difference=difference,
        p=p,
        p_method=test,
        p_adjusted=p,
        odds_ratio=odds,
        chance_better=_chance_better(pairs) if groups is None else None,
        cost_usd=_amount_difference([(a.mean_cost, b.mean_cost) for a, b in pairs], groups)
        if first.asks_models and other.asks_models
        else None,
        working_ms=_amount_difference([(a.mean_working, b.mean_working) for a, b in pairs], groups),
    )


def _score_difference(pairs: Sequence[tuple[Cell, Cell]], groups: Sequence[str] | None) -> DifferenceView:
    values = [b.mean - a.mean for a, b in pairs]
    found = _difference(values, groups)
    has_ends = all(a.has_ends and b.has_ends for a, b in pairs)
    bounds = difference_bounds(values, groups, is_bounded=has_ends)
    if bounds is None:
        return found
    ends = {"low": round(bounds.low, _DIGITS), "high": round(bounds.high, _DIGITS)}
    return found.model_copy(update={"mean": round(found.mean, _DIGITS), "method": bounds.method, **ends})


def _difference(values: Sequence[float], groups: Sequence[str] | None) -> DifferenceView:
    found = paired_difference(values, groups)
    assert found is not None
    return DifferenceView(
        mean=found.mean,
        low=found.low,
        high=found.high,
        n=found.n,
        n_clusters=found.n_clusters,
        method="paired t over scenarios",
        p=found.p,
    )


def _amount_difference(
    amounts: Sequence[tuple[float | None, float | None]], groups: Sequence[str] | None
) -> DifferenceView | None:
    """Return the paired difference of an amount; None where it is not known at every scenario."""
    known = [after - before for before, after in amounts if before is not None and after is not None]
    return _difference(known, groups) if len(known) == len(amounts) else None


def _test(
    pairs: Sequence[tuple[Cell, Cell]], groups: Sequence[str] | None, student_p: float | None
) -> tuple[float, str, float | None]:
    """Return the p-value of a difference, its test, and the odds ratio of shares."""
    values = [b.mean - a.mean for a, b in pairs]
    if groups is not None:
        if student_p is None:
            return sign_test(cluster_means(values, groups)), "sign test of the groups' mean differences", None
        return student_p, "Student's test over groups of scenarios", None
    if any(a.is_graded or b.is_graded for a, b in pairs):
        if student_p is None:
            return sign_test(values), "sign test of paired differences", None
        return student_p, "Student's test of paired differences", None
    # Most scenarios end like others: their counts are made once.
    counts = Counter([(a.passed, len(a.scores), b.passed, len(b.scores)) for a, b in pairs])
    strata = [stratum for each, count in counts.items() for stratum in [Stratum(*each)] * count]
    found = strata_test(strata, _MOST_ATTEMPTS_EXACT)
    is_small = found.p_middle is not None and len(strata) < FEW_SCENARIOS
    return found.p, found.method, exact_odds_ratio(strata) if is_small else None


def _chance_better(pairs: Sequence[tuple[Cell, Cell]]) -> float | None:
    if len(pairs) >= FEW_SCENARIOS or any(
        len(cell.scores) != 1 or cell.is_graded for pair in pairs for cell in pair
    ):
        return None
    passed_a, passed_b = (sum(pair[side].passed for pair in pairs) for side in (0, 1))
    return chance_better(passed_a, len(pairs), passed_b, len(pairs))


def _ranked(
    subject: ReportSubject, found: AttemptCells, agents: Sequence[AgentReport]
) -> tuple[list[AgentReport], list[list[int]], int]:
    """Return the agents with their ranks, those that cannot be told apart, and the number of scenarios."""
    able = [agent.agent for agent in agents if agent.score is not None]
    scored = {index: found.agents[index].scored for index in able}
    # In the order of the plan.
    shared = sorted(set(scored[able[0]]).intersection(*scored.values())) if able else []
    if len(able) < 2 or not shared:
        return list(agents), [], 0
    order = standing([[scored[a][each].mean for each in shared] for a in able], subject.groups(shared))
    ranks = {
        agent: RankView(place=rank.place, best=rank.best, worst=rank.worst)
        for agent, rank in zip(able, order.ranks, strict=True)
    }
    ranked = [agent.model_copy(update={"rank": ranks.get(agent.agent)}) for agent in agents]
    return ranked, [[able[member] for member in group] for group in order.groups], len(shared)


def _noise(
    subject: ReportSubject, found: AttemptCells, agents: Sequence[AgentReport]
) -> tuple[NoiseParts, str, int] | None:
    """Return the noise of a difference at one scenario, where it was taken from, and the scenarios."""
    able = [agent for agent in agents if agent.score is not None]
    if not able:
        return None
    if len(able) == 1:
        return _own_noise(found.agents[able[0].agent], able[0])
    first = found.agents[able[0].agent].scored
    parts = []
    for agent in able[1 : 1 + _MOST_PAIRS]:
        other = found.agents[agent.agent].scored
        pairs = [(first[index], other[index]) for index in first if index in other]
        if len(pairs) > 1:
            groups = subject.groups([index for index in first if index in other])
            noise = difference_parts([(left.scores, right.scores) for left, right in pairs], groups)
            if noise is not None:
                parts.append((noise, len(pairs)))
    if not parts:
        return None
    mean = NoiseParts(*(fmean(getattr(each, name) for each, _ in parts) for name in _NOISE))
    plural = f"{len(parts)} pairs of its agents" if len(parts) > 1 else "its two agents"
    return mean, f"the noise of the difference of {plural}", max(count for _, count in parts)


_NOISE = ("scenarios", "attempts_a", "attempts_b")


def _own_noise(own: AgentCells, agent: AgentReport) -> tuple[NoiseParts, str, int] | None:
    scored = own.scored
    if agent.variance is not None:
        within = agent.variance.within_scenarios
        basis = "two agents as noisy as this one, whose difference is the same at every scenario"
    else:
        mean = fmean(cell.mean for cell in scored.values())
        within = max(0.0, mean * (1 - mean))
        basis = "two agents like this one that do not depend on scenarios at all: an upper end, since one"
        basis += " attempt each cannot tell"
    return NoiseParts(0.0, within, within), basis, len(scored)


def _power(subject: ReportSubject, found: AttemptCells, agents: Sequence[AgentReport]) -> PowerReport | None:
    known = _noise(subject, found, agents)
    if known is None:
        return None
    noise, basis, scenarios = known
    if noise.scenarios + noise.attempts_a + noise.attempts_b < _NO_NOISE or scenarios < 2:
        return None
    price = _mean_amount(agents, lambda agent: agent.cost_usd)
    length = _mean_amount(agents, lambda agent: agent.working_ms)
    rows = []
    attempts = subject.attempts
    for cell in power_table(noise, (scenarios, 2 * scenarios), (*_USUAL_ATTEMPTS, attempts)):
        trials = 2 * cell.attempts * cell.scenarios
        rows.append(
            PowerRow(
                attempts=cell.attempts,
                scenarios=cell.scenarios,
                detectable=round(cell.detectable, _DIGITS),
                trials=trials,
                usd=None if price is None else trials * price,
                hours=None if length is None else trials * length / 3_600_000 / subject.concurrency,
            )
        )
    return PowerReport(
        basis=basis,
        detectable=round(detectable_difference(scenarios, noise, attempts), _DIGITS),
        attempts_for_2_points=attempts_needed(POINTS, scenarios, noise),
        scenarios_for_2_points=_scenarios_needed(noise, attempts),
        attempts_of_one_scenario=math.ceil(attempts_for_shares(0.5, 0.75)),
        rows=rows,
    )


def _scenarios_needed(noise: NoiseParts, attempts: int) -> int:
    needed = scenarios_needed(POINTS, noise, attempts)
    if needed < FEW_SCENARIOS:
        # Few scenarios know their own deviation badly.
        deviation = math.sqrt(noise.scenarios + (noise.attempts_a + noise.attempts_b) / attempts)
        needed = student_scenarios_needed(POINTS, deviation)
    return math.ceil(needed)


def _mean_amount(
    agents: Sequence[AgentReport], of: Callable[[AgentReport], AmountView | None]
) -> float | None:
    amounts = [of(agent) for agent in agents if agent.score is not None]
    known = [each.mean for each in amounts if each is not None]
    return fmean(known) if known and len(known) == len(amounts) else None


def _scenarios(subject: ReportSubject, found: AttemptCells) -> ScenarioLists:
    columns = [agent.scored for agent in found.agents]
    indexes = sorted(set().union(*columns))
    rows = [[column[index].mean if index in column else None for column in columns] for index in indexes]
    listed: dict[str, list[ScenarioFinding]] = {"saturated": [], "impossible": [], "suspicious": []}
    for index, each in zip(indexes, discriminations(rows), strict=True):
        if each.kind is None:
            continue
        cells = [column[index] for column in columns if index in column]
        attempts = sum(len(cell.scores) for cell in cells)
        # A single attempt of a single agent is no more than its result.
        if attempts < 2:
            continue
        listed[each.kind].append(
            ScenarioFinding(
                scenario_id=subject.scenario_ids[index],
                scenario_name=str(found.names.get(index, "")),
                passed=sum(cell.passed for cell in cells),
                attempts=attempts,
                mean=round(each.mean or 0.0, _DIGITS),
                tau=each.tau if each.kind == "suspicious" else None,
                p=each.p if each.kind == "suspicious" else None,
            )
        )
    flaky = _flaky(subject, found)
    return ScenarioLists(
        n=len(indexes),
        n_flaky=len(flaky),
        flaky=flaky[:MOST_LISTED],
        n_saturated=len(listed["saturated"]),
        saturated=listed["saturated"][:MOST_LISTED],
        n_impossible=len(listed["impossible"]),
        impossible=listed["impossible"][:MOST_LISTED],
        n_suspicious=len(listed["suspicious"]),
        suspicious=listed["suspicious"][:MOST_LISTED],
    )


def _flaky(subject: ReportSubject, found: AttemptCells) -> list[ScenarioFinding]:
    """Return the scenarios of which an agent passed some attempts and failed others."""
    listed = []
    for agent, own in enumerate(found.agents):
        for index, cell in own.scored.items():
            tried = len(cell.scores)
            if tried < 2 or not 0 < (passed := cell.passed) < tried:
                continue
            listed.append(
                ScenarioFinding(
                    scenario_id=subject.scenario_ids[index],
                    scenario_name=str(found.names.get(index, "")),
                    agent=agent,
                    passed=passed,
                    attempts=tried,
                    mean=round(cell.mean, _DIGITS),
                    consistency=consistency(tried, passed),
                    chance_to_see=round(flaky_chance(passed / tried, tried), _DIGITS),
                )
            )
    return sorted(listed, key=lambda each: (each.consistency or 0.0, -each.attempts, each.scenario_name))


def _setup(found: AttemptCells) -> list[SetupFact]:
    words = {
        "network": "network of the devbox",
        "scoring_network": "network of the scorers",
        "isolation": "isolation of the scoring",
    }
    facts = [
        SetupFact(what=what, value=str(value), count=count)
        for name, what in words.items()
        for value, count in found.facts.get(name, Counter()).most_common()
    ]
    if found.n_conditions:
        facts.append(
            SetupFact(what="trials", value="with a busy machine or a refused host", count=found.n_conditions)
        )
    return facts


def _notes(subject: ReportSubject, view: ReportView) -> list[str]:
    notes = []
    if not subject.is_over:
        notes.append(f"still running: {view.n_ended} of {view.n_planned} attempts have ended")
    if not view.scenarios.n:
        notes.append("nothing is scored yet" if not subject.is_over else "nothing was scored")
        return notes
    if view.scenarios.n < FEW_SCENARIOS:
        few = count_text(view.scenarios.n, "scenario")
        second = "; `posterior` is a second opinion" if any(a.posterior for a in view.agents) else ""
        notes.append(f"only {few}: intervals are wide{second}")
    if subject.attempts == 1:
        notes.append(
            "one attempt each: an agent's own variation cannot be told from the difficulty of scenarios"
        )
    scored = [agent for agent in view.agents if agent.score is not None]
    if len(scored) > 1 and not view.n_ranked:
        notes.append("no scenario has a score of every agent: they have no ranks")
    if len(scored) > 1 and any(agent.against_first is None for agent in scored[1:]):
        notes.append("agents without a scenario that the first has scored too cannot be compared with it")
    unscored = sum(agent.attempts.unscored for agent in view.agents)
    if unscored:
        told = "1 attempt is unscored" if unscored == 1 else f"{unscored} attempts are unscored"
        notes.append(f"{told}: the bounds say what {'it' if unscored == 1 else 'they'} could change")
    if suspect := sum(agent.n_suspect for agent in view.agents):
        notes.append("1 score is suspect" if suspect == 1 else f"{suspect} scores are suspect")
    if any(agent.is_graded for agent in view.agents):
        notes.append("scores between 0 and 1 were given: only a full score counts as passed")
    if any(agent.score is not None and agent.score.method == "student" for agent in view.agents):
        notes.append("scores outside of 0 and 1 were given: only their spread bounds the intervals")
    return notes
