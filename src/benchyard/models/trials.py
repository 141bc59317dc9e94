"""A trial: one attempt of one agent at one scenario inside a job, and what became of it."""

from enum import StrEnum
from typing import Literal

from pydantic import Field, computed_field

from benchyard.models.base import Columns, Model, Record
from benchyard.models.scenarios import Isolation


class TrialState(StrEnum):
    """Where a trial is: waiting, in one of its stages, or at its end."""

    QUEUED = "queued"
    PROVISIONING = "provisioning"
    SETTING_UP = "setting_up"
    RUNNING = "running"
    SCORING = "scoring"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELED = "canceled"


ENDED_TRIALS = frozenset({TrialState.COMPLETED, TrialState.FAILED, TrialState.TIMEOUT, TrialState.CANCELED})
OutcomeState = Literal["COMPLETED", "FAILED", "TIMEOUT", "CANCELED"]

FailureKind = Literal["agent", "scenario", "scorer", "infrastructure", "timeout", "budget", "cancelled"]
"""Whose failure it is: only those of `AGENTS_OWN` are the agent's."""
AGENTS_OWN = frozenset({"agent", "timeout", "budget"})

EndedBy = Literal["timeout", "budget"]
"""What ended the agent before it ended itself; what it left was scored all the same."""

TrialNetwork = Literal["none", "gateway", "allow-list", "open"]
"""What a trial's devbox could reach: nothing, the gateway only, what a policy lists too, or anything."""

SuspectRule = Literal["keep", "zero", "fail"]
"""What becomes of suspect scores: they count and are marked, they count 0, or they fail the job's gate."""

AttemptKind = Literal["passed", "not_passed", "crashed", "unscored"]
"""What became of a trial, in the words that everything for people uses."""
PASSED = 1.0
NEARLY_PASSED = PASSED - 1e-9
"""A weighted sum of full marks may miss 1 by what floats leave out."""


class FailureReason(Model):
    """Why a trial has no score; the wire's two fields, and whose failure it is."""

    exception_type: str
    exception_message: str
    kind: FailureKind = "infrastructure"
    stage: str | None = None

    @property
    def told(self) -> str:
        """Whose failure it is and why, in a line; a message that begins with whose it is says it once."""
        begin = self.exception_message.partition(":")[0]
        is_said = self.kind in begin.split()
        return self.exception_message if is_said else f"{self.kind}: {self.exception_message}"


class Stage(Model):
    """One stage of a trial, when it was over."""

    name: str
    """`provision`, `setup`, `agent`, `scoring` or `teardown`; `agent-2` and the like in later rounds."""
    start_ms: int
    end_ms: int


class TrialRound(Model):
    """One round of a trial whose scenario has several."""

    number: int
    name: str | None = None
    """Of the step; tries have none."""
    score: float | None = None
    rewards: dict[str, float] = Field(default_factory=dict)
    exit_status: int | None = None
    ended_by: EndedBy | None = None
    start_time_ms: int | None = None
    end_time_ms: int | None = None
    """When its agent began and ended; None where nothing was run."""

    @property
    def agent_ms(self) -> int:
        """How long its agent worked."""
        return max(0, (self.end_time_ms or 0) - (self.start_time_ms or 0)) if self.end_time_ms else 0


class ScoreRecord(Model):
    """A score that a trial had before it was scored again."""

    score: float | None = None
    scenario_revision: int | None = None


class Trial(Record):
    """A trial as it is kept. A retry is a new one beside it, in the same place of the job's plan."""

    job_id: str
    agent: int = 0
    """Which of the job's agents."""
    scenario: int = 0
    """Which of the job's scenarios."""
    scenario_id: str
    scenario_name: str
    attempt: int = 1
    retry: int = 0
    """Counts what was tried before in this place and did not count."""
    state: TrialState = TrialState.QUEUED
    is_superseded: bool = False
    """Another one took its place: it does not count any more."""
    n_lost: int = 0
    """How many before it in this place the infrastructure failed, one after the other."""
    scenario_run_id: str | None = None
    devbox_id: str | None = None
    network: TrialNetwork | None = None
    scoring_network: TrialNetwork | None = None
    isolation: Isolation | None = None
    isolation_reason: str | None = None
    score: float | None = None
    rewards: dict[str, float] = Field(default_factory=dict)
    """What was counted beside the score, by name."""
    conditions: list[str] = Field(default_factory=list)
    """What the network or the machine did meanwhile, one line each."""
    rounds: list[TrialRound] = Field(default_factory=list)
    """Empty where its scenario has but one round."""
    suspicions: list[str] = Field(default_factory=list)
    """Why its score may not be earned, the weightiest first."""
    ended_by: EndedBy | None = None
    exit_status: int | None = None
    failure: FailureReason | None = None
    start_time_ms: int | None = None
    end_time_ms: int | None = None
    stages: list[Stage] = Field(default_factory=list)
    usage: dict[str, float] = Field(default_factory=dict)
    """Tokens and cost, when they are known."""
    scored_revision: int | None = None
    """Of the scenario, whose scorers gave the score."""
    answer_failure: str | None = None
    """How its answer made a scorer fail, which counts 0 for that scorer."""
    scorer_note: str | None = None
    """What the first scorer said that did not give 1; None where all did."""
    earlier_scores: list[ScoreRecord] = Field(default_factory=list)
    rescorings: int = 0
    """The number of the job's last rescoring that it was a part of."""
    rescore_note: str | None = None
    """Why it could not be scored again, when that was tried last."""
    activity: str | None = None
    """What it waits for, where that takes long: an image that is built."""
    preparing_ms: int = 0
    """How long it waited for that, at its beginning."""

    def columns(self) -> Columns:
        """Found by scenario, state and job."""
        return Columns(name=self.scenario_name, status=self.state, parent=self.job_id)

    @property
    def has_ended(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state in ENDED_TRIALS

    @property
    def place(self) -> tuple[int, int, int]:
        """Its place in the plan of the job."""
        return self.agent, self.scenario, self.attempt

    @property
    def counted_score(self) -> float | None:
        """What it counts in a mean: its score, 0 for a failure of the agent, None for what is left out."""
        if self.state is TrialState.COMPLETED:
            return self.score
        is_own = self.has_ended and self.failure is not None and self.failure.kind in AGENTS_OWN
        return 0.0 if is_own else None

    @property
    def is_suspect(self) -> bool:
        """Whether it counts with a score that may not be earned."""
        return bool(self.suspicions) and bool(self.counted_score)

    def counts(self, rule: "SuspectRule") -> float | None:
        """What it counts in a mean where suspect scores are treated by a rule."""
        return 0.0 if rule == "zero" and self.is_suspect else self.counted_score

    def outcome(self, rule: "SuspectRule" = "keep") -> "AttemptKind":
        """What became of it once it has ended, in the words that everything for people uses."""
        score = self.counts(rule)
        if score is None:
            return "unscored"
        if self.state is not TrialState.COMPLETED:
            return "crashed"
        return "passed" if score >= NEARLY_PASSED else "not_passed"

    @property
    def is_unscored(self) -> bool:
        """Whether it has ended and is left out: the infrastructure, a scorer or somebody's cancel did it."""
        return self.has_ended and self.counted_score is None

    @property
    def duration_ms(self) -> int | None:
        """How long it took, or takes by now."""
        if self.start_time_ms is None or self.end_time_ms is None:
            return None
        return self.end_time_ms - self.start_time_ms

    @property
    def working_ms(self) -> int | None:
        """How long it took without what it waited for at its beginning."""
        return None if self.duration_ms is None else max(0, self.duration_ms - self.preparing_ms)

    def view(self) -> "TrialView":
        """As the wire shows it."""
        return TrialView.model_validate(self, from_attributes=True)


class TrialView(Model):
    """A trial as the wire shows it."""

    id: str
    job_id: str
    agent: int
    scenario_id: str
    scenario_name: str
    attempt: int
    retry: int
    state: TrialState
    is_superseded: bool
    scenario_run_id: str | None = None
    devbox_id: str | None = None
    network: TrialNetwork | None = None
    """What its devbox could reach; None until it is there."""
    scoring_network: TrialNetwork | None = None
    """What its scorers could reach; None until there is a score."""
    isolation: Isolation | None = None
    """How what it left was kept apart from who made it; None until there is a score."""
    isolation_reason: str | None = None
    """Who decided on that, and why stricter ones would not do."""
    score: float | None = None
    rewards: dict[str, float] = Field(default_factory=dict)
    conditions: list[str] = Field(default_factory=list)
    """What the network or the machine did meanwhile, one line each."""
    rounds: list[TrialRound] = Field(default_factory=list)
    suspicions: list[str] = Field(default_factory=list)
    """Why its score may not be earned, one line each, the weightiest first; empty where nothing says so."""
    ended_by: EndedBy | None = None
    exit_status: int | None = None
    failure: FailureReason | None = None
    create_time_ms: int
    start_time_ms: int | None = None
    end_time_ms: int | None = None
    stages: list[Stage]
    usage: dict[str, float]
    scored_revision: int | None = None
    answer_failure: str | None = None
    """How its answer made a scorer fail, which counts 0 for that scorer."""
    scorer_note: str | None = None
    """What the first scorer said that did not give 1; None where all did."""
    earlier_scores: list[ScoreRecord] = Field(default_factory=list)
    rescore_note: str | None = None
    activity: str | None = None
    """What it waits for, where that takes long: an image that is built."""
    preparing_ms: int = 0
    """How long it waited for images to be built, at its beginning."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def outcome(self) -> AttemptKind | None:
        """What became of it in one word; None until it has ended. A suspect score is as it was given."""
        if self.state not in ENDED_TRIALS:
            return None
        if self.state is TrialState.COMPLETED and self.score is not None:
            return "passed" if self.score >= NEARLY_PASSED else "not_passed"
        is_own = self.failure is not None and self.failure.kind in AGENTS_OWN
        return "crashed" if is_own and self.state is not TrialState.COMPLETED else "unscored"

    @property
    def is_suspect(self) -> bool:
        """Whether it has a score above 0 that may not be earned."""
        return self.state is TrialState.COMPLETED and bool(self.suspicions) and bool(self.score)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def duration_ms(self) -> int | None:
        """How long it took; None until it has ended."""
        if self.start_time_ms is None or self.end_time_ms is None:
            return None
        return self.end_time_ms - self.start_time_ms

    @computed_field  # type: ignore[prop-decorator]
    @property
    def working_ms(self) -> int | None:
        """How long it took without what it waited for; None until it has ended."""
        return None if self.duration_ms is None else max(0, self.duration_ms - self.preparing_ms)


class TrialListView(Model):
    """One page of trials."""

    trials: list[TrialView]
    has_more: bool
    total_count: int | None = None


def counted_mean(trials: list[Trial], rule: SuspectRule = "keep") -> float | None:
    """The mean over scenarios of what counts; None when nothing does."""
    by_scenario: dict[int, list[float]] = {}
    for each in trials:
        if not each.is_superseded and (score := each.counts(rule)) is not None:
            by_scenario.setdefault(each.scenario, []).append(score)
    means = [sum(scores) / len(scores) for scores in by_scenario.values()]
    return round(sum(means) / len(means), 9) if means else None
