"""Jobs: agents x scenarios x attempts, asked for once and carried to the end."""

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
    """How a job is carried out; from `max_retries` on these are extensions."""

    n_concurrent_trials: Annotated[WireInt, Field(ge=1, le=MOST_CONCURRENT)] | None = None
    n_attempts: Annotated[WireInt, Field(ge=0, le=MOST_ATTEMPTS)] | None = None
    timeout_multiplier: Annotated[WireFloat, Field(gt=0, le=1000)] | None = None
    quiet: WireBool | None = None
    max_retries: Annotated[WireInt, Field(ge=0, le=20)] | None = None
    """How often a trial is begun again after a failure of the infrastructure."""
    deadline_seconds: Seconds | None = None
    """Of the whole job."""
    trial_budget: Budget | None = None
    """What each trial may use of models; the agent is refused more, and what it left is scored."""
    job_budget: Budget | None = None
    """What all trials of the job may use together."""
    rate_limit_seconds: Annotated[WireFloat, Field(ge=0, le=MOST_SECONDS)] | None = None
    """How long the gateway may wait for a provider in one trial; its agent has so much longer."""

    suspect: SuspectRule | None = None
    """What becomes of suspect scores: `keep` and mark them, count them as `zero`, or `fail` the gate."""

    @property
    def suspect_rule(self) -> SuspectRule:
        """What becomes of suspect scores."""
        return self.suspect or "keep"

    @property
    def attempts(self) -> int:
        """How often each agent tries each scenario."""
        return self.n_attempts or 1

    @property
    def concurrency(self) -> int:
        """How many trials of the job may run at the same time."""
        return self.n_concurrent_trials or 1

    @property
    def multiplier(self) -> float:
        """What every limit of time is multiplied by."""
        return self.timeout_multiplier or 1.0

    @property
    def waits(self) -> float:
        """How many seconds a trial may wait for providers that say to come back later."""
        return RATE_LIMIT_SECONDS if self.rate_limit_seconds is None else self.rate_limit_seconds

    @property
    def retries(self) -> int:
        """How often the infrastructure may fail a trial before that is its result."""
        return RETRIES_DEFAULT if self.max_retries is None else self.max_retries


MOST_TRIALS = 100_000
MOST_AGENTS = 100
HARBOR_BYTES = 256 * 1024
MOST_REQUESTS = 50
JOB_KEY = "benchyard.job"
TRIAL_KEY = "benchyard.trial"
"""In the metadata of runs: what they belong to."""


class JobState(StrEnum):
    """Where a job is in its life."""

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
    """What an agent finds in its environment."""

    environment_variables: Variables | None = None
    secrets: Variables | None = None
    """Environment variable -> name (or id) of a secret."""


class AgentConfig(Model):
    """One agent of a job."""

    type: Literal["job_agent"] = "job_agent"
    name: Name
    agent_id: str | None = None
    model_name: Label | None = None
    timeout_seconds: Seconds | None = None
    kwargs: dict[ShortText, Annotated[str, StringConstraints(max_length=1024**2)]] | None = None
    agent_environment: AgentEnvironment | None = None
    version: Label | None = None
    """An extension: which version of the agent; the newest when it is not said."""
    base_url: Label | None = None
    """An extension: where its model is asked, instead of where the server would."""
    logprobs: WireBool | None = None
    """An extension: whether the gateway asks for logprobs and token ids too, and keeps them."""

    @property
    def label(self) -> str:
        """What people call it: `agent@version:model`."""
        version = f"@{self.version}" if self.version else ""
        model = f":{self.model_name}" if self.model_name else ""
        return f"{self.name}{version}{model}"


class Selection(Model):
    """A part of the scenarios (an extension): filtered, then sampled, then cut."""

    filters: dict[ShortText, ShortText] | None = Field(default=None, max_length=50)
    """`name`, `id` or a key of the metadata -> the value it must have; * and ? are wild."""
    where: list[ShortText] | None = Field(default=None, max_length=50)
    """Conditions, all of which must hold: `name=a*`, `level!=easy`, `name~=regex`, `a=1 or b=2`."""
    include: list[ShortText] | None = Field(default=None, max_length=200)
    """Globs, one of which the name of a scenario must fit, or its last part."""
    exclude: list[ShortText] | None = Field(default=None, max_length=200)
    """Globs, none of which it may fit."""
    scenario_ids: list[str] | None = Field(default=None, min_length=1, max_length=MOST_TRIALS)
    """Those of the benchmark with these ids, before everything else."""
    sample: Annotated[WireInt, Field(ge=1)] | None = None
    seed: WireInt | None = None
    limit: Annotated[WireInt, Field(ge=1)] | None = None

    def wanted(self) -> list[list[Condition]]:
        """All its conditions: of each group one must hold; raises UsageError for one that is none."""
        plain = [[Condition(key, "=", value)] for key, value in (self.filters or {}).items()]
        return [*plain, *condition_groups(self.where or [])]


class _AgentsSpec(Model):
    agent_configs: list[AgentConfig] = Field(min_length=1, max_length=MOST_AGENTS)
    orchestrator_config: OrchestratorConfig | None = None
    selection: Selection | None = None


class BenchmarkSpec(_AgentsSpec):
    """All scenarios of a benchmark, by its id or name."""

    type: Literal["benchmark"]
    benchmark_id: str


class ScenariosSpec(_AgentsSpec):
    """These scenarios."""

    type: Literal["scenarios"]
    scenario_ids: list[str] = Field(min_length=1, max_length=MOST_TRIALS)


class HarborSpec(Model):
    """A Harbor job file over benchmarks that are known here."""

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
    """The original's command line sends it, with values of any type."""


RetryKind = Literal["not-passed", "crashed", "unscored", "failed"]
"""What can be tried again; `failed` is an older word for `crashed`."""


class RetryRequest(Model):
    """Which trials to try again: those that did not pass, that crashed, or that have no score."""

    only: RetryKind = "unscored"
    scenarios: list[str] | None = Field(default=None, max_length=10_000)
    """Only of these scenarios, by id or name."""


class JobRescoreRequest(Model):
    """Which trials to score again; all that count when none is named."""

    trial_ids: list[str] | None = Field(default=None, max_length=MOST_TRIALS)


class JobSource(Model):
    """What a job was asked for."""

    type: Literal["benchmark", "scenarios", "harbor"]
    benchmark_id: str | None = None
    benchmark_name: str | None = None
    scenario_ids: list[str] | None = None
    inline_yaml: str | None = None


class JobSpec(Model):
    """What that came to: every scenario and every agent."""

    agent_configs: list[AgentConfig]
    scenario_ids: list[str]
    orchestrator_config: OrchestratorConfig | None = None


class Preparation(Model):
    """An agent that had to be installed before the trials of a job could begin."""

    kind: Literal["install"] = "install"
    name: str
    """Of the agent, with its version."""
    source: str | None = None
    """Where it comes from: `npm`, `pip`, `git` or `object`."""
    start_time_ms: int
    end_time_ms: int | None = None
    """None while it goes on."""
    failure: str | None = None

    @property
    def what(self) -> str:
        """In words: `opencode@1.18.33 from npm`."""
        return f"{self.name} from {origin(self.source)}" if self.source else self.name


class Pause(Model):
    """The time between the end of a job and the moment in which it was resumed or retried."""

    start_time_ms: int
    end_time_ms: int


class JobTimes(Model):
    """Where the time of a job went; every moment counts once."""

    working_ms: int = 0
    """At least one trial was under way."""
    preparing_ms: int = 0
    """Agents were installed or images built, and no trial was under way."""
    waiting_ms: int = 0
    """The job was open, and none of this happened: others had the machine."""
    idle_ms: int = 0
    """The job had ended, before it was resumed or retried."""


class JobRescoring(Model):
    """A job that is scored again, or was."""

    number: int = 1
    trial_ids: list[str] = Field(default_factory=list)
    """What is scored again."""
    pruned: list[str] = Field(default_factory=list)
    """Trials whose final state is not kept any more."""


class Job(Record):
    """A job as it is kept."""

    name: str
    state: JobState = JobState.INITIALIZING
    source: JobSource
    spec: JobSpec
    choices: list[AgentChoice] = Field(default_factory=list)
    """Which agents these are, in the order of the spec."""
    scenario_revisions: list[int] = Field(default_factory=list)
    """Of the scenarios of the spec: all trials are of the same."""
    benchmark_run_ids: list[str] = Field(default_factory=list)
    """One for each agent."""
    metadata: dict[str, str] = Field(default_factory=dict)
    start_time_ms: int | None = None
    end_time_ms: int | None = None
    deadline_ms: int | None = None
    failure_reason: str | None = None
    spent: Budget = Field(default_factory=Budget)
    """Of its budget, what had been used when it was begun again; dollars are None where that is not known."""
    rescoring: JobRescoring | None = None
    rescoring_state: Literal["running", "completed"] | None = None
    preparations: list[Preparation] = Field(default_factory=list)
    pauses: list[Pause] = Field(default_factory=list)
    is_pinned: bool = False
    """Whether it is kept however old its results are."""
    requests: list[str] = Field(default_factory=list)
    """Tells the last requests that cancelled, resumed, retried or rescored it from others."""

    def columns(self) -> Columns:
        """Found by name, state, and the benchmark it is over."""
        return Columns(name=self.name, status=self.state, parent=self.source.benchmark_id)

    @property
    def orchestrator(self) -> OrchestratorConfig:
        """How it is carried out."""
        return self.spec.orchestrator_config or OrchestratorConfig()

    def ended_preparations(self, at_ms: int) -> list[Preparation]:
        """Its preparations; those that were cut short ended at this time."""
        return [
            each if each.end_time_ms else each.model_copy(update={"end_time_ms": at_ms})
            for each in self.preparations
        ]

    def asked(self, request_id: str | None) -> "Job":
        """With one more request that changed what becomes of it."""
        known = [*self.requests, request_id][-MOST_REQUESTS:] if request_id else self.requests
        return self.model_copy(update={"requests": known})

    @property
    def n_trials(self) -> int:
        """How many places its plan has."""
        return len(self.spec.agent_configs) * len(self.spec.scenario_ids) * self.orchestrator.attempts


class InProgressRun(Model):
    """The benchmark run of an agent that is not done."""

    benchmark_run_id: str
    state: BenchmarkRunState
    start_time_ms: int
    duration_ms: int | None = None
    agent_config: AgentConfig | None = None


class AttemptOutcome(Model):
    """What became of one attempt; superseded ones are kept beside what took their place."""

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
    """Of the duration, how long it waited for images to be built."""
    failure_reason: FailureReason | None = None
    answer_failure: str | None = None
    outcome: AttemptKind | None = None
    """In one word: passed, not passed, crashed or unscored."""
    scorer_note: str | None = None
    """What the first scorer said that did not give 1; None where all did."""
    """How its answer made a scorer fail, which counts 0 for that scorer."""
    usage: dict[str, float] = Field(default_factory=dict)
    rewards: dict[str, float] = Field(default_factory=dict)
    conditions: list[str] = Field(default_factory=list)
    """What the network or the machine did meanwhile, one line each."""
    rounds: list[TrialRound] = Field(default_factory=list)
    suspicions: list[str] = Field(default_factory=list)
    """Why its score may not be earned; the score is shown as it was given, whatever it counts."""


class ScenarioOutcome(Model):
    """What became of one scenario: one row, however many attempts; from `attempts` on extensions."""

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
    """The duration without what its attempts waited for."""
    unscored: int = 0
    n_suspect: int = 0
    """How many of its attempts that count have a suspect score."""
    suspicions: list[str] = Field(default_factory=list)
    """Why, each line once."""


class AttemptCounts(Model):
    """What became of the attempts that count; each is one of these."""

    passed: int = 0
    """With a score of 1."""
    not_passed: int = 0
    """Scored, with less than 1."""
    crashed: int = 0
    """The agent failed or ran out of time, which counts 0."""
    unscored: int = 0
    """Without a score, through no fault of the agent: left out of the mean."""


class BenchmarkOutcome(Model):
    """What became of one agent; from `mean_score` on extensions."""

    agent_name: str
    model_name: str | None = None
    benchmark_run_id: str
    n_completed: int
    n_failed: int
    n_timeout: int
    average_score: float | None = None
    """Over what was completed only."""
    duration_ms: int | None = None
    """How long at least one of its trials was at work: idle time between a job and its retry is not in it."""
    scenario_outcomes: list[ScenarioOutcome] = Field(default_factory=list)
    mean_score: float | None = None
    """Failures of the agent count 0; what is unscored is left out."""
    mean_low: float | None = None
    mean_high: float | None = None
    """The 95 % confidence interval of the mean over scenarios."""
    n_canceled: int = 0
    n_trials: int = 0
    n_passed: int = 0
    """Scenarios with a mean of 1."""
    n_errors: int = 0
    """Scenarios without any completed attempt."""
    unscored: int = 0
    """Trials left out of the mean: the infrastructure, a scorer or a cancel is why."""
    attempts: AttemptCounts = Field(default_factory=AttemptCounts)
    """All attempts that count, by what became of them."""
    n_suspect: int = 0
    """Trials whose score may not be earned; `suspicions` of the scenarios say why."""
    suspect: SuspectRule = "keep"
    """What became of them in the means and pass@k: with `zero` they count 0."""
    pass_at_k: dict[str, float] = Field(default_factory=dict)
    usage: dict[str, float] = Field(default_factory=dict)
    rewards: dict[str, float] = Field(default_factory=dict)
    """By name the mean over scenarios, as the mean score is; who has nothing under a name counts 0."""
    version: str | None = None


class AgentProgress(Model):
    """How far one agent of a job is, in trials."""

    agent_name: str
    model_name: str | None = None
    benchmark_run_id: str
    n_trials: int
    by_state: dict[TrialState, int] = Field(default_factory=dict)
    unscored: int = 0
    retries: int = 0
    n_suspect: int = 0
    mean_score: float | None = None
    """Over what has ended."""


class BenchmarkJobView(Model):
    """A job as the wire shows it; from `metadata` on these are extensions."""

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
    """Where its time went; None from servers that do not tell."""
    resume_time_ms: int | None = None
    """When it was resumed or retried last."""
    pinned: bool = False
    """Whether it is kept however old its results are."""


class BenchmarkJobListView(Model):
    """One page of jobs; their outcomes leave the scenarios out."""

    jobs: list[BenchmarkJobView]
    has_more: bool
    total_count: int | None = None


class JobEvent(Model):
    """Something that happened in a job: its own state, that of a trial, or of what is prepared for it."""

    seq: int = 0
    time_ms: int
    type: Literal["job", "trial"]
    state: JobState | None = None
    """None where a preparation is told."""
    trial: TrialView | None = None
    preparation: Preparation | None = None
    message: str | None = None


class Artifact(Model):
    """A file that is kept with a trial; its content is the object's."""

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
    """Ask for the next page with `starting_after` this."""
