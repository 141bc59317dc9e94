"""Jobs: agents x scenarios x attempts, created by one request and carried to the end."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from benchyard.models.agents import AgentChoice, origin
from benchyard.models.base import (
    Columns,
    Metadata,
    Model,
    Name,
    Record,
    ShortText,
    WireBool,
    WireFloat,
    WireInt,
)
from benchyard.models.conditions import Condition, condition_groups
from benchyard.models.model_access import Budget
from benchyard.models.runs import BenchmarkRunState
from benchyard.models.trials import (
    AttemptKind,
    EndedBy,
    FailureReason,
    OutcomeState,
    SuspectRule,
    TrialRound,
    TrialState,
    TrialView,
)

MOST_ATTEMPTS = 1_000
MOST_CONCURRENT = 10_000
MOST_SECONDS = 30 * 24 * 3600
RETRIES_DEFAULT = 2
RATE_LIMIT_SECONDS = 600.0

Seconds = Annotated[WireFloat, Field(gt=0, le=MOST_SECONDS)]


class OrchestratorConfig(Model):
    """The way a job is carried out; from `max_retries` on, the fields are extensions."""

    n_concurrent_trials: Annotated[WireInt, Field(ge=1, le=MOST_CONCURRENT)] | None = None
    n_attempts: Annotated[WireInt, Field(ge=0, le=MOST_ATTEMPTS)] | None = None
    timeout_multiplier: Annotated[WireFloat, Field(gt=0, le=1000)] | None = None
    quiet: WireBool | None = None
    max_retries: Annotated[WireInt, Field(ge=0, le=20)] | None = None
    """Number of times a trial is begun again after a failure of the infrastructure."""
    deadline_seconds: Seconds | None = None
    """Time for the whole job."""
    trial_budget: Budget | None = None
    """The use of models allowed to each trial; above it, the agent is refused, and its work is scored."""
    job_budget: Budget | None = None
    """The use of models allowed to all trials of the job together."""
    rate_limit_seconds: Annotated[WireFloat, Field(ge=0, le=MOST_SECONDS)] | None = None
    """Time the gateway may wait for a provider in one trial; it is added to the agent's own time."""

    suspect: SuspectRule | None = None
    """Treatment of suspect scores: `keep` and mark them, count them as `zero`, or `fail` the gate."""

    @property
    def suspect_rule(self) -> SuspectRule:
        """Return the treatment of suspect scores."""
        return self.suspect or "keep"

    @property
    def attempts(self) -> int:
        """Return the number of attempts of each agent at each scenario."""
        return self.n_attempts or 1

    @property
    def concurrency(self) -> int:
        """Return the number of trials of the job that may run at the same time."""
        return self.n_concurrent_trials or 1

    @property
    def multiplier(self) -> float:
        """Return the factor for every time limit."""
        return self.timeout_multiplier or 1.0

    @property
    def waits(self) -> float:
        """Return the seconds that a trial may wait for providers that ask to come back later."""
        return RATE_LIMIT_SECONDS if self.rate_limit_seconds is None else self.rate_limit_seconds

    @property
    def retries(self) -> int:
        """Return the number of times a trial is begun again after a failure of the infrastructure."""
        return RETRIES_DEFAULT if self.max_retries is None else self.max_retries


MOST_TRIALS = 100_000
MOST_AGENTS = 100
MOST_SCORINGS = 50
HARBOR_BYTES = 256 * 1024
MOST_REQUESTS = 50
JOB_KEY = "benchyard.job"
TRIAL_KEY = "benchyard.trial"
"""Keys in the metadata of runs: the job and the trial that they belong to."""


class JobState(StrEnum):
    """The stage of a job's life."""

    INITIALIZING = "initializing"
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"


ENDED_JOBS = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.TIMEOUT})

Label = Annotated[str, StringConstraints(max_length=1024, pattern=r"^[^\x00-\x1f\x7f]*$")]
Variables = dict[
    Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,255}$")],
    Annotated[str, StringConstraints(max_length=128 * 1024, pattern=r"^[^\x00]*$")],
]


class AgentEnvironment(Model):
    """Environment variables and secrets of an agent."""

    environment_variables: Variables | None = None
    secrets: Variables | None = None
    """Environment variable -> name (or id) of a secret."""


class AgentConfig(Model):
    """An agent of a job."""

    type: Literal["job_agent"] = "job_agent"
    name: Name
    agent_id: str | None = None
    model_name: Label | None = None
    timeout_seconds: Seconds | None = None
    kwargs: dict[ShortText, Annotated[str, StringConstraints(max_length=1024**2)]] | None = None
    agent_environment: AgentEnvironment | None = None
    version: Label | None = None
    """An extension: the version of the agent; the newest by default."""
    base_url: Label | None = None
    """An extension: the URL of its model, in place of the server's own."""
    logprobs: WireBool | None = None
    """An extension: whether the gateway also requests logprobs and token ids, and stores them."""

    @property
    def label(self) -> str:
        """Return its name for people: `agent@version:model`."""
        version = f"@{self.version}" if self.version else ""
        model = f":{self.model_name}" if self.model_name else ""
        return f"{self.name}{version}{model}"


class Selection(Model):
    """A part of the scenarios (an extension): filtered, then sampled, then cut."""

    filters: dict[ShortText, ShortText] | None = Field(default=None, max_length=50)
    """`name`, `id` or a key of the metadata -> the required value; * and ? are wildcards."""
    where: list[ShortText] | None = Field(default=None, max_length=50)
    """Conditions, all of which must hold: `name=a*`, `level!=easy`, `name~=regex`, `a=1 or b=2`."""
    include: list[ShortText] | None = Field(default=None, max_length=200)
    """Globs, at least one of which must match the scenario's name or its last part."""
    exclude: list[ShortText] | None = Field(default=None, max_length=200)
    """Globs, none of which may match."""
    scenario_ids: list[str] | None = Field(default=None, min_length=1, max_length=MOST_TRIALS)
    """Ids of scenarios of the benchmark; applied before all other fields."""
    sample: Annotated[WireInt, Field(ge=1)] | None = None
    seed: WireInt | None = None
    limit: Annotated[WireInt, Field(ge=1)] | None = None

    def condition_groups(self) -> list[list[Condition]]:
        """Return groups of conditions; of each group, one must hold. Raises UsageError for invalid ones."""
        plain = [[Condition(key, "=", value)] for key, value in (self.filters or {}).items()]
        return [*plain, *condition_groups(self.where or [])]


class _AgentsSpec(Model):
    agent_configs: list[AgentConfig] = Field(min_length=1, max_length=MOST_AGENTS)
    orchestrator_config: OrchestratorConfig | None = None
    selection: Selection | None = None


class BenchmarkSpec(_AgentsSpec):
    """A benchmark by its id or name, with all its scenarios."""

    type: Literal["benchmark"]
    benchmark_id: str


class ScenariosSpec(_AgentsSpec):
    """A list of scenarios."""

    type: Literal["scenarios"]
    scenario_ids: list[str] = Field(min_length=1, max_length=MOST_TRIALS)


class HarborSpec(Model):
    """A Harbor job file over benchmarks that this server has."""

    type: Literal["harbor"]
    inline_yaml: Annotated[str, StringConstraints(max_length=HARBOR_BYTES)]


Spec = Annotated[BenchmarkSpec | ScenariosSpec | HarborSpec, Field(discriminator="type")]


def _texts(metadata: Any) -> Any:
    if not isinstance(metadata, dict):
        return metadata
    return {key: value if isinstance(value, str) else str(value) for key, value in metadata.items()}


class JobRequest(Model):
    """The body of a create call."""

    spec: Spec
    name: Name | None = None
    metadata: Annotated[Metadata, BeforeValidator(_texts)] | None = None
    """Sent by the original's command line with values of any type."""


RetryKind = Literal["not-passed", "crashed", "unscored", "failed"]
"""Kinds of trials to try again; `failed` is an older word for `crashed`."""


class RetryRequest(Model):
    """Trials to try again: those that did not pass, that crashed, or that have no score."""

    only: RetryKind = "unscored"
    scenarios: list[str] | None = Field(default=None, max_length=10_000)
    """Ids or names of the only scenarios to try again."""


class JobRescoreRequest(Model):
    """Trials to score again; if none is named, all that count."""

    trial_ids: list[str] | None = Field(default=None, max_length=MOST_TRIALS)
    times: Annotated[WireInt, Field(ge=1, le=MOST_SCORINGS)] = 1
    """Number of scorings of each: several show the noise of the scorers, and the last one counts."""


class JobSource(Model):
    """The benchmark or scenarios that a job was requested for."""

    type: Literal["benchmark", "scenarios", "harbor"]
    benchmark_id: str | None = None
    benchmark_name: str | None = None
    scenario_ids: list[str] | None = None
    inline_yaml: str | None = None


class JobSpec(Model):
    """The resolved request: every scenario and every agent."""

    agent_configs: list[AgentConfig]
    scenario_ids: list[str]
    orchestrator_config: OrchestratorConfig | None = None


class Preparation(Model):
    """An agent that had to be installed before the trials of a job could begin."""

    kind: Literal["install"] = "install"
    name: str
    """The agent's name, with its version."""
    source: str | None = None
    """The kind of source: `npm`, `pip`, `git` or `object`."""
    start_time_ms: int
    end_time_ms: int | None = None
    """None while the install is under way."""
    failure: str | None = None

    @property
    def what(self) -> str:
        """Return a description such as `opencode@1.18.33 from npm`."""
        return f"{self.name} from {origin(self.source)}" if self.source else self.name


class Pause(Model):
    """The time from the end of a job until it was resumed or retried."""

    start_time_ms: int
    end_time_ms: int


class JobTimes(Model):
    """The time of a job, divided by activity; every moment counts once."""

    working_ms: int = 0
    """Time in which at least one trial was under way."""
    preparing_ms: int = 0
    """Time in which agents were installed or images built, and no trial was under way."""
    waiting_ms: int = 0
    """Time in which the job was open without any of this: other jobs had the machine."""
    idle_ms: int = 0
    """Time from an end of the job until it was resumed or retried."""


class JobRescoring(Model):
    """A rescoring of a job, under way or complete."""

    number: int = 1
    trial_ids: list[str] = Field(default_factory=list)
    """The trials to score again."""
    times: int = 1
    """Number of scorings of each."""
    pruned: list[str] = Field(default_factory=list)
    """Trials with a final state that is no longer stored."""


class Job(Record):
    """A job as it is stored."""

    name: str
    state: JobState = JobState.INITIALIZING
    source: JobSource
    spec: JobSpec
    choices: list[AgentChoice] = Field(default_factory=list)
    """The agents, in the order of the spec."""
    scenario_revisions: list[int] = Field(default_factory=list)
    """Revisions of the spec's scenarios: all trials use the same."""
    benchmark_run_ids: list[str] = Field(default_factory=list)
    """The benchmark run of each agent."""
    metadata: dict[str, str] = Field(default_factory=dict)
    start_time_ms: int | None = None
    end_time_ms: int | None = None
    deadline_ms: int | None = None
    failure_reason: str | None = None
    spent: Budget = Field(default_factory=Budget)
    """Part of its budget that was used before it was last begun again; dollars are None if unknown."""
    rescoring: JobRescoring | None = None
    rescoring_state: Literal["running", "completed"] | None = None
    preparations: list[Preparation] = Field(default_factory=list)
    pauses: list[Pause] = Field(default_factory=list)
    is_pinned: bool = False
    """True if it is kept regardless of the age of its results."""
    tags: list[str] = Field(default_factory=list)
    note: str | None = None
    """Note of a person about the job."""
    requests: list[str] = Field(default_factory=list)
    """Ids of the last requests that cancelled, resumed, retried or rescored it."""

    def columns(self) -> Columns:
        """Index by name, state, and benchmark."""
        return Columns(name=self.name, status=self.state, parent=self.source.benchmark_id)

    @property
    def orchestrator(self) -> OrchestratorConfig:
        """Return its orchestrator config, or the defaults."""
        return self.spec.orchestrator_config or OrchestratorConfig()

    def ended_preparations(self, at_ms: int) -> list[Preparation]:
        """Return its preparations; those that were cut short get this end time."""
        return [
            preparation if preparation.end_time_ms else preparation.model_copy(update={"end_time_ms": at_ms})
            for preparation in self.preparations
        ]

    def with_request(self, request_id: str | None) -> "Job":
        """Return a copy with one more request in it."""
        known = [*self.requests, request_id][-MOST_REQUESTS:] if request_id else self.requests
        return self.model_copy(update={"requests": known})

    @property
    def n_trials(self) -> int:
        """Return the number of places in its plan."""
        return len(self.spec.agent_configs) * len(self.spec.scenario_ids) * self.orchestrator.attempts


class InProgressRun(Model):
    """The benchmark run of an agent that has not ended."""

    benchmark_run_id: str
    state: BenchmarkRunState
    start_time_ms: int
    duration_ms: int | None = None
    agent_config: AgentConfig | None = None


class AttemptOutcome(Model):
    """The result of an attempt; superseded attempts are kept beside those that replaced them."""

    trial_id: str
    attempt: int
    retry: int
    is_superseded: bool
    state: OutcomeState
    score: float | None = None
    ended_by: EndedBy | None = None
    scenario_run_id: str | None = None
    duration_ms: int | None = None
    preparing_ms: int = 0
    """The part of the duration that it waited for images to be built."""
    failure_reason: FailureReason | None = None
    answer_failure: str | None = None
    outcome: AttemptKind | None = None
    """A single word: passed, not passed, crashed or unscored."""
    scorer_note: str | None = None
    """Message of the first scorer that did not give 1; None if all did."""
    """How its answer made a scorer fail, which counts 0 for that scorer."""
    usage: dict[str, float] = Field(default_factory=dict)
    rewards: dict[str, float] = Field(default_factory=dict)
    conditions: list[str] = Field(default_factory=list)
    """Events of the network or the machine during the attempt, one line each."""
    rounds: list[TrialRound] = Field(default_factory=list)
    suspicions: list[str] = Field(default_factory=list)
    """Reasons why its score may not be earned; the score is shown as given, even if it counts differently."""


class ScenarioOutcome(Model):
    """The result of a scenario: one row for all attempts; from `attempts` on, the fields are extensions."""

    scenario_definition_id: str
    scenario_name: str
    state: OutcomeState
    scenario_run_id: str | None = None
    score: float | None = None
    """The mean over its attempts; failures of the agent count 0."""
    duration_ms: int | None = None
    failure_reason: FailureReason | None = None
    attempts: list[AttemptOutcome] = Field(default_factory=list)
    working_ms: int | None = None
    """The duration without the time that its attempts waited."""
    unscored: int = 0
    n_suspect: int = 0
    """Number of its counted attempts that have a suspect score."""
    suspicions: list[str] = Field(default_factory=list)
    """Reasons for suspicion, each line once."""


class AttemptCounts(Model):
    """Numbers of counted attempts by result; each attempt is in one of them."""

    passed: int = 0
    """Attempts with a score of 1."""
    not_passed: int = 0
    """Attempts with a lower score."""
    crashed: int = 0
    """Attempts in which the agent failed or ran out of time, which counts 0."""
    unscored: int = 0
    """Attempts without a score, through no fault of the agent: left out of the mean."""


class BenchmarkOutcome(Model):
    """The result of an agent; from `mean_score` on, the fields are extensions."""

    agent_name: str
    model_name: str | None = None
    benchmark_run_id: str
    n_completed: int
    n_failed: int
    n_timeout: int
    average_score: float | None = None
    """The mean over completed scenarios only."""
    duration_ms: int | None = None
    """Time in which at least one of its trials was at work, without the idle time between job and retry."""
    scenario_outcomes: list[ScenarioOutcome] = Field(default_factory=list)
    mean_score: float | None = None
    """Failures of the agent count 0; unscored trials are left out."""
    mean_low: float | None = None
    mean_high: float | None = None
    """The 95 % confidence interval of the mean over scenarios."""
    n_canceled: int = 0
    n_trials: int = 0
    n_passed: int = 0
    """Number of scenarios with a mean of 1: of several attempts, all passed (pass^k)."""
    n_errors: int = 0
    """Number of scenarios without any completed attempt."""
    unscored: int = 0
    """Trials left out of the mean because of the infrastructure, a scorer or a cancellation."""
    attempts: AttemptCounts = Field(default_factory=AttemptCounts)
    """All attempts that count, by result."""
    n_suspect: int = 0
    """Trials with a score that may not be earned; `suspicions` of the scenarios say why."""
    suspect: SuspectRule = "keep"
    """Treatment of those trials in the means and pass@k: with `zero` they count 0."""
    pass_at_k: dict[str, float] = Field(default_factory=dict)
    """The chance that any of k attempts passes, by k."""
    pass_all_k: dict[str, float] = Field(default_factory=dict)
    """The chance that all of k attempts pass (pass^k), by k."""
    pass_scenarios: dict[str, int] = Field(default_factory=dict)
    """The number of scenarios with at least k attempts that count, by k; the others are left out of both."""
    score_bounds: tuple[float, float] | None = None
    """The mean with every unscored attempt counted as 0, and as 1; None without unscored attempts."""
    usage: dict[str, float] = Field(default_factory=dict)
    rewards: dict[str, float] = Field(default_factory=dict)
    """Mean over scenarios by reward name, computed like the mean score; a trial without the name counts 0."""
    version: str | None = None


class AgentProgress(Model):
    """Progress of one agent of a job, in trials."""

    agent_name: str
    model_name: str | None = None
    benchmark_run_id: str
    n_trials: int
    by_state: dict[TrialState, int] = Field(default_factory=dict)
    unscored: int = 0
    retries: int = 0
    n_suspect: int = 0
    mean_score: float | None = None
    """The mean over the trials that have ended."""


class BenchmarkJobView(Model):
    """A job as the wire shows it; from `metadata` on, the fields are extensions."""

    id: str
    name: str
    state: JobState
    create_time_ms: int
    job_source: JobSource
    job_spec: JobSpec
    in_progress_runs: list[InProgressRun] = Field(default_factory=list)
    benchmark_outcomes: list[BenchmarkOutcome] = Field(default_factory=list)
    failure_reason: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    start_time_ms: int | None = None
    end_time_ms: int | None = None
    deadline_ms: int | None = None
    n_trials: int = 0
    progress: list[AgentProgress] = Field(default_factory=list)
    rescoring: JobRescoring | None = None
    rescoring_state: Literal["running", "completed"] | None = None
    preparations: list[Preparation] = Field(default_factory=list)
    """The agents that had to be installed for it."""
    times: JobTimes | None = None
    """Time by activity; None from servers that do not report it."""
    resume_time_ms: int | None = None
    """Time at which it was last resumed or retried."""
    pinned: bool = False
    """True if it is kept regardless of the age of its results."""
    tags: list[str] = Field(default_factory=list)
    note: str | None = None


class BenchmarkJobListView(Model):
    """A page of jobs; their outcomes leave the scenarios out."""

    jobs: list[BenchmarkJobView]
    has_more: bool
    total_count: int | None = None


class JobEvent(Model):
    """An event of a job: a change of its own state, of a trial's, or of a preparation's."""

    seq: int = 0
    time_ms: int
    type: Literal["job", "trial"]
    state: JobState | None = None
    """None for an event of a preparation."""
    trial: TrialView | None = None
    preparation: Preparation | None = None
    message: str | None = None


class Artifact(Model):
    """A file that is stored with a trial; its content is the object's."""

    trial_id: str
    scenario_run_id: str
    name: str
    kind: str
    object_id: str
    size_bytes: int


class ArtifactListView(Model):
    """The files of one page of trials."""

    artifacts: list[Artifact]
    has_more: bool
    last_trial_id: str | None = None
    """The `starting_after` of the next page."""
