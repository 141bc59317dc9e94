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
from benchyard.models.job_plans import count_text
from benchyard.models.jobs import ENDED_JOBS, AgentConfig, AgentEnvironment, Job
from benchyard.models.reports.baselines import is_run
from benchyard.models.trials import NEARLY_PASSED, SuspectRule, Trial
from benchyard.reports.evidence import ENOUGH, margin_evidence
from benchyard.reports.statistics.differences import (
    Flips,
    Stratum,
    cluster_means,
    difference_parts,
    e_value,
    exact_test,
    flips,
    odds_ratio,
    paired_difference,
    shuffle_test,
    sign_test,
    strata_test,
)
from benchyard.reports.statistics.distributions import student_quantile
from benchyard.reports.statistics.means import Amount, Estimate, amount, estimate
from benchyard.reports.statistics.multiple_tests import benjamini_hochberg
from benchyard.reports.statistics.power import attempts_needed, detectable_difference
from benchyard.reports.statistics.verdicts import (
    GATE_LEVEL,
    NONE_SEEN,
    GateVerdict,
    difference_bounds,
    gate_bounds,
    gate_bounds_expected,
    least_number,
    verdict,
)

POINTS = 0.02
"""Difference for which the needed attempts are told."""
FEW_SCENARIOS = 30
_DIGITS = 9
_MOST_NAMES = 20
_MOST_ATTEMPTS_NEEDED = 1_000
_MOST_SCENARIOS = 100_000
"""Sizes up to which a gate says what would decide it."""
_NO_NOISE = 1e-15
"""Variance below which it comes from rounding."""
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

    @property
    def is_bounded(self) -> bool:
        """Tell whether its scores are between 0 and 1, so that unscored attempts are taken to be so too."""
        return all(0.0 <= score <= 1.0 for score in self.scores)

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
    results = {**_tests(shared, pairs, groups), **_differences(pairs, groups)} if pairs else {}
    return view.model_copy(
        update={
            **results,
            **_unscored_bounds(a, b, clusters),
            "power": _power(view, pairs, groups),
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


def _tests(
    ids: Sequence[str], pairs: Sequence[tuple[Row, Row]], groups: Sequence[str] | None
) -> dict[str, Any]:
    strata = [
        Stratum(left.passed, len(left.scores), right.passed, len(right.scores)) for left, right in pairs
    ]
    is_binary = all(score in (0.0, 1.0) for pair in pairs for row in pair for score in row.scores)
    counts = flips(strata) if is_binary else _graded_flips(pairs)
    found: dict[str, Any] = {
        "flips": FlipCounts.model_validate(counts, from_attributes=True),
        "e_value": e_value(counts.won, counts.lost),
        "scenarios": _scenarios(ids, pairs, strata),
        "odds_ratio": odds_ratio(strata) if is_binary else None,
    }
    if groups is not None:
        return {**found, **_cluster_tests(pairs, groups)}
    if not is_binary:
        p, method = shuffle_test([(left.scores, right.scores) for left, right in pairs])
        return {**found, "p": p, "p_method": method}
    test = strata_test(strata)
    return {**found, "p": test.p, "p_middle": test.p_middle, "p_method": test.method}


def _cluster_tests(pairs: Sequence[tuple[Row, Row]], groups: Sequence[str]) -> dict[str, Any]:
    """Return the tests of groups of scenarios, of which each group is one result."""
    values = [right.mean - left.mean for left, right in pairs]
    means = cluster_means(values, groups)
    found = paired_difference(values, groups)
    if found is None or found.p is None:
        p, method = sign_test(means), "sign test of the groups' mean differences"
    else:
        p, method = found.p, "Student's test over groups of scenarios"
    evidence = e_value(sum(mean > 0 for mean in means), sum(mean < 0 for mean in means))
    return {"p": p, "p_method": method, "e_value": evidence}


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
    cost = _mean_amount(rows, groups, lambda row: row.cost)
    working = _mean_amount(rows, groups, lambda row: row.mean_working)
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
        if unscored and all(row.is_bounded for row in tried)
        else None,
        n_suspect=sum(row.suspect for row in rows),
        cost_usd=cost.mean if cost else None,
        cost_interval=_interval(cost),
        working_ms=working.mean if working else None,
        working_interval=_interval(working),
    )


def _mean_amount(
    rows: Sequence[Row], groups: Sequence[str] | None, value: Callable[[Row], float | None]
) -> Amount | None:
    """Return the mean over scenarios of a value; None where it is not known for all."""
    values = [found for row in rows if (found := value(row)) is not None]
    return amount(values, groups) if len(values) == len(rows) else None


def _interval(found: Amount | None) -> tuple[float, float] | None:
    if found is None or found.low is None or found.high is None:
        return None
    return found.low, found.high


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
        low=found.low,
        high=found.high,
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
    found = _difference(values, groups)
    if found is None:
        return None
    found = found.model_copy(update={"mean": round(found.mean, _DIGITS)})
    bounds = difference_bounds(values, groups, is_bounded=_are_bounded(pairs))
    if bounds is None:
        return found.model_copy(update={"method": "no spread, and scores without ends: nothing bounds it"})
    low, high = _rounded(bounds.low, bounds.high)
    return found.model_copy(update={"low": low, "high": high, "method": bounds.method})


def _are_bounded(pairs: Sequence[tuple[Row, Row]]) -> bool:
    return all(row.is_bounded for pair in pairs for row in pair)


def _rounded(low: float, high: float) -> tuple[float, float]:
    return round(low, _DIGITS), round(high, _DIGITS)


def _gate_bounds(
    pairs: Sequence[tuple[Row, Row]], groups: Sequence[str] | None
) -> tuple[float, float] | None:
    values = [right.mean - left.mean for left, right in pairs]
    bounds = gate_bounds(values, groups, is_bounded=_are_bounded(pairs))
    return _rounded(bounds.low, bounds.high) if bounds else None


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


def _unscored_bounds(a: Side, b: Side, clusters: Clusters | None) -> dict[str, tuple[float, float]]:
    """Return the lower bound with unscored attempts against the second agent, and the upper with them for it.

    Each is made for people and for a gate. Scenarios of which a side has no scored attempt at all count too:
    they are part of what is unknown. Scores outside of 0 and 1 bound nothing that is unscored.
    """
    ids = [id for id in a.rows if id in b.rows]
    rows = [side.rows[id] for side in (a, b) for id in ids]
    if not any(row.unscored for row in rows) or not all(row.is_bounded for row in rows):
        return {}
    groups = [clusters.get(id, id) for id in ids] if clusters is not None else None
    worst = [b.rows[id].bound(0.0) - a.rows[id].bound(1.0) for id in ids]
    best = [b.rows[id].bound(1.0) - a.rows[id].bound(0.0) for id in ids]
    found = {}
    for name, bounds in (("bounds", difference_bounds), ("gate_unscored_bounds", gate_bounds)):
        low, high = bounds(worst, groups), bounds(best, groups)
        if low is not None and high is not None:
            found[name] = _rounded(low.low, high.high)
    return found


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


def _power(
    view: ComparisonView, pairs: Sequence[tuple[Row, Row]], groups: Sequence[str] | None
) -> Power | None:
    noise = difference_parts([(left.scores, right.scores) for left, right in pairs], groups)
    if noise is None or noise.scenarios + noise.attempts_a + noise.attempts_b < _NO_NOISE:
        return None
    attempts = fmean(len(row.scores) for pair in pairs for row in pair)
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
        notes.append(f"only {count_text(len(pairs), 'scenario')}: few differences can be told from noise")
    if view.only_a or view.only_b:
        first = count_text(view.only_a, "scenario")
        notes.append(f"left out: {first} only the first has a score for, {view.only_b} only the second")
    if pairs and not _are_bounded(pairs):
        notes.append("scores outside of 0 and 1 were given: only their spread bounds what they tell")
    notes += [*_side_notes(view.a, "first"), *_side_notes(view.b, "second")]
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


def _side_notes(side: ComparedAgent, name: str) -> list[str]:
    notes = []
    if side.unscored:
        told = f"{count_text(side.unscored, 'attempt')} of the {name} {_are(side.unscored)} unscored"
        notes.append(f"{told}; the bounds say what {_they(side.unscored)} could change")
    if side.n_suspect:
        told = count_text(side.n_suspect, "score")
        notes.append(f"{told} of the {name} {_are(side.n_suspect)} suspect")
    return notes


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _they(count: int) -> str:
    return "it" if count == 1 else "they"


def setup_differences(a: Side, b: Side) -> list[SetupDifference]:
    """Return the parts of the set-up in which two sides differ, those compared on purpose first."""
    config_a, config_b = a.job.spec.agent_configs[a.agent], b.job.spec.agent_configs[b.agent]
    found = [
        _setup("agent", config_a.name, config_b.name, "subject"),
        _setup("version of the agent", config_a.version, config_b.version, "subject"),
        _setup("model", config_a.model_name, config_b.model_name, "subject"),
        _setup("options of the agent", _options(config_a.kwargs), _options(config_b.kwargs), "subject"),
        *_environments(config_a, config_b),
        _setup("address of the model", config_a.base_url, config_b.base_url, "subject"),
    ]
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


def _environments(a: AgentConfig, b: AgentConfig) -> list[SetupDifference | None]:
    """Return the variables and secrets that two agents were given differently, by their names only."""
    first, second = a.agent_environment or AgentEnvironment(), b.agent_environment or AgentEnvironment()
    return [
        _changed_names("environment of the agent", first.environment_variables, second.environment_variables),
        _changed_names("secrets of the agent", first.secrets, second.secrets),
    ]


def _changed_names(
    what: str, a: Mapping[str, str] | None, b: Mapping[str, str] | None
) -> SetupDifference | None:
    """Return the names whose values differ; the values themselves may be secret."""
    before, after = a or {}, b or {}
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    if not changed:
        return None
    told = (
        ", ".join(name for name in changed[:_MOST_NAMES] if name in before) or "-",
        ", ".join(
            f"{name}{' (another)' * (name in before)}" for name in changed[:_MOST_NAMES] if name in after
        )
        or "-",
    )
    return SetupDifference(what=what, a=told[0], b=told[1], weight="subject")


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
    is_open = word is GateVerdict.INCONCLUSIVE and comparison.running is None
    # Scores that would decide alone need no more of them.
    of_unscored = is_open and _scored_verdict(comparison, margin) is not GateVerdict.INCONCLUSIVE
    if is_open and not of_unscored:
        attempts, scenarios = _deciding_sizes(comparison, margin)
    return GateView(
        verdict=word.value,
        reason=reason,
        margin=margin,
        suspect=rule,
        attempts_needed=attempts,
        scenarios_needed=None if attempts else scenarios,
        unscored_decides=of_unscored,
        comparison=comparison,
    )


def _scored_verdict(comparison: ComparisonView, margin: float) -> GateVerdict:
    """Return the verdict of what is scored."""
    if comparison.gate_bounds is None:
        return GateVerdict.INCONCLUSIVE
    return verdict(*comparison.gate_bounds, margin)


def _verdict(
    comparison: ComparisonView, margin: float, rule: SuspectRule, allowed_unscored: float
) -> tuple[GateVerdict, str]:
    difference = comparison.difference
    if rule == "fail" and comparison.b.n_suspect:
        count = comparison.b.n_suspect
        return GateVerdict.FAIL, f"{count} of its scores {_are(count)} suspect"
    if comparison.is_same:
        return GateVerdict.PASS, "it is compared with itself"
    if comparison.running is not None:
        return _running_verdict(comparison.running, margin)
    if difference is None:
        return GateVerdict.INCONCLUSIVE, "the two share no scored scenario"
    if comparison.gate_bounds is None:
        return GateVerdict.INCONCLUSIVE, "scores outside of 0 and 1 that do not vary tell no difference"
    low, high = comparison.gate_bounds
    told = f"{difference.mean:+.3f} ({low:+.3f} to {high:+.3f})"
    unscored = comparison.a.unscored + comparison.b.unscored
    if unscored <= allowed_unscored:
        word = verdict(low, high, margin)
        return word, f"{_reason(word, margin)}: {told}"
    attempts = count_text(unscored, "unscored attempt")
    if comparison.gate_unscored_bounds is None:
        reason = f"nothing bounds {attempts} beside scores outside of 0 and 1: {told}"
        return GateVerdict.INCONCLUSIVE, reason
    # What is unscored never makes a verdict surer.
    low = min(low, comparison.gate_unscored_bounds[0])
    high = max(high, comparison.gate_unscored_bounds[1])
    word = verdict(low, high, margin)
    return word, f"{_reason(word, margin)}: {told}, {low:+.3f} to {high:+.3f} with {attempts}"


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
    mean = difference.mean
    if not (distance := abs(mean + margin)):
        return None, None
    if difference.method == NONE_SEEN:
        # No spread at all: more attempts at these scenarios would hardly show one.
        room = 1 + mean if mean > -margin else 1 - mean
        # All that is unlikely to be unseen in so many must still fit between the mean and -margin.
        unseen = math.log((1 - GATE_LEVEL) / 2) / math.log1p(-distance / room) if distance < room else 1
        return None, _at_most_needed(max(comparison.n_shared + 1, math.ceil(unseen)))
    groups = difference.n_clusters
    error = (comparison.gate_bounds[1] - mean) / student_quantile((1 + GATE_LEVEL) / 2, groups - 1)
    variance, has_ends = error**2 * groups, _has_ends(comparison)

    def decides(count: int, attempts: float = 1.0) -> bool:
        noise = variance * (1 - share + share / attempts)
        low, high = gate_bounds_expected(mean, noise, count, is_bounded=has_ends)
        return verdict(low, high, margin) is not GateVerdict.INCONCLUSIVE

    share = 0.0 if power is None else power.of_attempts
    size = comparison.n_shared / groups
    more_groups = least_number(decides, groups + 1, _MOST_SCENARIOS)
    scenarios = None if more_groups is None else math.ceil(more_groups * size)
    tried = max(1.0, (comparison.a.n_attempts + comparison.b.n_attempts) / 2 / comparison.n_shared)
    attempts = least_number(
        lambda number: decides(groups, number / tried), round(tried) + 1, _MOST_ATTEMPTS_NEEDED
    )
    return attempts, _at_most_needed(scenarios)


def _has_ends(comparison: ComparisonView) -> bool:
    return all(side.score is None or side.score.method != "student" for side in (comparison.a, comparison.b))


def _at_most_needed(count: int | None) -> int | None:
    return None if count is None or count > _MOST_SCENARIOS else count
