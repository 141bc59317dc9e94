"""Comparisons of two agents, of one job or of two, and the verdict of a gate."""

from typing import Literal

from pydantic import Field

from benchyard.models.base import Model
from benchyard.models.trials import SuspectRule

VerdictWord = Literal["pass", "fail", "inconclusive"]


class EstimateView(Model):
    """A mean with its 95 % confidence interval, and the numbers that they were made of."""

    mean: float
    low: float | None = None
    high: float | None = None
    """None where nothing bounds the mean: for a single score outside of 0 and 1."""
    n: int
    """Number of scenarios."""
    n_clusters: int
    """Number of independent groups of scenarios; without a cluster key, that of scenarios."""
    n_effective: float
    """Number of independent tries that would leave the same uncertainty."""
    method: str


class ComparedAgent(Model):
    """An agent of a job as a side of a comparison, on the scenarios that both sides have scored."""

    job_id: str
    job_name: str
    agent: int
    """Index into the job's agents."""
    label: str
    score: EstimateView | None = None
    n_attempts: int = 0
    """Attempts that count, on the shared scenarios."""
    unscored: int = 0
    """Attempts without a score, on the scenarios that both sides have tried."""
    bounds: tuple[float, float] | None = None
    """The mean with every unscored attempt counted as 0, and as 1."""
    n_suspect: int = 0
    cost_usd: float | None = None
    """Mean cost of an attempt, over scenarios; None where it is not known for all."""
    cost_interval: tuple[float, float] | None = None
    """The 95 % interval of it; None where costs have no spread."""
    working_ms: float | None = None
    """Mean working time of an attempt, over scenarios; None where it is not known for all."""
    working_interval: tuple[float, float] | None = None


class SetupDifference(Model):
    """A part of the set-up in which two jobs differ, so that a difference in scores may come from it."""

    what: str
    a: str
    b: str
    n_scenarios: int | None = None
    """Number of scenarios that it concerns; None where it concerns all."""
    weight: Literal["subject", "doubt"]
    """`subject`: compared on purpose, such as the model; `doubt`: makes the comparison unfair."""


class DifferenceView(Model):
    """A mean difference, second minus first, paired by scenario."""

    mean: float
    low: float | None = None
    high: float | None = None
    """None where nothing bounds the difference: amounts without any spread, or scores outside of 0 and 1."""
    n: int
    n_clusters: int
    method: str
    p: float | None = None
    """P-value of Student's test; None where no value has any spread."""


class FlipCounts(Model):
    """Scenarios that the second agent does better (won) or worse (lost) than the first."""

    won: int
    lost: int
    both: int
    """Passed by both with every attempt."""
    neither: int
    """Passed by none with any attempt."""
    expected: float | None = None
    """Number of the repeated scenarios at which equal agents would differ by chance; None without any."""
    n_repeated: int = 0
    """Scenarios with more than one attempt of a side: single attempts cannot tell what is chance."""
    differ_repeated: int = 0
    """Number of them at which the two differ."""


class ComparedScenario(Model):
    """A scenario with the mean score of each side."""

    scenario_id: str
    scenario_name: str
    a: float
    b: float
    attempts_a: int
    attempts_b: int
    p: float
    """P-value of this scenario alone, corrected for the number of scenarios (Benjamini and Hochberg)."""
    run_a: str | None = None
    run_b: str | None = None
    """A run of each side to look at."""


class Power(Model):
    """Differences that a comparison of this size can show, with a chance of 80 % and at a level of 5 %."""

    detectable: float
    """Smallest difference that is seen."""
    attempts_for_2_points: int | None = None
    """Attempts at each of these scenarios that show a difference of 0.02; None where no number does."""
    more_trials: int | None = None
    """Trials of both sides together that are missing for it."""
    more_usd: float | None = None
    more_ms: float | None = None
    """Dollars and working time of these, at the costs of this comparison."""
    of_attempts: float = 1.0
    """Share of the noise that further attempts at these scenarios make smaller."""


class RunningEvidence(Model):
    """Evidence about a margin that holds at every look, while a job still runs."""

    margin: float
    worse: float | None = None
    """E-value against "worse by the margin at most"; 40 refutes it. None for scores outside of 0 and 1."""
    not_worse: float | None = None
    """E-value against "worse by the margin at least"; 40 refutes it."""
    n: int
    """Scenarios of which every attempt of both sides has ended."""
    n_planned: int
    """Scenarios that both jobs have."""


class ComparisonView(Model):
    """Two agents on the scenarios they share: the difference, and whether it is more than noise."""

    a: ComparedAgent
    b: ComparedAgent
    is_same: bool = False
    """True if both sides are the same agent of the same job."""
    n_shared: int
    """Scenarios that both sides have scored."""
    only_a: int
    only_b: int
    """Scenarios that only one side has a score for."""
    cluster_key: str | None = None
    difference: DifferenceView | None = None
    """None without a shared scenario."""
    bounds: tuple[float, float] | None = None
    """The interval of the difference with unscored attempts counted against, and for, the second agent."""
    gate_bounds: tuple[float, float] | None = None
    """The interval of the difference that a gate rests on, wide enough to err in at most 2.5 %."""
    gate_unscored_bounds: tuple[float, float] | None = None
    """The same with unscored attempts counted against, and for, the second agent."""
    p: float | None = None
    """P-value over all attempts, with the scenarios as strata; for graded scores by shuffled labels, and over
    groups of scenarios where a key is given."""
    p_middle: float | None = None
    p_method: str = ""
    odds_ratio: float | None = None
    e_value: float | None = None
    """Evidence against "as often won as lost", valid at every look while jobs run; 20 refutes at 5 %."""
    flips: FlipCounts | None = None
    cost_usd: DifferenceView | None = None
    working_ms: DifferenceView | None = None
    power: Power | None = None
    running: RunningEvidence | None = None
    """Evidence before the end; None once both jobs have ended."""
    setup: list[SetupDifference] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    """Caveats of the comparison, one line each."""
    scenarios: list[ComparedScenario] = Field(default_factory=list)
    """Scenarios with different scores, the surest differences first."""


class GateView(Model):
    """The verdict of a gate, and the comparison that it rests on."""

    verdict: VerdictWord
    reason: str
    margin: float
    suspect: SuspectRule
    attempts_needed: int | None = None
    """Attempts at each scenario that would decide it if the difference stays; None if none would."""
    scenarios_needed: int | None = None
    """Scenarios like these that would decide it with as many attempts, where more attempts would not."""
    unscored_decides: bool = False
    """True if the scored attempts alone would decide it: only a score of the others can."""
    comparison: ComparisonView
