"""Runs: one devbox, one scenario, one score; and the runs of one agent over one benchmark."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, StringConstraints

from benchyard.models.base import Columns, Metadata, Model, Record, ShortText, WireBool, WireFloat
from benchyard.models.launch import LaunchParameters, Mount
from benchyard.models.model_access import RunGateway
from benchyard.models.results.annotations import PersonLabel, TrialAnnotation
from benchyard.models.scenarios import Isolation, NextRound, RoundScore, Scenario, ScenarioView
from benchyard.models.trials import TrialNetwork


class ChangedFile(Model):
    """A path that has changed since the devbox began to run."""

    path: str
    kind: str
    """`added`, `modified` or `deleted`."""
    type: str
    """`file`, `folder`, `link`, `device` or `other`."""
    mode: int | None = None
    size: int | None = None
    opened: bool = False
    """True if scorers opened or ran it or, if it is a link, its target."""
    lost: bool = False
    """True if programs could use it at the start and cannot any more: deleted, closed, or replaced."""


class LeftProcess(Model):
    """A process that was still running when the work was over."""

    pid: int
    user: str
    command: str


class TamperReport(Model):
    """Changes to the devbox beside the work itself: facts, not a verdict.

    None stands for a fact that could not be determined; an empty list means that there was nothing. A list
    begins with the most serious entries: opened by scorers before others, outside of the work before inside,
    programs, libraries and settings before the rest. The notes name every list that was cut.
    """

    changed_outside: list[ChangedFile] | None = None
    """Changes outside of the working directory (else the user's home) and of the answer's paths."""
    changed_outside_total: int | None = None
    opened_outside_total: int | None = None
    """Number of them that scorers opened; None if that is not known of any."""
    changed_inside_total: int | None = None
    special_inside: list[ChangedFile] | None = None
    """Links, devices and setuid files in the work: they may deceive the program that opens them."""
    special_inside_total: int | None = None
    processes: list[LeftProcess] | None = None
    processes_total: int | None = None
    opened_by_scorers: list[str] | None = None
    """Changed files, inside and outside of the work, that the scorers opened."""
    opened_by_scorers_total: int | None = None
    refused: list[str] = Field(default_factory=list)
    """Files of the answer that were not taken over, with the reason."""
    refused_total: int = 0
    unwatched_outside: list[str] = Field(default_factory=list)
    """Changed files outside of the work for which it is unknown whether scorers opened them."""
    unwatched_outside_total: int = 0
    changed_while_scored: list[str] = Field(default_factory=list)
    """In `live`: system files and hidden files of the home that changed during scoring."""
    unknown: list[str] = Field(default_factory=list)
    """Other facts that could not be determined and might speak against the score."""
    notes: list[str] = Field(default_factory=list)
    """Further notes for the reader: lists that were cut, times at which they were made, a missing network."""


class CountedTests(Model):
    """Numbers of tests in the report of a test runner."""

    tests: int
    skipped: int = 0


class ReferenceReport(Record):
    """Side effects of a reference output; its id is the digest of how the scenario is graded.

    So it is shared by the copies of a scenario that validation tries in other isolations, and by the scenario
    that is stored with one of these isolations afterwards.
    """

    opened_outside: list[str] = Field(default_factory=list)
    """Paths outside of the work that it changed and scorers opened."""
    changed_outside: list[str] = Field(default_factory=list)
    """All paths outside of the work that it changed, opened or not."""
    changed_while_scored: list[str] = Field(default_factory=list)
    """Files that change during scoring, usually through the scorers themselves."""
    process_users: list[str] = Field(default_factory=list)
    """Users of the processes that it left running; empty if it left none."""
    counted: dict[str, list[CountedTests]] = Field(default_factory=dict)
    """Scoring function -> counts of its runner's report, one entry for each different result."""


class RunState(StrEnum):
    """The stage of a scenario run's life."""

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
"""The cause of a scorer's failure: the work it graded, the scorer itself, or the machine it ran on."""


REFERENCE_KEY = "benchyard.reference"
"""Key in the metadata of a run that only applies the reference output of its scenario."""


RUN_KEY = "benchyard.scenario_run"
"""Key in the metadata of an object: the scenario run that it is stored with."""


def _either(camel: str, snake: str) -> AliasChoices:
    return AliasChoices(camel, snake)


class RunProfile(Model):
    """Settings of a run; the original's clients spell two of the fields in camel case."""

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
    """Wait also until no rescoring from its final state is under way."""


class RunRescoreRequest(Model):
    """The body of a call to score a run again from its final state."""

    newest: WireBool = True
    """Score by the newest revision of the scenario; otherwise by that of the run's beginning."""


class BenchmarkRunRequest(Model):
    """The body of a start call."""

    benchmark_id: str
    metadata: Metadata | None = None
    run_name: ShortText | None = None
    run_profile: RunProfile | None = Field(
        default=None, validation_alias=_either("runProfile", "run_profile")
    )


class ScorerResult(Model):
    """The result of one scorer."""

    scoring_function_name: str
    score: float
    state: Literal["unknown", "complete", "error"]
    output: str
    weight: float = 0.0
    """An extension, like the fields that follow."""
    reason: str | None = None
    """Reason for the scorer's failure; the state is then `error`, or `complete` if the answer caused it."""
    duration_ms: int = 0
    facts: dict[str, str] = Field(default_factory=dict)
    rewards: dict[str, float] = Field(default_factory=dict)
    """Every number that the scorer reported, by name; the score is one of them, or computed from them."""
    suspect: str | None = None
    """Reason why this score may not be earned, according to its scorer; None if it found none."""
    counted: CountedTests | None = None
    """Counts of the test runner's report, if the scorer has one made and the score is above 0."""
    cause: FailureCause | None = None
    """Cause of the scorer's failure; None if it did not fail. A failure caused by the answer scores 0."""


class ContractResult(Model):
    """The result of all scorers of a contract together."""

    score: float
    scoring_function_results: list[ScorerResult]
    scored_time_ms: int = 0
    """An extension, like the fields that follow."""
    isolation: Isolation = "clean"
    isolation_reason: str | None = None
    """The origin of this choice, and why stricter isolations are ruled out."""
    scenario_revision: int = 1
    network: TrialNetwork | None = None
    """The network of the scorers; None if unknown."""
    conditions: list[str] = Field(default_factory=list)
    """Events of the network or the machine meanwhile, one line each: refused hosts, a high load."""
    rewards: dict[str, float] = Field(default_factory=dict)
    """Rewards beside the score, by name; over all rounds together if there are several."""
    round: int = 1
    """Round of the scorers' results; the score is that of all rounds so far."""
    rounds: list[RoundScore] = Field(default_factory=list)
    """Each round so far; empty if the scenario has only one."""
    suspicions: list[str] = Field(default_factory=list)
    """Reasons why a score above 0 may not be earned, one line each, the most serious first."""

    @property
    def is_suspect(self) -> bool:
        """Tell whether the score may not be earned."""
        return bool(self.suspicions) and self.score > 0

    @property
    def answer_failure(self) -> str | None:
        """Return how the answer made a scorer fail, which counts 0 for it; None if it did not."""
        wrong = (result for result in self.scoring_function_results if result.cause == "answer")
        return next((f"scorer {result.scoring_function_name!r}: {result.reason}" for result in wrong), None)

    @property
    def scorer_note(self) -> str | None:
        """Return the last output line of the first scorer that did not give 1; None if all did."""
        for result in self.scoring_function_results:
            if result.state == "complete" and result.score < _FULL:
                lines = [line.strip() for line in result.output.splitlines() if line.strip()]
                # The last line of a script's output may be just its score.
                said = [line for line in lines if not _is_number(line)][-1:] or lines[-1:]
                note = "".join(said)[:_LONGEST_NOTE]
                start = f"scorer {result.scoring_function_name!r} gave {result.score:.3g}"
                return f"{start}: {note}" if note else start
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
    """A file that was stored with a run."""

    name: str
    kind: TraceKind = "file"
    object_id: str
    size_bytes: int


class TraceRequest(Model):
    """A file for a run: a stored object, or a trajectory in the request."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")]
    kind: TraceKind = "file"
    object_id: str | None = None
    trajectory: dict[str, Any] | None = None


class FinalState(Model):
    """The work that a run left, kept for rescoring, with the settings of a devbox for that."""

    image_id: str
    start_image_id: str | None = None
    """For `answer` and `system`: the image of the devbox at the start of the run."""
    home: str | None = None
    """Home of the user who did the work; None if it is the working directory, or was not recorded."""
    size_bytes: int
    """Size of the changes; content shared with other images does not count."""
    create_time_ms: int
    working_directory: str
    launch_parameters: LaunchParameters = Field(default_factory=LaunchParameters)
    """Includes the user who did the work."""
    environment_variables: dict[str, str] = Field(default_factory=dict)

    def image_ids(self) -> set[str]:
        """Return the ids of all images it consists of."""
        return {self.image_id, *([self.start_image_id] if self.start_image_id else [])}

    def view(self) -> "FinalStateView":
        """Return the final state as the wire shows it."""
        return FinalStateView(size_bytes=self.size_bytes, create_time_ms=self.create_time_ms)


class FinalStateView(Model):
    """A stored final state as the wire shows it."""

    size_bytes: int
    create_time_ms: int


class RunRescoring(Model):
    """A requested scoring from the final state that is not done yet."""

    scenario_revision: int
    create_time_ms: int


class ScenarioRun(Record):
    """A scenario run as it is stored."""

    scenario_id: str
    scenario_revision: int = 1
    """The number under which the scenario is stored as it was when the run began."""
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
    """Number of times that scoring was requested."""
    scoring_request: str | None = None
    """Id of the last request for scoring."""
    result: ContractResult | None = None
    earlier_results: list[ContractResult] = Field(default_factory=list)
    round: int = 1
    """The round that is being scored, or was scored last."""
    next_round: NextRound | None = None
    """The next task; None if there is only one round, and after the last."""
    tamper: TamperReport | None = None
    final_state: FinalState | None = None
    final_state_gone: str | None = None
    """Reason why there is none after scoring."""
    rescoring: RunRescoring | None = None
    rescoring_failure: str | None = None
    """Reason why the last scoring from the final state failed; the result is that of the scoring before."""
    traces: list[Trace] = Field(default_factory=list)
    usage: dict[str, float] = Field(default_factory=dict)
    """Tokens and cost, if known."""
    gateway: RunGateway | None = None
    """The access of the user's own code to models; a trial's agent has its own access."""
    scorer_multiplier: float = 1.0
    """The factor for the time of its scorers; a trial's run has the job's."""
    is_reference: bool = False
    """True if it only tests how scorers end with the reference; a restarted server does not continue it."""

    def columns(self) -> Columns:
        """Index by name, state, and benchmark run."""
        return Columns(name=self.name, status=self.state, parent=self.benchmark_run_id)

    def result_of(self, round: int) -> ContractResult | None:
        """Return the last result of a round; None if it has none."""
        results = [
            result for result in (*self.earlier_results, self.result) if result and result.round == round
        ]
        return results[-1] if results else None

    def view(
        self, scenario: Scenario | None = None, annotation: TrialAnnotation | None = None
    ) -> "ScenarioRunView":
        """Return the run as the wire shows it; lists leave the scenario and the history out."""
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
            tags=annotation.tags if annotation else [],
            note=annotation.note if annotation else None,
            labels=annotation.labels if annotation else [],
        )


class ScenarioRunView(Model):
    """A scenario run as the wire shows it; from `failure_reason` on, the fields are extensions."""

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
    """The final state that `rescore` scores again."""
    final_state_gone: str | None = None
    rescoring: RunRescoring | None = None
    rescoring_failure: str | None = None
    traces: list[Trace] = Field(default_factory=list)
    usage: dict[str, float] | None = None
    """The use of models, once it is final."""
    next_round: NextRound | None = None
    """For a scenario with several rounds: the task to do now, scored next."""
    earlier_results: list[ContractResult] | None = None
    scenario: ScenarioView | None = None
    tags: list[str] = Field(default_factory=list)
    note: str | None = None
    """Tags and note of a run that belongs to no job; that of a trial is the trial's."""
    labels: list[PersonLabel] = Field(default_factory=list)


class RunListView(Model):
    """A page of scenario runs."""

    runs: list[ScenarioRunView]
    has_more: bool
    total_count: int | None = None


class RunExecution(Model):
    """A command in the devbox of a run, with the end of its output."""

    execution_id: str
    status: Literal["queued", "running", "completed"]
    exit_status: int | None = None
    start_time_ms: int
    end_time_ms: int | None = None
    stdout: str
    stdout_bytes: int
    """Size of its whole output."""
    stderr: str
    stderr_bytes: int
    hint: str | None = None


class RunExecutionListView(Model):
    """The last commands in the devbox of a run, oldest first."""

    executions: list[RunExecution]
    total_count: int


class BenchmarkRun(Record):
    """A benchmark run as it is stored."""

    benchmark_id: str
    scenario_ids: list[str] = Field(default_factory=list)
    """The benchmark's scenarios at the beginning of the run."""
    benchmark_revision: int = 1
    state: BenchmarkRunState = "running"
    name: str | None = None
    purpose: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    profile: RunProfile = Field(default_factory=RunProfile)
    end_time_ms: int | None = None
    score: float | None = None
    n_suspect: int = 0
    """Number of its scenario runs whose score may not be earned."""
    is_closing: bool = False
    """True if it has ended while its scenario runs are still being ended."""

    def columns(self) -> Columns:
        """Index by name, state, and benchmark."""
        return Columns(name=self.name, status=self.state, parent=self.benchmark_id)

    def view(
        self, pending: list[str] | None = None, annotation: TrialAnnotation | None = None
    ) -> "BenchmarkRunView":
        """Return the run as the wire shows it; `pending` are the scenarios that were not begun."""
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
            n_suspect=self.n_suspect,
            benchmark_revision=self.benchmark_revision,
            pending_scenarios=pending,
            tags=annotation.tags if annotation else [],
            note=annotation.note if annotation else None,
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
    n_suspect: int = 0
    """An extension: its scenario runs whose score may not be earned."""
    benchmark_revision: int = 1
    pending_scenarios: list[str] | None = None
    """An extension: scenarios of the benchmark for which no run was started; missing in lists."""
    tags: list[str] = Field(default_factory=list)
    """An extension, like the note: what people noted about a run that belongs to no job."""
    note: str | None = None


class BenchmarkRunListView(Model):
    """A page of benchmark runs."""

    runs: list[BenchmarkRunView]
    has_more: bool
    total_count: int | None = None
