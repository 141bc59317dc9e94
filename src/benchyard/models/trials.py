"""A trial: one attempt of one agent at one scenario inside a job, and its result."""

from enum import StrEnum
from typing import Literal

from pydantic import Field, computed_field

from benchyard.models.base import Columns, Model, Record
from benchyard.models.results.annotations import PersonLabel, TrialAnnotation
from benchyard.models.scenarios import Isolation


class TrialState(StrEnum):
    """The state of a trial: waiting, in one of its stages, or ended."""

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
"""The party at fault: only the kinds in `AGENTS_OWN` are the agent's failures."""
AGENTS_OWN = frozenset({"agent", "timeout", "budget"})

EndedBy = Literal["timeout", "budget"]
"""The limit that ended the agent; its work was scored all the same."""

TrialNetwork = Literal["none", "gateway", "allow-list", "open"]
"""The network of a trial's devbox: nothing, the gateway only, also a policy's list, or everything."""

SuspectRule = Literal["keep", "zero", "fail"]
"""The treatment of suspect scores: they count and are marked, they count 0, or they fail the job's gate."""

AttemptKind = Literal["passed", "not_passed", "crashed", "unscored"]
"""The result of a trial, in the words shown to people."""
PASSED = 1.0
NEARLY_PASSED = PASSED - 1e-9
"""Rounding of floats may leave a weighted sum of full marks slightly below 1."""


class FailureReason(Model):
    """The reason why a trial has no score: the wire's two fields, and the party at fault."""

    exception_type: str
    exception_message: str
    kind: FailureKind = "infrastructure"
    stage: str | None = None

    @property
    def told(self) -> str:
        """Return the party at fault and the reason as one line, without naming the party twice."""
        begin = self.exception_message.partition(":")[0]
        is_said = self.kind in begin.split()
        return self.exception_message if is_said else f"{self.kind}: {self.exception_message}"


class Stage(Model):
    """A stage of a trial, recorded at its end."""

    name: str
    """`provision`, `setup`, `agent`, `scoring` or `teardown`; `agent-2` and the like in later rounds."""
    start_ms: int
    end_ms: int


class TrialRound(Model):
    """A round of a trial whose scenario has several."""

    number: int
    name: str | None = None
    """The name of the step; tries have none."""
    score: float | None = None
    rewards: dict[str, float] = Field(default_factory=dict)
    exit_status: int | None = None
    ended_by: EndedBy | None = None
    start_time_ms: int | None = None
    end_time_ms: int | None = None
    """Times at which its agent began and ended; None if no agent ran."""

    @property
    def agent_ms(self) -> int:
        """Return the time its agent worked."""
        return max(0, (self.end_time_ms or 0) - (self.start_time_ms or 0)) if self.end_time_ms else 0


class ScoreRecord(Model):
    """A score that a trial had before it was scored again."""

    score: float | None = None
    scenario_revision: int | None = None


class Trial(Record):
    """A trial as it is stored. A retry is a new trial in the same place of the job's plan."""

    job_id: str
    agent: int = 0
    """Index into the job's agents."""
    scenario: int = 0
    """Index into the job's scenarios."""
    scenario_id: str
    scenario_name: str
    agent_name: str | None = None
    agent_label: str | None = None
    benchmark_id: str | None = None
    """Facts of its job; None in trials of earlier versions."""
    attempt: int = 1
    retry: int = 0
    """Number of earlier trials in this place that did not count."""
    state: TrialState = TrialState.QUEUED
    is_superseded: bool = False
    """Whether another trial took its place, so that it no longer counts."""
    n_lost: int = 0
    """Number of consecutive trials before it in this place that the infrastructure failed."""
    scenario_run_id: str | None = None
    devbox_id: str | None = None
    network: TrialNetwork | None = None
    scoring_network: TrialNetwork | None = None
    isolation: Isolation | None = None
    isolation_reason: str | None = None
    score: float | None = None
    rewards: dict[str, float] = Field(default_factory=dict)
    """Rewards beside the score, by name."""
    conditions: list[str] = Field(default_factory=list)
    """Events of the network or the machine during the trial, one line each."""
    rounds: list[TrialRound] = Field(default_factory=list)
    """Empty if its scenario has only one round."""
    suspicions: list[str] = Field(default_factory=list)
    """Reasons why its score may not be earned, the most serious first."""
    ended_by: EndedBy | None = None
    exit_status: int | None = None
    failure: FailureReason | None = None
    start_time_ms: int | None = None
    end_time_ms: int | None = None
    stages: list[Stage] = Field(default_factory=list)
    usage: dict[str, float] = Field(default_factory=dict)
    """Tokens and cost, if known."""
    scored_revision: int | None = None
    """Revision of the scenario whose scorers gave the score."""
    answer_failure: str | None = None
    """How its answer made a scorer fail, which counts 0 for that scorer."""
    scorer_note: str | None = None
    """Message of the first scorer that did not give 1; None if all did."""
    earlier_scores: list[ScoreRecord] = Field(default_factory=list)
    rescorings: int = 0
    """The number of the job's last rescoring that it was part of."""
    n_rescored: int = 0
    """Scorings of it that this rescoring has begun."""
    rescore_note: str | None = None
    """Reason why the last attempt to score it again failed."""
    activity: str | None = None
    """The cause of a long wait, such as the build of an image."""
    preparing_ms: int = 0
    """Time of that wait at its beginning."""

    def columns(self) -> Columns:
        """Index by scenario, state and job."""
        return Columns(name=self.scenario_name, status=self.state, parent=self.job_id)

    @property
    def has_ended(self) -> bool:
        """Tell whether it has ended for good."""
        return self.state in ENDED_TRIALS

    @property
    def place(self) -> tuple[int, int, int]:
        """Return its place in the job's plan."""
        return self.agent, self.scenario, self.attempt

    def scores_of_revision(self) -> list[float]:
        """Return its scores by the scorers that gave the last one, in order."""
        own = [each for each in self.earlier_scores if each.scenario_revision == self.scored_revision]
        return [each for each in (*(record.score for record in own), self.score) if each is not None]

    @property
    def counted_score(self) -> float | None:
        """Return its value in a mean: its score, 0 for a failure of the agent, None if it is left out."""
        if self.state is TrialState.COMPLETED:
            return self.score
        is_own = self.has_ended and self.failure is not None and self.failure.kind in AGENTS_OWN
        return 0.0 if is_own else None

    @property
    def is_suspect(self) -> bool:
        """Tell whether it counts with a score that may not be earned."""
        return bool(self.suspicions) and bool(self.counted_score)

    def counts(self, rule: "SuspectRule") -> float | None:
        """Return its value in a mean under a rule for suspect scores."""
        return 0.0 if rule == "zero" and self.is_suspect else self.counted_score

    def outcome(self, rule: "SuspectRule" = "keep") -> "AttemptKind":
        """Return its result after its end, in the words shown to people."""
        score = self.counts(rule)
        if score is None:
            return "unscored"
        if self.state is not TrialState.COMPLETED:
            return "crashed"
        return "passed" if score >= NEARLY_PASSED else "not_passed"

    @property
    def is_unscored(self) -> bool:
        """Tell whether it is left out of means: cancelled, or failed by the infrastructure or a scorer."""
        return self.has_ended and self.counted_score is None

    @property
    def duration_ms(self) -> int | None:
        """Return its duration; None until it has ended."""
        if self.start_time_ms is None or self.end_time_ms is None:
            return None
        return self.end_time_ms - self.start_time_ms

    @property
    def working_ms(self) -> int | None:
        """Return its duration without its wait at the beginning."""
        return None if self.duration_ms is None else max(0, self.duration_ms - self.preparing_ms)

    def never_begun(self, time_ms: int) -> "Trial":
        """Return the trial as it is shown after the end of its job, if it was still waiting then."""
        reason = FailureReason(
            exception_type="NeverBegun",
            exception_message="the job ended before this trial began",
            kind="cancelled",
        )
        end = max(self.start_time_ms or 0, time_ms)
        return self.model_copy(update={"state": TrialState.CANCELED, "failure": reason, "end_time_ms": end})

    def view(self, annotation: TrialAnnotation | None = None) -> "TrialView":
        """Return the trial as the wire shows it, with what people noted."""
        view = TrialView.model_validate(self, from_attributes=True)
        if annotation is None:
            return view
        noted = {"tags": annotation.tags, "note": annotation.note, "labels": annotation.labels}
        return view.model_copy(update=noted)


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
    """The network of its devbox; None until there is a devbox."""
    scoring_network: TrialNetwork | None = None
    """The network of its scorers; None until there is a score."""
    isolation: Isolation | None = None
    """The isolation it was scored in; None until there is a score."""
    isolation_reason: str | None = None
    """The origin of that choice, and why stricter isolations are ruled out."""
    score: float | None = None
    rewards: dict[str, float] = Field(default_factory=dict)
    conditions: list[str] = Field(default_factory=list)
    """Events of the network or the machine during the trial, one line each."""
    rounds: list[TrialRound] = Field(default_factory=list)
    suspicions: list[str] = Field(default_factory=list)
    """Reasons why its score may not be earned, one line each, the most serious first; empty if none."""
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
    """Message of the first scorer that did not give 1; None if all did."""
    earlier_scores: list[ScoreRecord] = Field(default_factory=list)
    rescore_note: str | None = None
    activity: str | None = None
    """The cause of a long wait, such as the build of an image."""
    preparing_ms: int = 0
    """Time it waited for images to be built, at its beginning."""
    agent_label: str | None = None
    """Its agent for people: `agent@version:model`."""
    benchmark_id: str | None = None
    tags: list[str] = Field(default_factory=list)
    note: str | None = None
    labels: list[PersonLabel] = Field(default_factory=list)
    """Verdicts of people."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def outcome(self) -> AttemptKind | None:
        """Return its result in one word; None until it has ended. A suspect score counts as it was given."""
        if self.state not in ENDED_TRIALS:
            return None
        if self.state is TrialState.COMPLETED and self.score is not None:
            return "passed" if self.score >= NEARLY_PASSED else "not_passed"
        is_own = self.failure is not None and self.failure.kind in AGENTS_OWN
        return "crashed" if is_own and self.state is not TrialState.COMPLETED else "unscored"

    @property
    def is_suspect(self) -> bool:
        """Tell whether it has a score above 0 that may not be earned."""
        return self.state is TrialState.COMPLETED and bool(self.suspicions) and bool(self.score)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def duration_ms(self) -> int | None:
        """Return its duration; None until it has ended."""
        if self.start_time_ms is None or self.end_time_ms is None:
            return None
        return self.end_time_ms - self.start_time_ms

    @computed_field  # type: ignore[prop-decorator]
    @property
    def working_ms(self) -> int | None:
        """Return its duration without its wait for images; None until it has ended."""
        return None if self.duration_ms is None else max(0, self.duration_ms - self.preparing_ms)


class TrialListView(Model):
    """A page of trials."""

    trials: list[TrialView]
    has_more: bool
    total_count: int | None = None


def count_suspect(trials: list[Trial]) -> int:
    """Return how many of those that count have a score that may not be earned."""
    return sum(not trial.is_superseded and trial.is_suspect for trial in trials)


def counted_mean(trials: list[Trial], rule: SuspectRule = "keep") -> float | None:
    """Return the mean over scenarios of the scores that count; None if there are none."""
    by_scenario: dict[int, list[float]] = {}
    for trial in trials:
        if not trial.is_superseded and (score := trial.counts(rule)) is not None:
            by_scenario.setdefault(trial.scenario, []).append(score)
    means = [sum(scores) / len(scores) for scores in by_scenario.values()]
    return round(sum(means) / len(means), 9) if means else None
