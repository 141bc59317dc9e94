"""The report of a job, or of a benchmark run: each figure with what it was made of and how sure it is."""

from typing import Any, Literal

from pydantic import Field

from benchyard.models.base import Model
from benchyard.models.comparisons import DifferenceView, EstimateView
from benchyard.models.jobs import AttemptCounts
from benchyard.models.trials import SuspectRule


class PassPointView(Model):
    """The chances that any, and that all, of k attempts at a scenario pass."""

    k: int
    any_passes: EstimateView
    """pass@k."""
    all_pass: EstimateView
    """pass^k."""
    n_scenarios: int
    """Scenarios with at least k attempts that count; the others are left out."""
    n_left_out: int


class AmountView(Model):
    """A mean of an attempt, such as its cost, with its 95 % interval over scenarios."""

    mean: float
    low: float | None = None
    high: float | None = None
    """None where the amounts have no spread to make an interval from."""
    n: int
    """Number of scenarios, or of trials for a stage."""
    total: float | None = None


class StageTime(Model):
    """The time that trials spent in one stage, in milliseconds."""

    name: str
    mean: float
    low: float | None = None
    high: float | None = None
    n: int
    """Number of trials that it was measured on; of large jobs, a part of them."""


class VarianceView(Model):
    """The parts of the uncertainty of a mean."""

    between_scenarios: float
    """Variance of the difficulty of scenarios."""
    within_scenarios: float
    """Variance of the attempts at one scenario."""
    error_of_scenarios: float
    """Standard error that would be left with endless attempts at these scenarios."""
    error_of_attempts: float
    """Standard error that would be left if these were all scenarios there are."""
    n: int
    """Scenarios with at least two attempts that count, from which the parts were estimated."""
    attempts: float
    """Mean number of attempts at these."""
    helps: Literal["attempts", "scenarios"]
    """The thing of which twice as many make the mean surer."""


class RankView(Model):
    """The rank of an agent, and the ranks it could have as far as differences are more than chance."""

    place: int
    best: int
    worst: int


class AgainstFirst(Model):
    """An agent against the first of its job, on the scenarios that both have scored."""

    difference: DifferenceView
    p: float
    p_method: str
    p_adjusted: float
    """Corrected for the number of agents that are held against the first (Holm)."""
    odds_ratio: float | None = None
    """Odds to pass, to those of the first; None where it has no value, or for graded scores."""
    cost_usd: DifferenceView | None = None
    """Difference in the cost of an attempt; None where it is not known for all attempts of both."""
    working_ms: DifferenceView | None = None
    """Difference in the working time of an attempt."""
    chance_better: float | None = None
    """Chance that it passes more often, from a uniform prior: a second opinion under 30 scenarios."""


class AgentReport(Model):
    """The results of one agent, and how sure they are."""

    agent: int
    """Index into the job's agents."""
    label: str
    agent_name: str
    model_name: str | None = None
    version: str | None = None
    n_planned: int
    """Attempts in the plan."""
    n_ended: int
    attempts: AttemptCounts = Field(default_factory=AttemptCounts)
    n_scenarios: int
    """Scenarios with a score."""
    score: EstimateView | None = None
    """The mean score; None as long as nothing is scored."""
    bounds: tuple[float, float] | None = None
    """The mean with every unscored attempt counted as 0, and as 1; None without unscored attempts."""
    posterior: tuple[float, float] | None = None
    """95 % interval from a uniform prior, of single attempts under 30 scenarios: a second opinion."""
    n_suspect: int = 0
    n_retries: int = 0
    pass_curve: list[PassPointView] = Field(default_factory=list)
    is_graded: bool = False
    """True if scores between 0 and 1 were given, so that passing is only a full score."""
    variance: VarianceView | None = None
    """None with a single attempt at each scenario, which cannot separate the parts."""
    n_flaky: int = 0
    """Scenarios of which it passed some attempts, and failed others."""
    consistency: float | None = None
    """Mean over scenarios of how far attempts agree, from 0 (a coin) to 1 (always the same)."""
    rank: RankView | None = None
    against_first: AgainstFirst | None = None
    cost_usd: AmountView | None = None
    """Cost of an attempt; None where it is not known for all attempts that asked a model."""
    usd_per_success: AmountView | None = None
    total_usd: float | None = None
    """Cost of all trials, those included that were superseded or have no score."""
    working_ms: AmountView | None = None
    tokens: AmountView | None = None
    stages: list[StageTime] = Field(default_factory=list)


class PowerRow(Model):
    """The difference between two agents that a job of some size shows with a chance of 80 %, at 5 %."""

    attempts: int
    scenarios: int
    detectable: float
    trials: int
    """Trials of both agents together."""
    usd: float | None = None
    hours: float | None = None
    """Dollars and hours of these, at this job's own figures and number of trials at once."""


class PowerReport(Model):
    """The differences that this benchmark can show, estimated from this job."""

    basis: str
    """Origin of the noise."""
    detectable: float
    """Smallest difference that a job like this one shows."""
    attempts_for_2_points: int | None = None
    """Attempts at each of these scenarios that show a difference of 0.02; None where no number does."""
    scenarios_for_2_points: int | None = None
    """Scenarios, with as many attempts as now, that show a difference of 0.02."""
    attempts_of_one_scenario: int
    """Attempts on each side that show that a single scenario went from passing half of the time to 75 %."""
    rows: list[PowerRow]


class ScenarioFinding(Model):
    """A scenario that is worth a look."""

    scenario_id: str
    scenario_name: str
    agent: int | None = None
    """Index of the agent that it is about; None where it is about all."""
    passed: int
    attempts: int
    mean: float
    consistency: float | None = None
    chance_to_see: float | None = None
    """Of a flaky one: the chance that so many attempts do not all end the same."""
    tau: float | None = None
    """Of a suspicious one: correlation with the agents' results elsewhere."""
    p: float | None = None


class ScenarioLists(Model):
    """Scenarios by the information they give; of each list at most 200, with the number of all."""

    n: int
    """Scenarios with a score."""
    n_flaky: int = 0
    flaky: list[ScenarioFinding] = Field(default_factory=list)
    """The least consistent first."""
    n_saturated: int = 0
    saturated: list[ScenarioFinding] = Field(default_factory=list)
    """Passed by all agents with all attempts."""
    n_impossible: int = 0
    impossible: list[ScenarioFinding] = Field(default_factory=list)
    """No attempt of any agent scored above 0."""
    n_suspicious: int = 0
    suspicious: list[ScenarioFinding] = Field(default_factory=list)
    """Better agents do worse here, by more than chance."""


class SetupFact(Model):
    """A part of the set-up that results depend on, with the number of trials or scenarios of each value."""

    what: str
    value: str
    count: int | None = None


class ReportView(Model):
    """The report of a job or of a benchmark run."""

    kind: Literal["job", "benchmark run"] = "job"
    id: str
    name: str
    state: str
    benchmark_name: str | None = None
    create_time_ms: int
    end_time_ms: int | None = None
    n_scenarios: int
    n_attempts: int
    n_planned: int
    n_ended: int
    suspect: SuspectRule = "keep"
    cluster_key: str | None = None
    agents: list[AgentReport] = Field(default_factory=list)
    groups: list[list[int]] = Field(default_factory=list)
    """Indexes of agents without significant differences, best first; an agent may be in several groups."""
    n_ranked: int = 0
    """Scenarios that ranks and groups rest on: those that every ranked agent has scored."""
    power: PowerReport | None = None
    scenarios: ScenarioLists
    setup: list[SetupFact] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)


class TableColumn(Model):
    """A column of a table: its values, or codes for a dictionary of texts."""

    values: list[Any] | None = None
    dictionary: list[str | None] | None = None
    codes: list[int] | None = None
    """Indexes into the dictionary, one for each row."""


class TableView(Model):
    """The trials of a job as columns, all of one length and order."""

    id: str
    n: int
    columns: dict[str, TableColumn]
