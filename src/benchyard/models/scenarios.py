"""A scenario: a problem, the devbox it is worked on in, and the way the result is graded."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import AliasChoices, Field, StringConstraints

from benchyard.models.base import Columns, Metadata, Model, Record, ShortText, WireBool, WireFloat, WireInt
from benchyard.models.launch import LaunchParameters

SetupCause = Literal["agent", "scenario", "machine"]
"""The cause of a step's failed setup."""


class StepSetup(Model):
    """The files and the command that prepare a devbox for a step."""

    files: str | None = None
    """The object that is unpacked into the working directory."""
    setup: str | None = None
    """The command that runs there after that."""
    as_root: bool = False


class RoundScore(Model):
    """The score of a round."""

    number: int
    name: str | None = None
    """The name of the step; tries have none."""
    score: float
    rewards: dict[str, float] = Field(default_factory=dict)


class NextRound(Model):
    """The round that is being worked on."""

    number: int
    name: str | None = None
    problem_statement: str
    """The task of the round: for a further try, the scorers' messages about the last one."""
    is_prepared: bool = True
    """True if its devbox is ready for it."""
    failure: str | None = None
    """Reason why it could not be prepared; the round is then not worked on."""
    failure_cause: SetupCause | None = None
    """The cause of that failure: the agent, if the same setup succeeds after the reference."""


SCORER_SECONDS_DEFAULT = 1800
SCORER_SECONDS_MAX = 24 * 3600
MAX_SCORERS = 100
AGENT_SECONDS_MAX = 48 * 3600
MAX_TRIES = 5
MAX_STEPS = 100

DefinitionStatus = Literal["active", "archived"]
ValidationType = Literal["UNSPECIFIED", "FORWARD", "REVERSE", "EVALUATION"]
Isolation = Literal["answer", "system", "clean", "live"]
"""Ways to keep the graded work apart from its author, the strictest first."""
STRICTEST_FIRST: tuple[Isolation, ...] = get_args(Isolation)
IsolationChoice = Literal["auto", "answer", "system", "clean", "live"]
"""The author's choice of isolation; `auto` leaves it to validation."""
RewardStrategy = Literal["mean", "final"]
"""The score of a scenario with steps: the mean over them, or that of the last."""

LongText = Annotated[str, StringConstraints(max_length=1024**2)]
"""A problem statement, a patch, a script."""
ScorerName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{1,256}$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""The name of a thing: one line, without control characters."""
AttachmentName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_./-]{0,99}$")]
EnvName = Annotated[str, StringConstraints(min_length=1, max_length=256)]
DevboxPath = Annotated[str, StringConstraints(min_length=1, max_length=4096)]


class InputContext(Model):
    """The problem of a scenario, as its solver sees it."""

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
    """An extension: variables of every devbox of the scenario, unless a run gives other values."""


class ScoringFunction(Model):
    """A scorer of a contract and its weight; each type of scorer checks its own fields."""

    name: ScorerName
    weight: WireFloat = Field(ge=0, le=1)
    scorer: dict[str, Any]


class ScoringContract(Model):
    """The grading of a scenario: the weighted sum of its scorers."""

    scoring_function_parameters: list[ScoringFunction] = Field(min_length=1, max_length=MAX_SCORERS)


class ScoringContractChange(Model):
    """The scoring contract in an update; None leaves it as it is."""

    scoring_function_parameters: list[ScoringFunction] | None = Field(default=None, max_length=MAX_SCORERS)


class CollectCommand(Model):
    """A command that gathers the work to grade; it may fail."""

    command: LongText
    user: ShortText | None = None
    """None is the scenario's user."""
    timeout_sec: WireFloat = Field(default=60, gt=0, le=SCORER_SECONDS_MAX)


class Step(Model):
    """A step of a scenario with several: worked on in the same devbox, and graded by itself."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    problem_statement: LongText
    scoring_contract: ScoringContract | None = None
    """The contract for this step; the scenario's by default."""
    reference_output: LongText | None = None
    """The solution of this step; by default, the scenario's solves it."""
    files: ShortText | None = None
    """An attachment by its name, or a stored object by its id: an archive that is unpacked into the working
    directory before the step."""
    setup: LongText | None = None
    """A command that runs before the step, after its files are there."""
    setup_as_root: WireBool = False
    agent_timeout_sec: WireFloat | None = Field(default=None, gt=0, le=AGENT_SECONDS_MAX)
    """The agent's time for this step; the scenario's by default."""
    min_reward: WireFloat | dict[ShortText, WireFloat] | None = None
    """The least score, or value of each of these rewards, without which the following steps are left out."""

    def preparation(self, attachments: Mapping[str, str] | None) -> StepSetup | None:
        """Return its preparation, given its scenario's attachments; None if it needs none."""
        if not self.files and not self.setup:
            return None
        files = (attachments or {}).get(self.files, self.files) if self.files else None
        return StepSetup(files=files, setup=self.setup, as_root=self.setup_as_root)


class ValidatedIsolation(Model):
    """The strictest isolation in which validation saw the reference, and only it, solve a scenario."""

    isolation: Isolation
    failed: dict[Isolation, Annotated[str, StringConstraints(max_length=1000)]] = Field(default_factory=dict)
    """Stricter isolations -> why they are ruled out."""


@dataclass(frozen=True)
class FieldNote:
    """Facts about an optional field of a scenario that its type does not express."""

    default: Any = None
    """The value that leaving it out means, which is also sent to clear it."""
    is_original: bool = False
    """True if the original's wire has it; the others, called rules, may also be given as metadata."""
    metadata_key: str | None = None
    """The key of a rule in metadata; by default, its name after `benchyard.`."""
    is_graded: bool = True
    """True if it affects how the reference is graded."""
    folder: str | None = None
    """For a field that `scenario.yaml` has in another form, or not at all: which form, or why not."""
    harbor: str | None = None
    """The same for an exported Harbor task."""


class TaskOptions(Model):
    """Optional fields in the same form on the wire, in `scenario.yaml` and in `[metadata.benchyard]`.

    The class that a field is declared in says where it is found; its note has the other facts.
    """

    validated_isolation: Annotated[ValidatedIsolation | None, FieldNote(is_graded=False)] = None
    """The result of validation. If the author chose `clean`, a score that the work alone does not get in a
    stricter isolation is suspect."""
    answer_paths: Annotated[list[DevboxPath] | None, FieldNote(default=[])] = Field(
        default=None, max_length=100
    )
    """For `answer`: paths taken over from the devbox, absolute or below the working directory. For
    `system`: paths of work beside the working directory and the home."""
    answer_excludes: Annotated[list[DevboxPath] | None, FieldNote(default=[])] = Field(
        default=None, max_length=100
    )
    """Paths below the answer paths that are not taken over, and stay as they were."""
    nop_score: Annotated[WireFloat | None, FieldNote(default=0.0)] = Field(default=None, ge=0, le=1)
    """The expected score without any work; 0 by default."""
    scoring_secrets: Annotated[dict[str, str] | None, FieldNote(default={})] = None
    """Environment variable -> name of a secret for scorers."""
    scoring_tracing: Annotated[WireBool | None, FieldNote(default=False)] = None
    """True if processes of a room may trace each other, as debuggers and leak checkers do; by default not."""
    required_secret_names: Annotated[list[EnvName] | None, FieldNote(default=[], is_original=True)] = None
    """Names of secrets that a run needs for its devbox."""
    scorer_timeout_sec: Annotated[
        WireInt | None,
        FieldNote(default=SCORER_SECONDS_DEFAULT, is_original=True, harbor="`timeout_sec` of `[verifier]`"),
    ] = Field(default=None, gt=0, le=SCORER_SECONDS_MAX)
    """The time of each scorer."""
    agent_timeout_sec: Annotated[
        WireFloat | None, FieldNote(is_graded=False, harbor="`timeout_sec` of `[agent]`")
    ] = Field(default=None, gt=0, le=AGENT_SECONDS_MAX)
    """The agent's time in a job, unless the job gives it less."""
    tries: Annotated[WireInt | None, FieldNote(default=1, is_graded=False)] = Field(
        default=None, ge=1, le=MAX_TRIES
    )
    """Number of tries of an agent: each is scored, and the scorers' messages are passed to the next."""
    retry_prompt: Annotated[LongText | None, FieldNote(default="", is_graded=False)] = None
    """The prompt of a further try; `{output}` in it stands for the scorers' messages."""


class FolderOptions(TaskOptions):
    """Optional fields in the same form on the wire and in `scenario.yaml`."""

    scoring_network: Annotated[
        ShortText | None, FieldNote(default="none", harbor="`network_mode` of `[verifier]`")
    ] = None
    """The network of scorers: `none`, `host`, or a network policy by id or name."""
    agent_network_policy: Annotated[
        ShortText | None, FieldNote(default="", is_graded=False, harbor="`network_mode` of `[agent]`")
    ] = None
    """The network policy, by id or name, after setup; during setup, the devbox's own policy applies."""
    collect_commands: Annotated[
        list[CollectCommand] | None, FieldNote(default=[], harbor="`collect` of `[verifier]`")
    ] = Field(default=None, max_length=20)
    """Commands that run in the devbox when the work is over, before the work to grade is taken."""
    validation_type: Annotated[
        ValidationType | None,
        FieldNote(default="UNSPECIFIED", is_original=True, harbor="`solution/`, which is made as it says"),
    ] = None
    """Form of the reference output: with `REVERSE` a diff that takes the solution away, with `EVALUATION` the
    expected text."""
    required_environment_variables: Annotated[
        list[EnvName] | None,
        FieldNote(default=[], is_original=True, harbor="`env` of `[environment]`, as `${NAME}`"),
    ] = None
    """Names of variables that a run must set."""
    reward_strategy: Annotated[
        RewardStrategy | None,
        FieldNote(default="mean", is_graded=False, harbor="`multi_step_reward_strategy`"),
    ] = None
    """The score of the steps together; the mean by default."""


class ScenarioOptions(FolderOptions):
    """Optional fields on the wire: of the body of a create call, of an update, of records and views."""

    scoring_isolation: Annotated[
        IsolationChoice | None,
        FieldNote(
            default="auto",
            metadata_key="benchyard.scoring",
            is_graded=False,
            folder="`isolation`",
            harbor="`isolation` of `[metadata.benchyard]`",
        ),
    ] = None
    """The author's choice; None and `auto` mean the result of validation, or `clean` before there is one."""
    scoring_blueprint_id: Annotated[
        ShortText | None,
        FieldNote(
            default="",
            folder="left out: the id of an image that a Harbor task describes",
            harbor="the Dockerfile in `tests/`",
        ),
    ] = None
    """For `answer`: the blueprint or image that scorers grade in, in place of the devbox's own."""
    attachments: Annotated[
        dict[AttachmentName, ShortText] | None,
        FieldNote(
            default={},
            folder="left out: ids of archives; a folder names its files where they are used",
            harbor="the files of `tests/` and `solution/`",
        ),
    ] = Field(default=None, max_length=MAX_STEPS + 20)
    """Name -> id of a stored object, an archive of files for scorers and the reference output."""
    reference_output: Annotated[
        LongText | None,
        FieldNote(default="", is_original=True, folder="a file called `reference`", harbor="`solution/`"),
    ] = None
    """The solution: a diff, a script, or the text of an answer."""
    steps: Annotated[
        list[Step] | None,
        FieldNote(folder="`steps` with files below it", harbor="`steps` with files below it"),
    ] = Field(default=None, max_length=MAX_STEPS)
    """Tasks that are worked on in order, each scored before the next."""

    @property
    def n_rounds(self) -> int:
        """Return the largest number of rounds it may have."""
        return len(self.steps or ()) or self.tries or 1

    @property
    def is_isolation_chosen(self) -> bool:
        """Tell whether its author chose an isolation."""
        return self.scoring_isolation not in (None, "auto")

    @property
    def isolation(self) -> Isolation:
        """Return the isolation: the author's choice, else the result of validation, else `clean`."""
        if self.scoring_isolation is not None and self.scoring_isolation != "auto":
            return self.scoring_isolation
        return self.validated_isolation.isolation if self.validated_isolation else "clean"

    @property
    def isolation_reason(self) -> str:
        """Explain the choice of isolation in one line."""
        validated = self.validated_isolation
        reasons = (
            "; ".join(f"`{name}` would not do: {why}" for name, why in validated.failed.items())
            if validated
            else ""
        )
        more = f"; {reasons}" if reasons else ""
        if self.is_isolation_chosen:
            stricter = (
                f"; validation: `{validated.isolation}` would do"
                if validated and self.stricter_isolation
                else ""
            )
            return f"the author chose it{stricter}{more}"
        return f"validation found it{more}" if validated else "nothing was chosen, and it was not validated"

    @property
    def stricter_isolation(self) -> Isolation | None:
        """Return the stricter isolation in which validation saw the reference pass; None if there is none."""
        validated = self.validated_isolation
        if self.isolation != "clean" or validated is None or validated.isolation not in ("answer", "system"):
            return None
        return validated.isolation

    @property
    def keeps_start(self) -> bool:
        """Tell whether grading needs the devbox's disk as it was at the start."""
        return self.isolation in ("answer", "system") or self.stricter_isolation is not None


def _notes() -> Iterator[tuple[str, FieldNote]]:
    for name, field in ScenarioOptions.model_fields.items():
        yield name, next(each for each in field.metadata if isinstance(each, FieldNote))


NOTES: Mapping[str, FieldNote] = dict(_notes())
"""The note of each optional field."""
RULES = tuple(name for name, note in NOTES.items() if not note.is_original)
"""The rules: optional fields that the original's wire lacks."""
RULES_IN_METADATA = {NOTES[name].metadata_key or f"benchyard.{name}": name for name in RULES}
"""Metadata key -> the rule it sets, for clients that cannot send the field."""
_NOT_GRADED = {
    *("id", "create_time_ms", "request_hash", "revision", "status", "is_public"),
    *("name", "metadata", "input_context"),
    *(name for name, note in NOTES.items() if not note.is_graded),
}
"""Fields that do not affect how the reference is graded, or only choose the isolation."""


class ScenarioRequest(ScenarioOptions):
    """The body of a create call."""

    name: Name
    input_context: InputContext
    scoring_contract: ScoringContract
    environment_parameters: ScenarioEnvironment | None = Field(
        default=None, validation_alias=AliasChoices("environment_parameters", "environment")
    )
    metadata: Metadata | None = None


class ScenarioChange(ScenarioOptions):
    """The body of an update: None leaves a field as it is, an empty value clears it."""

    name: Name | None = None
    input_context: InputContextChange | None = None
    scoring_contract: ScoringContractChange | None = None
    environment_parameters: ScenarioEnvironment | None = Field(
        default=None, validation_alias=AliasChoices("environment_parameters", "environment")
    )
    metadata: Metadata | None = None


class Scenario(Record, ScenarioOptions):
    """A scenario as it is stored."""

    name: str
    status: DefinitionStatus = "active"
    input_context: InputContext
    scoring_contract: ScoringContract
    environment: ScenarioEnvironment | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    is_public: bool = False
    revision: int = 1
    """Increases with every change of the definition."""

    def columns(self) -> Columns:
        """Index by name, status, and whether it is public."""
        return Columns(name=self.name, status=self.status, parent="public" if self.is_public else "own")

    @property
    def scorer_seconds(self) -> int:
        """Return the seconds that each scorer has."""
        return self.scorer_timeout_sec or SCORER_SECONDS_DEFAULT

    @property
    def working_directory(self) -> str | None:
        """Return the folder in which the work is done and graded; None is the user's home."""
        return self.environment.working_directory if self.environment else None

    @property
    def graded_digest(self) -> str:
        """Return a digest that differs if the references of scenarios may behave or score differently."""
        graded = self.model_dump(mode="json", exclude=_NOT_GRADED, exclude_none=True)
        # Reports are kept under it: neither the order of fields nor new ones that are not set may change it.
        return hashlib.sha256(json.dumps(graded, sort_keys=True).encode()).hexdigest()

    def frozen(self) -> "Scenario":
        """Return a copy for storage, under the id of the revision."""
        return self.model_copy(update={"id": revision_id(self.id, self.revision), "request_hash": None})

    def view(self) -> "ScenarioView":
        """Return the scenario as the wire shows it."""
        return ScenarioView.model_validate(self, from_attributes=True)


def revision_id(scenario_id: str, revision: int) -> str:
    """Return the id under which a revision of a scenario is stored."""
    return f"{scenario_id}@{revision}"


class ScenarioView(ScenarioOptions):
    """A scenario as the wire shows it."""

    id: str
    name: str
    status: DefinitionStatus
    input_context: InputContext
    scoring_contract: ScoringContract
    environment: ScenarioEnvironment | None = None
    metadata: dict[str, str]
    is_public: bool = False
    revision: int = 1
    create_time_ms: int


S = TypeVar("S", Scenario, ScenarioView)


def of_round(scenario: S, number: int) -> S:
    """Return the scenario with the task, solution and grading of one of its rounds, counted from 1."""
    if not scenario.steps:
        return scenario
    step = scenario.steps[number - 1]
    context = scenario.input_context.model_copy(update={"problem_statement": step.problem_statement})
    changes: dict[str, Any] = {"input_context": context, "reference_output": step.reference_output}
    if step.scoring_contract is not None:
        changes["scoring_contract"] = step.scoring_contract
    if step.agent_timeout_sec is not None:
        changes["agent_timeout_sec"] = step.agent_timeout_sec
    return scenario.model_copy(update=changes)


def functions_of(scenario: Scenario | ScenarioView) -> list[ScoringFunction]:
    """Return all its scoring functions, of any of its rounds."""
    contracts = [scenario.scoring_contract, *(step.scoring_contract for step in scenario.steps or [])]
    return [
        parameter for contract in contracts if contract for parameter in contract.scoring_function_parameters
    ]


class ScenarioListView(Model):
    """A page of scenarios."""

    scenarios: list[ScenarioView]
    has_more: bool
    total_count: int | None = None


class CustomScorerRequest(Model):
    """The body of a create or update call: a bash script that scenarios name by its type."""

    type: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:/ -]{1,256}$")]
    bash_script: LongText


class CustomScorer(Record):
    """A custom scorer as it is stored."""

    type: str
    bash_script: str
    revision: int = 1

    def columns(self) -> Columns:
        """Index by its type, which is unique."""
        return Columns(name=self.type)

    def view(self) -> "CustomScorerView":
        """Return the scorer as the wire shows it."""
        return CustomScorerView.model_validate(self, from_attributes=True)


class CustomScorerView(Model):
    """A custom scorer as the wire shows it."""

    id: str
    type: str
    bash_script: str
    revision: int = 1


class CustomScorerListView(Model):
    """A page of custom scorers."""

    scorers: list[CustomScorerView]
    has_more: bool
    total_count: int | None = None


class ScorerValidationRequest(Model):
    """A custom scorer to try in a new devbox."""

    scoring_context: Any
    environment_parameters: ScenarioEnvironment | None = None


class ScorerValidationResult(Model):
    """The result of trying a custom scorer."""

    scoring_function_name: str
    score: float
    state: Literal["unknown", "complete", "error"]
    output: str


class ScorerValidationView(Model):
    """A trial of a custom scorer."""

    name: str
    scoring_context: Any
    scoring_result: ScorerValidationResult
    environment_parameters: ScenarioEnvironment | None = None
