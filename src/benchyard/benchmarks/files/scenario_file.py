"""Schema of `scenario.yaml`."""

import difflib
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError

from benchyard import registry
from benchyard.benchmarks.files.bounded_folder import InnerPath
from benchyard.benchmarks.files.located_values import FilePart
from benchyard.models.base import Metadata, ShortText, WireBool, WireFloat, WireInt
from benchyard.models.launch import LaunchParameters
from benchyard.models.scenarios import (
    AGENT_SECONDS_MAX,
    MAX_SCORERS,
    MAX_STEPS,
    FolderOptions,
    IsolationChoice,
    LongText,
    Name,
    ScorerName,
)

NAME = "scenario.yaml"
STEPS = "steps"
"""Name of the folder with the files of steps."""
_WEIGHTS_OFF = 1e-6
ORIGINS = ("blueprint", "snapshot", "image", "dockerfile")


class PlacedFile(FilePart):
    """A file or folder here, and its place in the devbox; without `to`, the same path as here."""

    file: InnerPath
    to: Annotated[str, Field(min_length=1, max_length=4096)] | None = None


def _file_from_text(value: Any) -> Any:
    return {"file": value} if isinstance(value, str) else value


PlacedFiles = list[Annotated[PlacedFile, BeforeValidator(_file_from_text)]]


class EnvironmentPart(FilePart):
    """`environment`: the devbox a scenario is worked on in."""

    blueprint: ShortText | None = None
    """Name, which means the newest that was built, or id."""
    snapshot: ShortText | None = None
    image: ShortText | None = None
    dockerfile: InnerPath | None = None
    """Built when it is pushed; its folder is the context."""
    working_directory: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    launch_parameters: LaunchParameters | None = None
    files: PlacedFiles = Field(default_factory=list)
    """Files written before work begins."""

    @model_validator(mode="after")
    def _one_origin(self) -> "EnvironmentPart":
        origins = [name for name in ORIGINS if getattr(self, name)]
        if len(origins) > 1:
            raise PydanticCustomError(
                "origins", "give one of {given}, not all", {"given": ", ".join(origins)}
            )
        return self


class ScorerPart(FilePart):
    """Fields of every scorer."""

    name: ScorerName
    weight: WireFloat | None = Field(default=None, ge=0, le=1)
    """May be left out if there is only one scorer."""


class _Texted(ScorerPart):
    """A scorer with a text, which may be in a file."""

    user: Literal["root"] | None = None
    """User who grades, if not the scenario's user: then `$BENCHYARD_GRADED` runs what is graded."""
    file: InnerPath | None = None

    @model_validator(mode="after")
    def _one_text(self) -> "_Texted":
        field = text_field(self)
        if (getattr(self, field) is None) == (self.file is None):
            raise PydanticCustomError("text", "give either `{field}` or `file`", {"field": field})
        return self


class BashScriptPart(_Texted):
    """A bash script that prints the score."""

    type: Literal["bash_script_scorer"]
    bash_script: LongText | None = None


class CommandPart(_Texted):
    """A command that passes by exiting with 0."""

    type: Literal["command_scorer"]
    command: LongText | None = None


class PythonScriptPart(_Texted):
    """A Python script that prints the score."""

    type: Literal["python_script_scorer"]
    python_script: LongText | None = None
    python_version_constraint: ShortText | None = None
    requirements_contents: LongText | None = None
    requirements_file: InnerPath | None = None

    @model_validator(mode="after")
    def _one_list(self) -> "PythonScriptPart":
        if self.requirements_contents is not None and self.requirements_file is not None:
            raise PydanticCustomError("text", "give either `requirements_contents` or `requirements_file`")
        return self


class TestFilePart(FilePart):
    """A test file with its content in place."""

    __test__ = False
    file_path: Annotated[str, Field(min_length=1, max_length=4096)]
    file_contents: str | None = None


class TestBasedPart(_Texted):
    """Test files, and a command that runs them."""

    __test__ = False
    type: Literal["test_based_scorer"]
    test_command: LongText | None = None
    test_files: list[TestFilePart] = Field(default_factory=list)
    report_tests: WireInt | None = Field(default=None, ge=0)
    """Number of tests the runner's report must list, if the command makes it leave one; 0 is any number."""
    files: PlacedFiles = Field(default_factory=list)


class AstGrepPart(ScorerPart):
    """A pattern of code that must occur."""

    type: Literal["ast_grep_scorer"]
    pattern: LongText
    search_directory: Annotated[str, Field(min_length=1, max_length=4096)]
    lang: ShortText | None = None


class CustomPart(ScorerPart):
    """A scorer that is registered by its type; with `file`, pushing registers it."""

    type: Literal["custom_scorer"]
    user: Literal["root"] | None = None
    custom_scorer_type: ShortText
    scorer_params: dict[str, Any] | None = None
    file: InnerPath | None = None


class OtherPart(ScorerPart):
    """A scorer of an extension: its own fields are passed on unchanged."""

    model_config = ConfigDict(extra="allow")
    type: str

    @model_validator(mode="after")
    def _is_known(self) -> "OtherPart":
        known = [*TEXTS, "ast_grep_scorer", "custom_scorer", *_installed()]
        if self.type not in known:
            near = difflib.get_close_matches(self.type, known, n=1)
            said = f"did you mean `{near[0]}`?" if near else f"there are: {', '.join(sorted(set(known)))}"
            raise PydanticCustomError("scorer_type", "no scorer has this type; {said}", {"said": said})
        return self


TEXTS = {
    "bash_script_scorer": "bash_script",
    "command_scorer": "command",
    "python_script_scorer": "python_script",
    "test_based_scorer": "test_command",
}
"""Type of scorer -> field that `file` stands for."""


def text_field(part: ScorerPart) -> str:
    """Return the field of a scorer that `file` stands for."""
    return TEXTS[str(getattr(part, "type", ""))]


def _installed() -> list[str]:
    return [name.replace("-", "_") + "_scorer" for name in registry.names("scorers")]


def _tag(value: Any) -> str:
    tag = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return tag if tag in TEXTS or tag in ("ast_grep_scorer", "custom_scorer") else "other"


AnyScorer = Annotated[
    Annotated[BashScriptPart, Tag("bash_script_scorer")]
    | Annotated[CommandPart, Tag("command_scorer")]
    | Annotated[PythonScriptPart, Tag("python_script_scorer")]
    | Annotated[TestBasedPart, Tag("test_based_scorer")]
    | Annotated[AstGrepPart, Tag("ast_grep_scorer")]
    | Annotated[CustomPart, Tag("custom_scorer")]
    | Annotated[OtherPart, Tag("other")],
    Discriminator(_tag),
]


def _weighted(scorers: list[AnyScorer]) -> list[AnyScorer]:
    weights = [scorer.weight for scorer in scorers if scorer.weight is not None]
    if len(scorers) == 1 and not weights:
        return scorers
    if len(weights) < len(scorers):
        raise PydanticCustomError("weights", "each of several scorers needs a `weight`")
    if abs(sum(weights) - 1) > _WEIGHTS_OFF:
        total = f"{sum(weights):.6g}"
        raise PydanticCustomError(
            "weights", "the weights add up to {total}; they must add up to 1", {"total": total}
        )
    return scorers


Scorers = Annotated[list[AnyScorer], Field(min_length=1, max_length=MAX_SCORERS), AfterValidator(_weighted)]


class StepPart(FilePart):
    """A step of `steps`; its files lie in `steps/NAME` unless it names others."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    problem: InnerPath | None = None
    scorers: Scorers | None = None
    """Scorers of the step; without them, the scenario's."""
    reference: InnerPath | None = None
    files: ShortText | PlacedFiles | None = None
    """Files put into the working directory before it; or an archive of them, by the id of its object."""
    setup: LongText | None = None
    setup_as_root: WireBool = False
    agent_timeout_sec: WireFloat | None = Field(default=None, gt=0, le=AGENT_SECONDS_MAX)
    min_reward: WireFloat | dict[ShortText, WireFloat] | None = None

    @property
    def folder(self) -> str:
        """Folder of its files."""
        return f"{STEPS}/{self.name}"


class ScenarioFile(FolderOptions, FilePart):
    """The whole of a `scenario.yaml`."""

    name: Name
    problem: InnerPath = "problem.md"
    """The file of the problem statement."""
    additional_context: Any | None = None
    environment: EnvironmentPart = Field(default_factory=EnvironmentPart)
    scorers: Scorers
    reference: InnerPath | None = None
    """File of the reference output, if it is not called reference.patch, .sh or .txt."""
    isolation: IsolationChoice = "auto"
    steps: list[StepPart] | None = Field(default=None, max_length=MAX_STEPS)
    metadata: Metadata | None = None

    @model_validator(mode="after")
    def _one_kind_of_rounds(self) -> "ScenarioFile":
        if self.steps and (self.tries or 1) > 1:
            raise PydanticCustomError("rounds", "give either `steps` or several `tries`, not both")
        return self

    def options(self) -> dict[str, Any]:
        """Return the optional fields that it has in the same form as the wire, and the isolation."""
        same = {name: getattr(self, name) for name in FolderOptions.model_fields}
        return {**same, "scoring_isolation": self.isolation}
