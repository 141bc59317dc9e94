"""A scenario: a problem, the devbox it is worked on in, and how what comes out is graded."""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import AliasChoices, Field, StringConstraints

from benchyard.models.base import Columns, Metadata, Model, Record, ShortText, WireBool, WireFloat, WireInt
from benchyard.models.launch import LaunchParameters

SetupCause = Literal["agent", "scenario", "machine"]
"""Whose failure it is that a step could not be made ready."""


class StepSetup(Model):
    """What a devbox is made ready with before a step is worked on."""

    files: str | None = None
    """The object that is unpacked into the working directory."""
    setup: str | None = None
    """The command that runs there then."""
    as_root: bool = False


class RoundScore(Model):
    """What one round scored."""

    number: int
    name: str | None = None
    """Of the step; tries have none."""
    score: float
    rewards: dict[str, float] = Field(default_factory=dict)


class NextRound(Model):
    """The round that is worked on now."""

    number: int
    name: str | None = None
    problem_statement: str
    """What is to be done in it: of a further try, what was said of the one before."""
    is_prepared: bool = True
    """Whether its devbox is ready for it."""
    failure: str | None = None
    """Why it could not be made ready; nothing comes of it then."""
    failure_cause: SetupCause | None = None
    """Whose failure that is: the agent's where its setup does not fail after the reference."""


SCORER_SECONDS_DEFAULT = 1800
SCORER_SECONDS_MAX = 24 * 3600
MAX_SCORERS = 100
AGENT_SECONDS_MAX = 48 * 3600
MAX_TRIES = 5
MAX_STEPS = 100

DefinitionStatus = Literal["active", "archived"]
ValidationType = Literal["UNSPECIFIED", "FORWARD", "REVERSE", "EVALUATION"]
Isolation = Literal["answer", "system", "clean", "live"]
"""How what is graded is kept apart from who made it, the strictest first."""
STRICTEST_FIRST: tuple[Isolation, ...] = get_args(Isolation)
IsolationChoice = Literal["auto", "answer", "system", "clean", "live"]
"""What an author says about it; `auto` leaves it to validation."""
RewardStrategy = Literal["mean", "final"]
"""What a scenario with steps scores: the mean of them, or what its last one does."""

LongText = Annotated[str, StringConstraints(max_length=1024**2)]
"""A problem statement, a patch, a script."""
ScorerName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{1,256}$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""What people call a thing: one line, and no control characters in it."""
AttachmentName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_./-]{0,99}$")]
EnvName = Annotated[str, StringConstraints(min_length=1, max_length=256)]


class InputContext(Model):
    """What whoever works on a scenario is told."""

    problem_statement: LongText
    additional_context: Any | None = None


class InputContextChange(Model):
    """The input context in an update; None leaves a field as it is."""

    problem_statement: LongText | None = None
    additional_context: Any | None = None


class ScenarioEnvironment(Model):
    """The devbox a scenario is worked on in."""

    blueprint_id: str | None = None
    snapshot_id: str | None = None
    launch_parameters: LaunchParameters | None = None
    working_directory: Annotated[str, StringConstraints(max_length=4096)] | None = None
    environment_variables: dict[EnvName, str] | None = Field(default=None, max_length=200)
    """An extension: what every devbox of the scenario has, unless a run gives another value."""


class ScoringFunction(Model):
    """One scorer of a contract and what it counts; each type of scorer checks its own fields."""

    name: ScorerName
    weight: WireFloat = Field(ge=0, le=1)
    scorer: dict[str, Any]


class ScoringContract(Model):
    """How a scenario is graded: the weighted sum of its scorers."""

    scoring_function_parameters: list[ScoringFunction] = Field(min_length=1, max_length=MAX_SCORERS)


class ScoringContractChange(Model):
    """The scoring contract in an update; None leaves it as it is."""

    scoring_function_parameters: list[ScoringFunction] | None = Field(default=None, max_length=MAX_SCORERS)


class CollectCommand(Model):
    """A command that gathers what is graded; it may fail."""

    command: LongText
    user: ShortText | None = None
    """None is the scenario's user."""
    timeout_sec: WireFloat = Field(default=60, gt=0, le=SCORER_SECONDS_MAX)


class Step(Model):
    """One step of a scenario that has several: worked on in the same devbox, and graded by itself."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    problem_statement: LongText
    scoring_contract: ScoringContract | None = None
    """The scenario's own unless there is one."""
    reference_output: LongText | None = None
    """What solves this step, as the scenario's solves one that has none."""
    files: ShortText | None = None
    """An attachment by its name, or a stored object by its id: an archive that is unpacked into the working
    directory before the step."""
    setup: LongText | None = None
    """A command that runs before the step, after its files are there."""
    setup_as_root: WireBool = False
    agent_timeout_sec: WireFloat | None = Field(default=None, gt=0, le=AGENT_SECONDS_MAX)
    """The time an agent has for this step; the scenario's unless it is said."""
    min_reward: WireFloat | dict[ShortText, WireFloat] | None = None
    """What the score, or each of these rewards, must reach: else the steps that follow are left out."""

    def preparation(self, attachments: Mapping[str, str] | None) -> StepSetup | None:
        """What comes before it, where its scenario has these attachments; None where nothing does."""
        if not self.files and not self.setup:
            return None
        files = (attachments or {}).get(self.files, self.files) if self.files else None
        return StepSetup(files=files, setup=self.setup, as_root=self.setup_as_root)


class ValidatedIsolation(Model):
    """The strictest isolation in which validation saw the reference solve a scenario, and nothing else."""

    isolation: Isolation
    failed: dict[Isolation, Annotated[str, StringConstraints(max_length=1000)]] = Field(default_factory=dict)
    """Stricter ones -> why they would not do."""


class ScoringRules(Model):
    """How a scenario is scored, beyond what the wire of the original has (extensions).

    Each may also be given as metadata, which every client can set: see `engine/scenarios/scoring_rules.py`.
    """

    scoring_isolation: IsolationChoice | None = None
    """What the author chose; None, as `auto`, is what validation found, and `clean` where it has not."""
    validated_isolation: ValidatedIsolation | None = None
    """What validation found. Where the author chose `clean`, a score that the work alone does not get in a
    stricter one is suspect."""
    answer_paths: list[Annotated[str, StringConstraints(min_length=1, max_length=4096)]] | None = Field(
        default=None, max_length=100
    )
    """For `answer`: what is taken over from the devbox; absolute, or below the working directory. For
    `system`: where work lies beside the working directory and the home."""
    answer_excludes: list[Annotated[str, StringConstraints(min_length=1, max_length=4096)]] | None = Field(
        default=None, max_length=100
    )
    """Below the answer paths: what is not taken over, and stays as it was."""
    scoring_blueprint_id: ShortText | None = None
    """For `answer`: the blueprint or image that scorers grade in, instead of what the devbox began from."""
    attachments: dict[AttachmentName, ShortText] | None = Field(default=None, max_length=MAX_STEPS + 20)
    """Name -> id of a stored object, an archive of files that scorers and the reference output need."""
    collect_commands: list[CollectCommand] | None = Field(default=None, max_length=20)
    """What runs in the devbox when the work is over, before what is graded is taken."""
    nop_score: WireFloat | None = Field(default=None, ge=0, le=1)
    """What doing nothing must score; 0 unless it is said."""
    scoring_network: ShortText | None = None
    """What scorers can reach: `none`, `host`, or what a network policy allows, by its id or name."""
    scoring_secrets: dict[str, str] | None = None
    """Environment variable -> name of a secret that scorers get."""
    scoring_tracing: WireBool | None = None
    """Whether processes of a room may trace each other, as debuggers and leak checkers do; else refused."""
    agent_network_policy: ShortText | None = None
    """The network policy, by id or name, from when the devbox is prepared: setup has what the devbox has."""
    agent_timeout_sec: WireFloat | None = Field(default=None, gt=0, le=AGENT_SECONDS_MAX)
    """The time an agent has in a job, unless the job gives it less."""
    tries: WireInt | None = Field(default=None, ge=1, le=MAX_TRIES)
    """How often an agent may try: what it left is scored, and it is told what the scorers said."""
    retry_prompt: LongText | None = None
    """What it is told then; `{output}` in it stands for what the scorers said."""
    steps: list[Step] | None = Field(default=None, max_length=MAX_STEPS)
    """What is worked on one after the other, each step scored before the next."""
    reward_strategy: RewardStrategy | None = None
    """What the steps come to; the mean unless it is said."""

    @property
    def n_rounds(self) -> int:
        """How many rounds it may have at most."""
        return len(self.steps or ()) or self.tries or 1

    @property
    def is_isolation_chosen(self) -> bool:
        """Whether its author said how it is graded."""
        return self.scoring_isolation not in (None, "auto")

    @property
    def isolation(self) -> Isolation:
        """How it is graded: as its author chose, else as validation found, else `clean`."""
        if self.scoring_isolation is not None and self.scoring_isolation != "auto":
            return self.scoring_isolation
        return self.validated_isolation.isolation if self.validated_isolation else "clean"

    @property
    def isolation_reason(self) -> str:
        """Why it is graded so, in one line."""
        found = self.validated_isolation
        told = (
            "; ".join(f"`{name}` would not do: {why}" for name, why in found.failed.items()) if found else ""
        )
        more = f"; {told}" if told else ""
        if self.is_isolation_chosen:
            stricter = (
                f"; validation: `{found.isolation}` would do" if found and self.stricter_isolation else ""
            )
            return f"the author chose it{stricter}{more}"
        return f"validation found it{more}" if found else "nothing was chosen, and it was not validated"

    @property
    def stricter_isolation(self) -> Isolation | None:
        """A stricter one than that it is graded in, which validation saw the reference pass in."""
        found = self.validated_isolation
        if self.isolation != "clean" or found is None or found.isolation not in ("answer", "system"):
            return None
        return found.isolation

    @property
    def keeps_start(self) -> bool:
        """Whether what its devbox looked like at the start is needed to grade it."""
        return self.isolation in ("answer", "system") or self.stricter_isolation is not None


RULES_IN_METADATA = {
    "benchyard.scoring": "scoring_isolation",
    "benchyard.validated_isolation": "validated_isolation",
    "benchyard.answer_paths": "answer_paths",
    "benchyard.answer_excludes": "answer_excludes",
    "benchyard.scoring_blueprint_id": "scoring_blueprint_id",
    "benchyard.attachments": "attachments",
    "benchyard.collect_commands": "collect_commands",
    "benchyard.nop_score": "nop_score",
    "benchyard.scoring_network": "scoring_network",
    "benchyard.scoring_secrets": "scoring_secrets",
    "benchyard.scoring_tracing": "scoring_tracing",
    "benchyard.agent_network_policy": "agent_network_policy",
    "benchyard.agent_timeout_sec": "agent_timeout_sec",
    "benchyard.tries": "tries",
    "benchyard.retry_prompt": "retry_prompt",
    "benchyard.steps": "steps",
    "benchyard.reward_strategy": "reward_strategy",
}
"""Metadata key -> the rule that it gives, for clients that cannot send the field."""


_NOT_GRADED = {
    *("id", "create_time_ms", "request_hash", "revision", "status", "is_public"),
    *("name", "metadata", "input_context", "scoring_isolation", "validated_isolation"),
    *("agent_timeout_sec", "agent_network_policy", "tries", "retry_prompt", "reward_strategy"),
}
"""What has no part in how the reference is graded, or says in which isolation."""


class ScenarioRequest(ScoringRules):
    """The body of a create call."""

    name: Name
    input_context: InputContext
    scoring_contract: ScoringContract
    environment_parameters: ScenarioEnvironment | None = Field(
        default=None, validation_alias=AliasChoices("environment_parameters", "environment")
    )
    metadata: Metadata | None = None
    reference_output: LongText | None = None
    required_environment_variables: list[EnvName] | None = None
    required_secret_names: list[EnvName] | None = None
    scorer_timeout_sec: WireInt | None = Field(default=None, gt=0, le=SCORER_SECONDS_MAX)
    validation_type: ValidationType | None = None


class ScenarioChange(ScoringRules):
    """The body of an update: None leaves a field as it is, an empty value clears it."""

    name: Name | None = None
    input_context: InputContextChange | None = None
    scoring_contract: ScoringContractChange | None = None
    environment_parameters: ScenarioEnvironment | None = Field(
        default=None, validation_alias=AliasChoices("environment_parameters", "environment")
    )
    metadata: Metadata | None = None
    reference_output: LongText | None = None
    required_environment_variables: list[EnvName] | None = None
    required_secret_names: list[EnvName] | None = None
    scorer_timeout_sec: WireInt | None = Field(default=None, gt=0, le=SCORER_SECONDS_MAX)
    validation_type: ValidationType | None = None


class Scenario(Record, ScoringRules):
    """A scenario as it is kept."""

    name: str
    status: DefinitionStatus = "active"
    input_context: InputContext
    scoring_contract: ScoringContract
    environment: ScenarioEnvironment | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    reference_output: str | None = None
    required_environment_variables: list[str] | None = None
    required_secret_names: list[str] | None = None
    scorer_timeout_sec: int | None = None
    validation_type: ValidationType | None = None
    is_public: bool = False
    revision: int = 1
    """Counts up with every change of what it is."""

    def columns(self) -> Columns:
        """Found by name, status, and whether it is everybody's."""
        return Columns(name=self.name, status=self.status, parent="public" if self.is_public else "own")

    @property
    def scorer_seconds(self) -> int:
        """The time each scorer has."""
        return self.scorer_timeout_sec or SCORER_SECONDS_DEFAULT

    @property
    def working_directory(self) -> str | None:
        """Where the work is done and graded; None is the user's home."""
        return self.environment.working_directory if self.environment else None

    @property
    def graded_digest(self) -> str:
        """Tells scenarios apart whose reference may do or score something else."""
        return hashlib.sha256(self.model_dump_json(exclude=_NOT_GRADED).encode()).hexdigest()

    def frozen(self) -> "Scenario":
        """A copy to be kept as it is, under an id that tells the revision."""
        return self.model_copy(update={"id": revision_id(self.id, self.revision), "request_hash": None})

    def view(self) -> "ScenarioView":
        """As the wire shows it."""
        return ScenarioView.model_validate(self, from_attributes=True)


def revision_id(scenario_id: str, revision: int) -> str:
    """The id that one revision of a scenario is kept under."""
    return f"{scenario_id}@{revision}"


class ScenarioView(ScoringRules):
    """A scenario as the wire shows it."""

    id: str
    name: str
    status: DefinitionStatus
    input_context: InputContext
    scoring_contract: ScoringContract
    environment: ScenarioEnvironment | None = None
    metadata: dict[str, str]
    is_public: bool = False
    reference_output: str | None = None
    required_environment_variables: list[str] | None = None
    required_secret_names: list[str] | None = None
    scorer_timeout_sec: int | None = None
    validation_type: ValidationType | None = None
    revision: int = 1
    create_time_ms: int


S = TypeVar("S", Scenario, ScenarioView)


def of_round(scenario: S, number: int) -> S:
    """A scenario as it is told, solved and graded in one of its rounds, the first of which is 1."""
    if not scenario.steps:
        return scenario
    step = scenario.steps[number - 1]
    told = scenario.input_context.model_copy(update={"problem_statement": step.problem_statement})
    changes: dict[str, Any] = {"input_context": told, "reference_output": step.reference_output}
    if step.scoring_contract is not None:
        changes["scoring_contract"] = step.scoring_contract
    if step.agent_timeout_sec is not None:
        changes["agent_timeout_sec"] = step.agent_timeout_sec
    return scenario.model_copy(update=changes)


def functions_of(scenario: Scenario | ScenarioView) -> list[ScoringFunction]:
    """All that it is graded by, in any of its rounds."""
    contracts = [scenario.scoring_contract, *(step.scoring_contract for step in scenario.steps or [])]
    return [each for contract in contracts if contract for each in contract.scoring_function_parameters]


class ScenarioListView(Model):
    """One page of scenarios."""

    scenarios: list[ScenarioView]
    has_more: bool
    total_count: int | None = None


class CustomScorerRequest(Model):
    """The body of a create or update call: a bash script that scenarios name by its type."""

    type: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:/ -]{1,256}$")]
    bash_script: LongText


class CustomScorer(Record):
    """A custom scorer as it is kept."""

    type: str
    bash_script: str
    revision: int = 1

    def columns(self) -> Columns:
        """Found by its type, which no other has."""
        return Columns(name=self.type)

    def view(self) -> "CustomScorerView":
        """As the wire shows it."""
        return CustomScorerView.model_validate(self, from_attributes=True)


class CustomScorerView(Model):
    """A custom scorer as the wire shows it."""

    id: str
    type: str
    bash_script: str
    revision: int = 1


class CustomScorerListView(Model):
    """One page of custom scorers."""

    scorers: list[CustomScorerView]
    has_more: bool
    total_count: int | None = None


class ScorerTrialRequest(Model):
    """A custom scorer to be tried in a devbox of its own."""

    scoring_context: Any
    environment_parameters: ScenarioEnvironment | None = None


class ScorerTrialResult(Model):
    """What a custom scorer said when it was tried."""

    scoring_function_name: str
    score: float
    state: Literal["unknown", "complete", "error"]
    output: str


class ScorerTrialView(Model):
    """How a trial of a custom scorer went."""

    name: str
    scoring_context: Any
    scoring_result: ScorerTrialResult
    environment_parameters: ScenarioEnvironment | None = None
