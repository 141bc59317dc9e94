"""Results over time: trends of a benchmark, the history of a scenario, and insights of a benchmark."""

from typing import Literal

from pydantic import Field

from benchyard.models.base import Model
from benchyard.models.comparisons import EstimateView

SourceKind = Literal["job", "benchmark_run", "scenario_run"]


class ChangeView(Model):
    """A value against the pooled earlier ones, paired by scenario."""

    difference: float
    """Mean over the shared scenarios of the same revision."""
    n: int
    p: float
    p_adjusted: float
    """Corrected for the number of points of all series (Benjamini and Hochberg)."""
    is_change: bool
    """True if it begins to differ here: at 5 %, after the correction."""


class TrendPoint(Model):
    """A job of an agent, or a benchmark run."""

    kind: SourceKind
    id: str
    name: str
    time_ms: int
    label: str
    version: str | None = None
    n_scenarios: int
    n_attempts: int
    unscored: int = 0
    n_suspect: int = 0
    """Number of scores that may not be earned."""
    score: EstimateView | None = None
    cost_usd: EstimateView | None = None
    """Of one attempt; None where it is not known for all."""
    working_ms: EstimateView | None = None
    score_change: ChangeView | None = None
    """None for the first point, and without a shared scenario."""
    cost_change: ChangeView | None = None
    time_change: ChangeView | None = None
    notes: list[str] = Field(default_factory=list)
    """Differences from the previous point: in the version, in scenarios and in their revisions."""


class TrendSeries(Model):
    """An agent on a benchmark over time."""

    agent_name: str
    """The agent with its model, without its version."""
    points: list[TrendPoint] = Field(default_factory=list)


class TrendsView(Model):
    """The agents of a benchmark over time."""

    benchmark_id: str
    benchmark_name: str
    series: list[TrendSeries] = Field(default_factory=list)
    n_left_out: int = 0
    """Older jobs and runs that were not read."""


class HistoryPoint(Model):
    """The attempts of one agent in one job, or of one run, at a scenario."""

    kind: SourceKind
    id: str
    name: str
    time_ms: int
    label: str
    revision: int | None = None
    n_attempts: int
    passed: int
    mean: float | None = None
    unscored: int = 0
    n_suspect: int = 0
    """Number of scores that may not be earned."""
    is_flaky: bool = False
    """True if some attempts passed and others did not."""


class ScenarioAgent(Model):
    """An agent at a scenario, in one revision of it, over all jobs."""

    label: str
    revision: int | None = None
    n_attempts: int
    passed: int
    score: EstimateView | None = None
    """Mean over the attempts."""
    n_jobs: int
    n_flaky: int
    """Jobs in which some attempts passed and others did not."""
    consistency: float | None = None
    """From 0 (a coin) to 1 (always the same); None for a single attempt."""


class ScorerNoiseView(Model):
    """The share of repeated scorings of the same final state that changed the score."""

    n_states: int
    """Final states that were scored more than once by the same scorers."""
    n_scorings: int
    """Scorings after the first of each."""
    n_changed: int
    """Number of those whose score differs from the first one."""
    share: float | None = None
    low: float | None = None
    high: float | None = None
    """The share that changed, with its exact 95 % interval as if all were independent."""
    scores: list[float] = Field(default_factory=list)
    """The scores in order, where there is a single final state."""


class ScenarioHistoryView(Model):
    """A scenario over all jobs and runs."""

    scenario_id: str
    scenario_name: str
    revision: int
    agents: list[ScenarioAgent] = Field(default_factory=list)
    points: list[HistoryPoint] = Field(default_factory=list)
    """Oldest first."""
    scorer_noise: ScorerNoiseView | None = None
    """None if no final state was scored twice."""
    n_left_out: int = 0
    """Older attempts of jobs that were not read."""


class LeaderRow(Model):
    """An agent on a benchmark, with all its attempts at the present revisions of the scenarios."""

    label: str
    n_jobs: int
    n_scenarios: int
    n_attempts: int
    unscored: int
    n_suspect: int = 0
    """Number of scores that may not be earned."""
    score: EstimateView
    place: int
    best: int
    worst: int
    """The places it may have: it is better than some and worse than others beyond chance."""
    cost_usd: float | None = None
    """Mean of an attempt; None where it is not known for all."""
    cost_interval: tuple[float, float] | None = None
    """The 95 % interval of it; None where costs have no spread."""
    working_ms: float | None = None
    """Mean of an attempt; None where it is not known for all."""
    working_interval: tuple[float, float] | None = None


class ScenarioInsight(Model):
    """The worth of a scenario for the comparison of agents."""

    scenario_id: str
    scenario_name: str
    mean: float | None = None
    """Mean over agents: how easy it is."""
    n_agents: int
    n_attempts: int
    n_flaky: int
    """Agents of which some attempts passed and others did not."""
    tau: float | None = None
    """Correlation with the agents' means elsewhere: how well it separates agents."""
    p: float | None = None
    """Chance of so low a correlation without any information, corrected for the number of scenarios."""
    kind: Literal["saturated", "impossible", "suspicious"] | None = None


class PowerCellView(Model):
    """The difference that a comparison of some size shows four times of five."""

    attempts: int
    scenarios: int
    detectable: float


class InsightsView(Model):
    """Insights of a benchmark from all jobs and runs on it."""

    benchmark_id: str
    benchmark_name: str
    n_scenarios: int
    n_common: int = 0
    """Scenarios that all agents of the leader board have a score for; ranks are made of these."""
    leaders: list[LeaderRow] = Field(default_factory=list)
    groups: list[list[str]] = Field(default_factory=list)
    """Agents without significant differences, best first; an agent may be in several groups."""
    left_out: list[str] = Field(default_factory=list)
    """Agents with fewer than half of the scenarios, which would have no fair place."""
    scenarios: list[ScenarioInsight] = Field(default_factory=list)
    """The hardest first."""
    power: list[PowerCellView] = Field(default_factory=list)
    n_left_out: int = 0
    """Older jobs and runs that were not read."""
