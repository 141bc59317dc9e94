"""Runs: one devbox, one scenario, one score; and the runs of one agent over one benchmark."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, StringConstraints

from benchyard.models.base import Columns, Metadata, Model, Record, ShortText, WireBool, WireFloat
from benchyard.models.launch import LaunchParameters, Mount
from benchyard.models.model_access import RunGateway
from benchyard.models.scenarios import Isolation, NextRound, RoundScore, Scenario, ScenarioView
from benchyard.models.trials import TrialNetwork


class ChangedFile(Model):
    """One path that is not as it was when the devbox began to run."""

    path: str
    kind: str
    """`added`, `modified` or `deleted`."""
    type: str
    """`file`, `folder`, `link`, `device` or `other`."""
    mode: int | None = None
    size: int | None = None
    opened: bool = False
    """Whether scorers opened or ran it, or what it leads to where it is a link."""


class LeftProcess(Model):
    """A process that ran when the work was over."""

    pid: int
    user: str
    command: str


class TamperReport(Model):
    """What was done to the devbox beside the work itself: facts, not a verdict.

    None stands for what could not be found out; an empty list means that there was nothing. Every list begins
    with what weighs most: opened by scorers before what was not, outside of the work before inside, programs,
    libraries and settings before the rest. A list that was cut is named in the notes, and its total is whole.
    """

    changed_outside: list[ChangedFile] | None = None
    """Outside of the work: the working directory, without one the user's home, and the answer's paths."""
    changed_outside_total: int | None = None
    opened_outside_total: int | None = None
    """How many of them the scorers opened; None where that is not known of any."""
    changed_inside_total: int | None = None
    special_inside: list[ChangedFile] | None = None
    """Links, devices and setuid files in the work: more than they seem to whoever opens them."""
    special_inside_total: int | None = None
    processes: list[LeftProcess] | None = None
    processes_total: int | None = None
    opened_by_scorers: list[str] | None = None
    """Changed files, inside and outside, that the scorers opened."""
    opened_by_scorers_total: int | None = None
    refused: list[str] = Field(default_factory=list)
    """What was not taken over from the answer, and why."""
    refused_total: int = 0
    unwatched_outside: list[str] = Field(default_factory=list)
    """Changed files outside of the work of which it is not known whether scorers opened them."""
    unwatched_outside_total: int = 0
    changed_while_scored: list[str] = Field(default_factory=list)
    """In `live`: files of the system, and hidden ones of the home, that were changed beside the scorers."""
    unknown: list[str] = Field(default_factory=list)
    """What else could not be found out and might speak against the score."""
    notes: list[str] = Field(default_factory=list)
    """What else the reader has to know: which lists were cut, when they were made, a missing network."""


class CountedTests(Model):
    """How many tests a test runner's report tells of."""

    tests: int
    skipped: int = 0


class ReferenceReport(Record):
    """What a reference did beside the work itself; its id is the digest of how a scenario is graded.

    So it holds for the copies of a scenario that validation tries in other isolations, and after it was
    stored which of them does.
    """

    opened_outside: list[str] = Field(default_factory=list)
    """Paths outside of the work that it changed, and that scorers opened."""
    changed_outside: list[str] = Field(default_factory=list)
    """All paths outside of the work that it changed, opened or not."""
    changed_while_scored: list[str] = Field(default_factory=list)
    """What is changed while it is scored, by the scorers themselves as a rule."""
    process_users: list[str] = Field(default_factory=list)
    """Who the processes belonged to that it left running; empty where it left none."""
    counted: dict[str, list[CountedTests]] = Field(default_factory=dict)
    """Scoring function -> what its runner's report counted, in each run that counted something else."""


class RunState(StrEnum):
    """Where a scenario run is in its life."""

    RUNNING = "running"
    SCORING = "scoring"
    SCORED = "scored"
    COMPLETED = "completed"
    CANCELED = "canceled"
    TIMEOUT = "timeout"
    FAILED = "failed"


ENDED_RUNS = frozenset({RunState.COMPLETED, RunState.CANCELED, RunState.TIMEOUT, RunState.FAILED})
BenchmarkRunState = Literal["running", "canceled", "completed", "failed"]
FailureCause = Literal["answer", "scorer", "machine"]
"""What made a scorer fail: the work it graded, the scorer itself, or the machine it ran on."""


REFERENCE_KEY = "benchyard.reference"
"""In the metadata of a run: its scenario's reference output was applied, and nothing else done."""


RUN_KEY = "benchyard.scenario_run"
"""In the metadata of an object: which scenario run it is kept with."""


def _either(camel: str, snake: str) -> AliasChoices:
    return AliasChoices(camel, snake)


class RunProfile(Model):
    """What a run brings along; the original's clients spell two of its fields in camel case."""

    env_vars: dict[str, str] | None = Field(default=None, validation_alias=_either("envVars", "env_vars"))
    launch_parameters: LaunchParameters | None = Field(
        default=None, validation_alias=_either("launchParameters", "launch_parameters")
    )
    mounts: list[Mount] | None = None
    purpose: ShortText | None = None
    secrets: dict[str, str] | None = None
    """Environment variable -> name of a secret."""


class ScenarioRunRequest(Model):
    """The body of a start call."""

    scenario_id: str
    benchmark_run_id: str | None = None
    metadata: Metadata | None = None
    run_name: ShortText | None = None
    run_profile: RunProfile | None = Field(
        default=None, validation_alias=_either("runProfile", "run_profile")
    )


class RunWaitRequest(Model):
    """The body of a long-poll on a run's state."""

    states: list[RunState] = Field(min_length=1, max_length=100)
    timeout_seconds: WireFloat | None = Field(default=None, ge=0)
    settled: WireBool = False
    """Whether to wait until it is not being scored again from its final state either."""


class RunRescoreRequest(Model):
    """The body of a call to score a run again from its final state."""

    newest: WireBool = True
    """By the scenario as it is now; else as it was when the run began."""


class BenchmarkRunRequest(Model):
    """The body of a start call."""

    benchmark_id: str
    metadata: Metadata | None = None
    run_name: ShortText | None = None
    run_profile: RunProfile | None = Field(
        default=None, validation_alias=_either("runProfile", "run_profile")
    )


class ScorerResult(Model):
    """What one scorer said."""

    scoring_function_name: str
    score: float
    state: Literal["unknown", "complete", "error"]
    output: str
    weight: float = 0.0
    """An extension, as those that follow."""
    reason: str | None = None
    """Why the scorer failed; the state is `error` then, or `complete` where the answer made it fail."""
    duration_ms: int = 0
    facts: dict[str, str] = Field(default_factory=dict)
    rewards: dict[str, float] = Field(default_factory=dict)
    """Every number the scorer told, by its name; the score is one of them, or made of them."""
    suspect: str | None = None
    """Why this score may not be earned, as its scorer saw it; None where it saw nothing."""
    counted: CountedTests | None = None
    """What the test runner's report counted, where the scorer has one made and the score is above 0."""
    cause: FailureCause | None = None
    """Who a failure of the scorer is put down to; None where it did not fail. The answer's scores 0."""


class ContractResult(Model):
    """What all scorers of a contract said together."""

    score: float
    scoring_function_results: list[ScorerResult]
    scored_time_ms: int = 0
    """An extension, as those that follow."""
    isolation: Isolation = "clean"
    isolation_reason: str | None = None
    """Who decided on it, and why stricter ones would not do."""
    scenario_revision: int = 1
    network: TrialNetwork | None = None
    """What the scorers could reach; None where that is not known."""
    conditions: list[str] = Field(default_factory=list)
    """What the network or the machine did meanwhile, one line each: hosts that were refused, a high load."""
    rewards: dict[str, float] = Field(default_factory=dict)
    """What was counted beside the score, by name; of all rounds together where there are several."""
    round: int = 1
    """Which round the scorers' results are of; the score is that of all rounds until then."""
    rounds: list[RoundScore] = Field(default_factory=list)
    """Each round until then; empty where a scenario has but one."""
    suspicions: list[str] = Field(default_factory=list)
    """Why a score above 0 may not be earned, one line each, the weightiest first."""

    @property
    def answer_failure(self) -> str | None:
        """How the answer made a scorer fail, which counts 0 for it; None where it did not."""
        wrong = (each for each in self.scoring_function_results if each.cause == "answer")
        return next((f"scorer {each.scoring_function_name!r}: {each.reason}" for each in wrong), None)

    @property
    def scorer_note(self) -> str | None:
        """What the first scorer said that did not give 1: the last line of its output; None where all did."""
        for each in self.scoring_function_results:
            if each.state == "complete" and each.score < _FULL:
                lines = [line.strip() for line in each.output.splitlines() if line.strip()]
                # A script's last line may be nothing but its score.
                said = [line for line in lines if not _is_number(line)][-1:] or lines[-1:]
                told = "".join(said)[:_LONGEST_NOTE]
                return (
                    f"scorer {each.scoring_function_name!r} gave {each.score:.3g}{': ' if told else ''}{told}"
                )
        return None


def _is_number(line: str) -> bool:
    try:
        float(line)
    except ValueError:
        return False
    return True


_FULL = 1.0 - 1e-9
_LONGEST_NOTE = 300
TraceKind = Literal["file", "atif"]


class Trace(Model):
    """A file that was uploaded with a run."""

    name: str
    kind: TraceKind = "file"
    object_id: str
    size_bytes: int


class TraceRequest(Model):
    """A file for a run: a stored object, or a trajectory right here."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")]
    kind: TraceKind = "file"
    object_id: str | None = None
    trajectory: dict[str, Any] | None = None


class FinalState(Model):
    """What a run left, kept so that it can be scored again, and what a devbox for that needs."""

    image_id: str
    start_image_id: str | None = None
    """For `answer` and `system`: what the devbox looked like when it began to run."""
    home: str | None = None
    """Of the user that the work was done as; None where it is the working directory, or was not noted."""
    size_bytes: int
    """Of what was changed; what the images share with others does not count."""
    create_time_ms: int
    working_directory: str
    launch_parameters: LaunchParameters = Field(default_factory=LaunchParameters)
    """The user that the work was done as is among them."""
    environment_variables: dict[str, str] = Field(default_factory=dict)

    def image_ids(self) -> set[str]:
        """All images it is made of."""
        return {self.image_id, *([self.start_image_id] if self.start_image_id else [])}

    def view(self) -> "FinalStateView":
        """As the wire shows it."""
        return FinalStateView(size_bytes=self.size_bytes, create_time_ms=self.create_time_ms)


class FinalStateView(Model):
    """What the wire tells of a kept final state."""

    size_bytes: int
    create_time_ms: int


class RunRescoring(Model):
    """A scoring from the final state that was asked for and is not done yet."""

    scenario_revision: int
    create_time_ms: int


class ScenarioRun(Record):
    """A scenario run as it is kept."""

    scenario_id: str
    scenario_revision: int = 1
    """The scenario as it was when the run began is kept under this number."""
    benchmark_run_id: str | None = None
    devbox_id: str
    state: RunState = RunState.RUNNING
    name: str | None = None
    purpose: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    environment_variables: dict[str, str] = Field(default_factory=dict)
    secrets: dict[str, str] = Field(default_factory=dict)
    end_time_ms: int | None = None
    failure_reason: str | None = None
    scorings: int = 0
    """How often it was asked to be scored."""
    scoring_request: str | None = None
    """Tells the request that asked for the last scoring from others."""
    result: ContractResult | None = None
    earlier_results: list[ContractResult] = Field(default_factory=list)
    round: int = 1
    """The round that is being scored, or was scored last."""
    next_round: NextRound | None = None
    """What is to be done next; None where there is but one round, and when the last is over."""
    tamper: TamperReport | None = None
    final_state: FinalState | None = None
    final_state_gone: str | None = None
    """Why there is none, once it was scored."""
    rescoring: RunRescoring | None = None
    rescoring_failure: str | None = None
    """Why the last scoring from the final state could not be done; the result is the one before it."""
    traces: list[Trace] = Field(default_factory=list)
    usage: dict[str, float] = Field(default_factory=dict)
    """Tokens and cost, when they are known."""
    gateway: RunGateway | None = None
    """What of models code of the user's own may ask; a trial's agent has a way of its own."""
    scorer_multiplier: float = 1.0
    """What the time of its scorers is multiplied by: the job's, where it is a trial's."""
    is_reference: bool = False
    """Whether it was begun to see how scorers end with the reference; a new server does not go on with it."""

    def columns(self) -> Columns:
        """Found by name, state, and the benchmark run it belongs to."""
        return Columns(name=self.name, status=self.state, parent=self.benchmark_run_id)

    def result_of(self, round: int) -> ContractResult | None:
        """The last result of a round; None if it has none."""
        found = [each for each in (*self.earlier_results, self.result) if each and each.round == round]
        return found[-1] if found else None

    def view(self, scenario: Scenario | None = None) -> "ScenarioRunView":
        """As the wire shows it; lists leave the scenario and the history out."""
        return ScenarioRunView(
            id=self.id,
            devbox_id=self.devbox_id,
            scenario_id=self.scenario_id,
            benchmark_run_id=self.benchmark_run_id,
            state=self.state,
            name=self.name,
            purpose=self.purpose,
            metadata=self.metadata,
            environment_variables=self.environment_variables,
            secrets_provided=self.secrets,
            start_time_ms=self.create_time_ms,
            duration_ms=None if self.end_time_ms is None else self.end_time_ms - self.create_time_ms,
            scoring_contract_result=self.result,
            failure_reason=self.failure_reason,
            scenario_revision=self.scenario_revision,
            tamper_report=self.tamper,
            final_state=self.final_state.view() if self.final_state else None,
            final_state_gone=self.final_state_gone,
            rescoring=self.rescoring,
            rescoring_failure=self.rescoring_failure,
            traces=self.traces,
            usage=self.usage or None,
            next_round=self.next_round,
            earlier_results=self.earlier_results if scenario else None,
            scenario=scenario.view() if scenario else None,
        )


class ScenarioRunView(Model):
    """A scenario run as the wire shows it; from `failure_reason` on these are extensions."""

    id: str
    devbox_id: str
    scenario_id: str
    benchmark_run_id: str | None = None
    state: RunState
    name: str | None = None
    purpose: str | None = None
    metadata: dict[str, str]
    environment_variables: dict[str, str] | None = None
    secrets_provided: dict[str, str] | None = None
    start_time_ms: int
    duration_ms: int | None = None
    scoring_contract_result: ContractResult | None = None
    failure_reason: str | None = None
    scenario_revision: int = 1
    tamper_report: TamperReport | None = None
    final_state: FinalStateView | None = None
    """What `rescore` scores again."""
    final_state_gone: str | None = None
    rescoring: RunRescoring | None = None
    rescoring_failure: str | None = None
    traces: list[Trace] = Field(default_factory=list)
    usage: dict[str, float] | None = None
    """What was spent on models, once no more can be."""
    next_round: NextRound | None = None
    """Of a scenario with several rounds: what is to be done now, and scored next."""
    earlier_results: list[ContractResult] | None = None
    scenario: ScenarioView | None = None


class RunListView(Model):
    """One page of scenario runs."""

    runs: list[ScenarioRunView]
    has_more: bool
    total_count: int | None = None


class RunExecution(Model):
    """One command in the devbox of a run, with the end of what it printed."""

    execution_id: str
    status: Literal["queued", "running", "completed"]
    exit_status: int | None = None
    start_time_ms: int
    end_time_ms: int | None = None
    stdout: str
    stdout_bytes: int
    """Of all that it printed."""
    stderr: str
    stderr_bytes: int
    hint: str | None = None


class RunExecutionListView(Model):
    """The last commands in the devbox of a run, oldest first."""

    executions: list[RunExecution]
    total_count: int


class BenchmarkRun(Record):
    """A benchmark run as it is kept."""

    benchmark_id: str
    scenario_ids: list[str] = Field(default_factory=list)
    """The benchmark's, as it was when the run began."""
    benchmark_revision: int = 1
    state: BenchmarkRunState = "running"
    name: str | None = None
    purpose: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    profile: RunProfile = Field(default_factory=RunProfile)
    end_time_ms: int | None = None
    score: float | None = None
    is_closing: bool = False
    """It has ended, and what belongs to it is still being ended."""

    def columns(self) -> Columns:
        """Found by name, state, and the benchmark it is of."""
        return Columns(name=self.name, status=self.state, parent=self.benchmark_id)

    def view(self, pending: list[str] | None = None) -> "BenchmarkRunView":
        """As the wire shows it; `pending` are the scenarios that were not begun."""
        return BenchmarkRunView(
            id=self.id,
            benchmark_id=self.benchmark_id,
            state=self.state,
            name=self.name,
            purpose=self.purpose,
            metadata=self.metadata,
            environment_variables=self.profile.env_vars,
            secrets_provided=self.profile.secrets,
            start_time_ms=self.create_time_ms,
            duration_ms=None if self.end_time_ms is None else self.end_time_ms - self.create_time_ms,
            score=self.score,
            benchmark_revision=self.benchmark_revision,
            pending_scenarios=pending,
        )


class BenchmarkRunView(Model):
    """A benchmark run as the wire shows it."""

    id: str
    benchmark_id: str
    state: BenchmarkRunState
    name: str | None = None
    purpose: str | None = None
    metadata: dict[str, str]
    environment_variables: dict[str, str] | None = None
    secrets_provided: dict[str, str] | None = None
    start_time_ms: int
    duration_ms: int | None = None
    score: float | None = None
    benchmark_revision: int = 1
    pending_scenarios: list[str] | None = None
    """An extension: scenarios of the benchmark that no run was started for; not in lists."""


class BenchmarkRunListView(Model):
    """One page of benchmark runs."""

    runs: list[BenchmarkRunView]
    has_more: bool
    total_count: int | None = None
