"""Two agents on the scenarios they share: the difference, and whether it is real and fair."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

from benchyard.models.comparisons import (
    ComparedAgent,
    ComparedScenario,
    ComparisonView,
    DifferenceView,
    EstimateView,
    FlipCounts,
    GateView,
    Power,
    RunningEvidence,
    SetupDifference,
)
from benchyard.models.jobs import ENDED_JOBS, Job
from benchyard.models.reports.baselines import is_run
from benchyard.models.trials import NEARLY_PASSED, SuspectRule, Trial
from benchyard.reports.evidence import ENOUGH, margin_evidence
from benchyard.reports.statistics.attempts import variance_parts
from benchyard.reports.statistics.differences import (
    Flips,
    Stratum,
    e_value,
    exact_test,
    flips,
    odds_ratio,
    paired_difference,
    permutation_test,
)
from benchyard.reports.statistics.means import Estimate, estimate
from benchyard.reports.statistics.multiple_tests import benjamini_hochberg
from benchyard.reports.statistics.power import NoiseParts, attempts_needed, detectable_difference
from benchyard.reports.statistics.verdicts import GATE_LEVEL, GateVerdict, difference_bounds, verdict

POINTS = 0.02
"""Difference for which the needed attempts are told."""
FEW_SCENARIOS = 30
_DIGITS = 9
_OWN_CODE = "those of one's own code, not known"


@dataclass(frozen=True)
class Side:
    """An agent of a job with its trials."""

    job: Job
    agent: int
    trials: Sequence[Trial]
    """Trials of this agent; superseded ones do not count."""
    rule: SuspectRule = "keep"

    @cached_property
    def rows(self) -> dict[str, "Row"]:
        """Return the counted attempts by scenario."""
        rows: dict[str, Row] = {}
        for trial in self.trials:
            if trial.is_superseded or not trial.has_ended:
                continue
            row = rows.setdefault(trial.scenario_id, Row(trial.scenario_name))
            row.add(trial, self.rule)
        return rows

    @property
    def is_run(self) -> bool:
        """Tell whether it is a benchmark run of the SDK, whose scenarios are begun one by one."""
        return is_run(self.job.id)

    @property
    def is_running(self) -> bool:
        """Tell whether some of its attempts have not ended, or not begun."""
        is_open = self.is_run and self.job.state not in ENDED_JOBS
        return is_open or any(_is_waiting(each) for each in self.trials)

    @property
    def label(self) -> str:
        """Return the name of its agent: `agent@version:model`."""
        return self.job.spec.agent_configs[self.agent].label


@dataclass
class Row:
    """The attempts of one agent at one scenario."""

    name: str
    scores: list[float] = field(default_factory=list)
    unscored: int = 0
    suspect: int = 0
    costs: list[float] = field(default_factory=list)
    n_asked: int = 0
    """Attempts that asked a model, whose cost ought to be known."""
    working: list[float] = field(default_factory=list)
    run_id: str | None = None
    trials: list[Trial] = field(default_factory=list)

    def add(self, trial: Trial, rule: SuspectRule) -> None:
        """Count an attempt."""
        self.trials.append(trial)
        score = trial.counts(rule)
        if score is None:
            self.unscored += 1
            return
        self.scores.append(score)
        self.suspect += trial.is_suspect
        self.run_id = trial.scenario_run_id or self.run_id
        if "cost_usd" in trial.usage:
            self.costs.append(trial.usage["cost_usd"])
        self.n_asked += bool(trial.usage.get("model_calls"))
        if trial.working_ms is not None:
            self.working.append(float(trial.working_ms))

    @property
    def mean(self) -> float:
        """Return the mean score of its scored attempts."""
        return fmean(self.scores)

    @property
    def mean_working(self) -> float | None:
        """Return the mean working time of an attempt."""
        return fmean(self.working) if self.working else None

    @property
    def passed(self) -> int:
        """Return the number of attempts that passed."""
        return sum(score >= NEARLY_PASSED for score in self.scores)

    @property
    def cost(self) -> float | None:
        """Return the mean cost of an attempt; None where it is not known for all."""
        return fmean(self.costs) if self.costs and len(self.costs) >= self.n_asked else None

    def bound(self, unscored_as: float) -> float:
        """Return the mean with each unscored attempt counted as this."""
        return (sum(self.scores) + unscored_as * self.unscored) / (len(self.scores) + self.unscored)


Clusters = Mapping[str, str]
"""Scenario id -> the group whose scenarios may succeed and fail together, such as a repository."""


def compare(
    a: Side,
    b: Side,
    clusters: Clusters | None = None,
    cluster_key: str | None = None,
    margin: float = 0.0,
) -> ComparisonView:
    """Compare the second agent with the first, on the scenarios that both have scored.

    The margin is only for the evidence while a job runs.
    """
    shared = [id for id, row in a.rows.items() if row.scores and id in b.rows and b.rows[id].scores]
    pairs = [(a.rows[id], b.rows[id]) for id in shared]
    groups = [clusters.get(id, id) for id in shared] if clusters is not None else None
    scored_a = sum(bool(row.scores) for row in a.rows.values())
    scored_b = sum(bool(row.scores) for row in b.rows.values())
    view = ComparisonView(
        a=_side(a, shared, b, groups),
        b=_side(b, shared, a, groups),
        is_same=a.job.id == b.job.id and a.agent == b.agent,
        n_shared=len(shared),
        only_a=scored_a - len(shared),
        only_b=scored_b - len(shared),
        cluster_key=cluster_key if clusters is not None else None,
        setup=setup_differences(a, b),
    )
    results = {**_tests(shared, pairs), **_differences(pairs, groups)} if pairs else {}
    return view.model_copy(
        update={
            **results,
            "bounds": _unscored_bounds(a, b, clusters),
            "power": _power(view, pairs),
            "running": _running(a, b, clusters, margin),
            "notes": _notes(a, b, view, pairs),
        }
    )


def _differences(pairs: Sequence[tuple[Row, Row]], groups: Sequence[str] | None) -> dict[str, Any]:
    return {
        "difference": _score_difference(pairs, groups),
        "gate_bounds": _gate_bounds(pairs, groups),
        "cost_usd": _mean_difference(pairs, groups, lambda row: row.cost),
        "working_ms": _mean_difference(pairs, groups, lambda row: row.mean_working),
    }


def _tests(ids: Sequence[str], pairs: Sequence[tuple[Row, Row]]) -> dict[str, Any]:
    strata = [
        Stratum(left.passed, len(left.scores), right.passed, len(right.scores)) for left, right in pairs
    ]
    is_binary = all(score in (0.0, 1.0) for pair in pairs for row in pair for score in row.scores)
    counts = flips(strata) if is_binary else _graded_flips(pairs)
    found: dict[str, Any] = {
        "flips": FlipCounts.model_validate(counts, from_attributes=True),
        "e_value": e_value(counts.won, counts.lost),
        "scenarios": _scenarios(ids, pairs, strata),
    }
    if not is_binary:
        p = permutation_test([(left.scores, right.scores) for left, right in pairs])
        return {**found, "p": p, "p_method": "labels shuffled among the attempts at each scenario"}
    test = exact_test(strata)
    return {
        **found,
        "p": test.p,
        "p_middle": test.p_middle,
        "p_method": "exact Cochran-Mantel-Haenszel test, scenarios as strata",
        "odds_ratio": odds_ratio(strata),
    }


def _graded_flips(pairs: Sequence[tuple[Row, Row]]) -> Flips:
    means = [(left.mean, right.mean) for left, right in pairs]
    return Flips(
        won=sum(b > a for a, b in means),
        lost=sum(b < a for a, b in means),
        both=sum(a >= NEARLY_PASSED and b >= NEARLY_PASSED for a, b in means),
        neither=sum(a == b == 0.0 for a, b in means),
        expected=None,
    )


def _side(side: Side, shared: Sequence[str], other: Side, groups: Sequence[str] | None) -> ComparedAgent:
    rows = [side.rows[id] for id in shared]
    # Scenarios without any scored attempt are part of what is unknown.
    tried = [row for id, row in side.rows.items() if id in other.rows]
    score = estimate([row.mean for row in rows], groups)
    costs = [row.cost for row in rows]
    known_costs = [cost for cost in costs if cost is not None]
    working = [milliseconds for row in rows for milliseconds in row.working]
    unscored = sum(row.unscored for row in tried)
    return ComparedAgent(
        job_id=side.job.id,
        job_name=side.job.name,
        agent=side.agent,
        label=side.label,
        score=estimate_view(score),
        n_attempts=sum(len(row.scores) for row in rows),
        unscored=unscored,
        bounds=(fmean(row.bound(0.0) for row in tried), fmean(row.bound(1.0) for row in tried))
        if unscored
        else None,
        n_suspect=sum(row.suspect for row in rows),
        cost_usd=fmean(known_costs) if rows and len(known_costs) == len(rows) else None,
        working_ms=fmean(working) if working else None,
    )


def estimate_view(score: Estimate | None) -> EstimateView | None:
    """Return a mean as the wire shows it; a single score outside of 0 and 1 has no interval."""
    if score is None:
        return None
    # JSON has no infinity.
    ends = {} if math.isfinite(score.low) else {"low": None, "high": None}
    return EstimateView.model_validate({**asdict(score), **ends})


def _difference(values: Sequence[float], groups: Sequence[str] | None) -> DifferenceView | None:
    found = paired_difference(values, groups)
    if found is None:
        return None
    return DifferenceView(
        mean=found.mean,
        low=found.mean if found.low is None else found.low,
        high=found.mean if found.high is None else found.high,
        n=found.n,
        n_clusters=found.n_clusters,
        method="paired t over scenarios",
        p=found.p,
    )


def _score_difference(
    pairs: Sequence[tuple[Row, Row]], groups: Sequence[str] | None
) -> DifferenceView | None:
    """Return the difference of the scores, which is bounded where it has no spread."""
    values = [right.mean - left.mean for left, right in pairs]
    found, bounds = _difference(values, groups), difference_bounds(values, groups)
    if found is None or bounds is None:
        return None
    return found.model_copy(
        update={
            "mean": round(found.mean, _DIGITS),
            "low": round(bounds.low, _DIGITS),
            "high": round(bounds.high, _DIGITS),
            "method": bounds.method,
        }
    )


def _gate_bounds(
    pairs: Sequence[tuple[Row, Row]], groups: Sequence[str] | None
) -> tuple[float, float] | None:
    values = [right.mean - left.mean for left, right in pairs]
    bounds = difference_bounds(values, groups, GATE_LEVEL)
    return (round(bounds.low, _DIGITS), round(bounds.high, _DIGITS)) if bounds else None


def _mean_difference(
    pairs: Sequence[tuple[Row, Row]], groups: Sequence[str] | None, value: Callable[[Row], float | None]
) -> DifferenceView | None:
    """Return the paired difference of a value that both sides must have at every scenario; else None."""
    differences = []
    for left, right in pairs:
        before, after = value(left), value(right)
        if before is None or after is None:
            return None
        differences.append(after - before)
    return _difference(differences, groups)


def _unscored_bounds(a: Side, b: Side, clusters: Clusters | None) -> tuple[float, float] | None:
    """Return the lower bound with unscored attempts against the second agent, and the upper with them for it.

    Scenarios of which a side has no scored attempt at all count too: they are part of what is unknown.
    """
    ids = [id for id in a.rows if id in b.rows]
    if not any(side.rows[id].unscored for side in (a, b) for id in ids):
        return None
    groups = [clusters.get(id, id) for id in ids] if clusters is not None else None
    worst = difference_bounds([b.rows[id].bound(0.0) - a.rows[id].bound(1.0) for id in ids], groups)
    best = difference_bounds([b.rows[id].bound(1.0) - a.rows[id].bound(0.0) for id in ids], groups)
    return (round(worst.low, _DIGITS), round(best.high, _DIGITS)) if worst and best else None


def _running(a: Side, b: Side, clusters: Clusters | None, margin: float) -> RunningEvidence | None:
    """Return the evidence of the scenarios that are over on both sides; None once all are."""
    if not a.is_running and not b.is_running:
        return None
    waiting = {each.scenario_id for side in (a, b) for each in side.trials if _is_waiting(each)}
    planned = sorted({*a.job.spec.scenario_ids} & {*b.job.spec.scenario_ids})
    groups = {id: clusters.get(id, id) if clusters is not None else id for id in planned}
    # A group counts when it is whole, or what is easy would come first.
    late = {groups[id] for id in planned if id in waiting or id not in a.rows or id not in b.rows}
    over = [id for id in planned if groups[id] not in late]
    pairs = [(a.rows[id], b.rows[id]) for id in over]
    if any(not 0.0 <= score <= 1.0 for pair in pairs for row in pair for score in row.scores):
        return RunningEvidence(margin=margin, n=len(over), n_planned=len(planned))
    found = margin_evidence(
        [right.bound(0.0) - left.bound(1.0) for left, right in pairs],
        [right.bound(1.0) - left.bound(0.0) for left, right in pairs],
        margin,
        [groups[id] for id in over] if clusters is not None else None,
        max(Counter(groups.values()).values(), default=1),
    )
    return RunningEvidence(
        margin=margin,
        worse=float(f"{found.worse:.6g}"),
        not_worse=float(f"{found.not_worse:.6g}"),
        n=found.n,
        n_planned=len(planned),
    )


def _is_waiting(trial: Trial) -> bool:
    return not trial.has_ended and not trial.is_superseded


def _noise(pairs: Sequence[tuple[Row, Row]]) -> NoiseParts:
    """Return the parts of the noise of a difference; with one attempt each, all of it is that of attempts."""
    differences = [right.mean - left.mean for left, right in pairs]
    mean = fmean(differences)
    total = sum((each - mean) ** 2 for each in differences) / max(1, len(differences) - 1)
    parts_a = variance_parts([left.scores for left, _ in pairs])
    parts_b = variance_parts([right.scores for _, right in pairs])
    if parts_a is None or parts_b is None:
        return NoiseParts(scenarios=0.0, attempts_a=total / 2, attempts_b=total / 2)
    of_attempts = fmean(
        parts_a.within_scenarios / len(left.scores) + parts_b.within_scenarios / len(right.scores)
        for left, right in pairs
    )
    scenarios = max(0.0, total - of_attempts)
    return NoiseParts(scenarios, parts_a.within_scenarios, parts_b.within_scenarios)


def _power(view: ComparisonView, pairs: Sequence[tuple[Row, Row]]) -> Power | None:
    if len(pairs) < 2:
        return None
    noise = _noise(pairs)
    attempts = fmean(len(row.scores) for pair in pairs for row in pair)
    if not (noise.scenarios or noise.attempts_a or noise.attempts_b):
        return None
    needed = attempts_needed(POINTS, len(pairs), noise)
    missing = None if needed is None else max(0, 2 * needed * len(pairs) - round(2 * attempts * len(pairs)))
    within = (noise.attempts_a + noise.attempts_b) / attempts
    costs, times = (view.a.cost_usd, view.b.cost_usd), (view.a.working_ms, view.b.working_ms)
    return Power(
        detectable=round(detectable_difference(len(pairs), noise, attempts), _DIGITS),
        attempts_for_2_points=needed,
        more_trials=missing,
        more_usd=_scaled(missing, costs),
        more_ms=_scaled(missing, times),
        of_attempts=round(within / (within + noise.scenarios), _DIGITS),
    )


def _scaled(count: int | None, amounts: Sequence[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return count * fmean(known) if count is not None and len(known) == len(amounts) else None


def _scenarios(
    ids: Sequence[str], pairs: Sequence[tuple[Row, Row]], strata: Sequence[Stratum]
) -> list[ComparedScenario]:
    adjusted = benjamini_hochberg([exact_test([each]).p for each in strata])
    rows = [
        ComparedScenario(
            scenario_id=id,
            scenario_name=left.name,
            a=round(left.mean, _DIGITS),
            b=round(right.mean, _DIGITS),
            attempts_a=len(left.scores),
            attempts_b=len(right.scores),
            p=p,
            run_a=left.run_id,
            run_b=right.run_id,
        )
        for id, (left, right), p in zip(ids, pairs, adjusted, strict=True)
        if left.mean != right.mean
    ]
    return sorted(rows, key=lambda row: (row.p, -abs(row.b - row.a), row.scenario_name))


def _notes(a: Side, b: Side, view: ComparisonView, pairs: Sequence[tuple[Row, Row]]) -> list[str]:
    notes = []
    if view.is_same:
        notes.append("both sides are the same agent of the same job: they are equal by identity")
    if not pairs:
        notes.append("the two share no scored scenario: nothing can be compared")
    elif len(pairs) < FEW_SCENARIOS:
        notes.append(f"only {len(pairs)} scenarios: few differences can be told from noise")
    if view.only_a or view.only_b:
        notes.append(
            f"left out: {view.only_a} scenarios only the first has a score for, {view.only_b} only the second"
        )
    for side, name in ((view.a, "first"), (view.b, "second")):
        if side.unscored:
            notes.append(
                f"{side.unscored} attempts of the {name} are unscored; the bounds say what they could change"
            )
        if side.n_suspect:
            notes.append(f"{side.n_suspect} scores of the {name} are suspect")
    if pairs and all(len(row.scores) == 1 for pair in pairs for row in pair):
        notes.append(
            "one attempt each: an agent's own variation cannot be told from a difference of one scenario"
        )
    for compared, name in ((a, "first"), (b, "second")):
        if compared.is_running:
            notes.append(f"the job of the {name} is still running")
    doubts = [each.what for each in view.setup if each.weight == "doubt"]
    if doubts:
        notes.append(f"the set-ups differ in {', '.join(doubts)}: a difference in scores may come from that")
    return notes


def setup_differences(a: Side, b: Side) -> list[SetupDifference]:
    """Return the parts of the set-up in which two sides differ, those compared on purpose first."""
    config_a, config_b = a.job.spec.agent_configs[a.agent], b.job.spec.agent_configs[b.agent]
    found = [
        _setup("agent", config_a.name, config_b.name, "subject"),
        _setup("version of the agent", config_a.version, config_b.version, "subject"),
        _setup("model", config_a.model_name, config_b.model_name, "subject"),
        _setup("options of the agent", _options(config_a.kwargs), _options(config_b.kwargs), "subject"),
        _setup("address of the model", config_a.base_url, config_b.base_url, "subject"),
    ]
    if a.job.id == b.job.id:
        return [each for each in found if each is not None]
    found += _orchestration(a, b)
    found += [
        _setup("rule for suspect scores", a.rule, b.rule),
        _revisions(a, b),
        _by_scenario("network of the devbox", a, b, lambda trial: trial.network),
        _by_scenario("network of the scorers", a, b, lambda trial: trial.scoring_network),
        _by_scenario("isolation of the scoring", a, b, lambda trial: trial.isolation),
        _conditions(a, b),
    ]
    return [each for each in found if each is not None]


def _orchestration(a: Side, b: Side) -> list[SetupDifference | None]:
    """Return the differences in how trials were carried out, which is not known of a benchmark run."""
    if a.is_run or b.is_run:
        told = [_OWN_CODE if side.is_run else "those of a job" for side in (a, b)]
        return [_setup("time limits, retries and concurrency", *told)]
    config_a, config_b = a.job.spec.agent_configs[a.agent], b.job.spec.agent_configs[b.agent]
    first, second = a.job.orchestrator, b.job.orchestrator
    return [
        _setup("time limit of the agent", config_a.timeout_seconds, config_b.timeout_seconds),
        _setup("factor of the time limits", first.multiplier, second.multiplier),
        _setup("concurrent trials", first.concurrency, second.concurrency),
        _setup("retries after failures of the infrastructure", first.retries, second.retries),
        _setup("budget of a trial", _budget(first.trial_budget), _budget(second.trial_budget)),
        _setup("budget of the job", _budget(first.job_budget), _budget(second.job_budget)),
        _setup("waits for providers", first.waits, second.waits),
    ]


def _setup(what: str, a: object, b: object, weight: str = "doubt") -> SetupDifference | None:
    if a == b:
        return None
    return SetupDifference.model_validate({"what": what, "a": _text(a), "b": _text(b), "weight": weight})


def _text(value: object) -> str:
    return "-" if value is None else str(value)


def _options(options: Mapping[str, str] | None) -> str | None:
    return ", ".join(f"{key}={value}" for key, value in sorted(options.items())) if options else None


def _budget(budget: object) -> str | None:
    return None if budget is None else str(budget)


def _revisions(a: Side, b: Side) -> SetupDifference | None:
    revisions_a = dict(zip(a.job.spec.scenario_ids, a.job.scenario_revisions, strict=False))
    revisions_b = dict(zip(b.job.spec.scenario_ids, b.job.scenario_revisions, strict=False))
    for side, revisions in ((a, revisions_a), (b, revisions_b)):
        # What was scored again counts with the revision whose scorers gave the score.
        revisions.update(
            {
                each.scenario_id: each.scored_revision
                for each in side.trials
                if each.scored_revision is not None
            }
        )
    changed = [
        id for id, revision in revisions_a.items() if id in revisions_b and revision != revisions_b[id]
    ]
    if not changed:
        return None
    return SetupDifference(
        what="revisions of scenarios",
        a=_text(revisions_a[changed[0]]),
        b=_text(revisions_b[changed[0]]),
        n_scenarios=len(changed),
        weight="doubt",
    )


def _by_scenario(what: str, a: Side, b: Side, value: Callable[[Trial], object]) -> SetupDifference | None:
    """Return a difference of what trials were given, over the scenarios that both sides have."""
    changed: Counter[tuple[str, str]] = Counter()
    for id, row in a.rows.items():
        if id in b.rows:
            values_a = {_text(value(each)) for each in row.trials if value(each) is not None}
            values_b = {_text(value(each)) for each in b.rows[id].trials if value(each) is not None}
            if values_a and values_b and values_a != values_b:
                changed[", ".join(sorted(values_a)), ", ".join(sorted(values_b))] += 1
    if not changed:
        return None
    (first, second), _ = changed.most_common(1)[0]
    return SetupDifference(what=what, a=first, b=second, n_scenarios=changed.total(), weight="doubt")


def _conditions(a: Side, b: Side) -> SetupDifference | None:
    """Return the numbers of attempts that the machine or the network touched, if they are far apart."""
    touched_a, touched_b = (
        sum(bool(each.conditions) for row in side.rows.values() for each in row.trials) for side in (a, b)
    )
    all_a, all_b = (sum(len(row.trials) for row in side.rows.values()) for side in (a, b))
    if not all_a or not all_b or abs(touched_a / all_a - touched_b / all_b) <= 0.05:
        return None
    return SetupDifference(
        what="attempts with a busy machine or a refused host",
        a=f"{touched_a} of {all_a}",
        b=f"{touched_b} of {all_b}",
        weight="doubt",
    )


def n_tried(comparison: ComparisonView) -> int:
    """Return the number of attempts of both sides, unscored ones included."""
    sides = (comparison.a, comparison.b)
    return sum(side.n_attempts + side.unscored for side in sides)


def gate(
    comparison: ComparisonView,
    margin: float,
    rule: SuspectRule = "keep",
    allowed_unscored: float = 0.0,
) -> GateView:
    """Return whether the second agent is worse than the first by more than a margin.

    It fails where the upper bound of the difference is below -margin, passes where the lower bound is above
    it, and is inconclusive otherwise. More unscored attempts than allowed count by their bounds. While a job
    runs, only evidence that holds at every look decides.
    """
    word, reason = _verdict(comparison, margin, rule, allowed_unscored)
    attempts = scenarios = None
    if word is GateVerdict.INCONCLUSIVE and comparison.running is None:
        attempts, scenarios = _deciding_sizes(comparison, margin)
    return GateView(
        verdict=word.value,
        reason=reason,
        margin=margin,
        suspect=rule,
        attempts_needed=attempts,
        scenarios_needed=None if attempts else scenarios,
        comparison=comparison,
    )


def _verdict(
    comparison: ComparisonView, margin: float, rule: SuspectRule, allowed_unscored: float
) -> tuple[GateVerdict, str]:
    difference = comparison.difference
    if rule == "fail" and comparison.b.n_suspect:
        return GateVerdict.FAIL, f"{comparison.b.n_suspect} of its scores are suspect"
    if comparison.is_same:
        return GateVerdict.PASS, "it is compared with itself"
    if comparison.running is not None:
        return _running_verdict(comparison.running, margin)
    if difference is None or comparison.gate_bounds is None:
        return GateVerdict.INCONCLUSIVE, "the two share no scored scenario"
    low, high = comparison.gate_bounds
    told = f"{difference.mean:+.3f} ({low:+.3f} to {high:+.3f})"
    unscored = comparison.a.unscored + comparison.b.unscored
    if comparison.bounds is not None and unscored > allowed_unscored:
        low, high = comparison.bounds
        told += f", {low:+.3f} to {high:+.3f} with {unscored} unscored attempts"
    word = verdict(low, high, margin)
    return word, f"{_reason(word, margin)}: {told}"


def _reason(word: GateVerdict, margin: float) -> str:
    reasons = {
        GateVerdict.FAIL: f"worse by more than {margin:g}",
        GateVerdict.PASS: f"not worse by more than {margin:g}",
        GateVerdict.INCONCLUSIVE: f"these results do not tell whether it is worse by more than {margin:g}",
    }
    return reasons[word]


def _running_verdict(evidence: RunningEvidence, margin: float) -> tuple[GateVerdict, str]:
    """Return the verdict before the end: a bound of an interval would be wrong more often at each look."""
    over = f"{evidence.n} of {evidence.n_planned} scenarios are over"
    if evidence.worse is None or evidence.not_worse is None or evidence.margin != margin:
        return GateVerdict.INCONCLUSIVE, f"a job still runs, and these scores are judged at its end: {over}"
    word = GateVerdict.INCONCLUSIVE
    if evidence.worse >= ENOUGH:
        word = GateVerdict.FAIL
    elif evidence.not_worse >= ENOUGH:
        word = GateVerdict.PASS
    found = (
        f"e-value {evidence.worse:.3g} for worse, {evidence.not_worse:.3g} against it; {ENOUGH:.0f} decides"
    )
    return word, f"{_reason(word, margin)}, while a job runs: {found}, {over}"


def _deciding_sizes(comparison: ComparisonView, margin: float) -> tuple[int | None, int | None]:
    """Return the attempts at each scenario, and the scenarios, at which the interval would leave -margin.

    The mean is taken to stay. More attempts help against the part of the noise that comes from them only.
    """
    difference, power = comparison.difference, comparison.power
    if difference is None or comparison.gate_bounds is None:
        return None, None
    if not (distance := abs(difference.mean + margin)):
        return None, None
    low, high = comparison.gate_bounds
    if power is None:
        # No spread at all: more attempts at these scenarios would hardly show one.
        room = 1 + difference.mean if difference.mean > -margin else 1 - difference.mean
        # All that is unlikely to be unseen in so many must still fit between the mean and -margin.
        unseen = math.log((1 - GATE_LEVEL) / 2) / math.log1p(-distance / room) if distance < room else 1
        return None, _at_most_needed(max(comparison.n_shared + 1, math.ceil(unseen)))
    wanted = (distance / ((high - low) / 2)) ** 2
    scenarios = max(comparison.n_shared + 1, math.ceil(comparison.n_shared / wanted))
    attempts = (comparison.a.n_attempts + comparison.b.n_attempts) / 2 / max(1, comparison.n_shared)
    left = wanted - (1 - power.of_attempts)
    needed = None if left <= 0 else max(round(attempts) + 1, math.ceil(attempts * power.of_attempts / left))
    return _at_most_needed(needed, 1_000), _at_most_needed(scenarios)


def _at_most_needed(count: int | None, most: int = 100_000) -> int | None:
    return None if count is None or count > most else count
