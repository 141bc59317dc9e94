"""`benchmark.yaml`: a benchmark as a file, beside the folders of its own scenarios."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from benchyard.benchmarks.files import located_values, scenario_draft
from benchyard.benchmarks.files.bounded_folder import MOST_YAML_BYTES, BoundedFolder, InnerPath
from benchyard.benchmarks.files.located_values import FilePart, LocatedData
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.errors import UsageError
from benchyard.models.base import Metadata, ShortText
from benchyard.models.benchmarks import MAX_SCENARIOS, BenchmarkRequest
from benchyard.models.scenarios import EnvName, LongText, Name

NAME = "benchmark.yaml"


class ScenarioPart(FilePart):
    """A scenario: a folder here, or one that the server has."""

    path: InnerPath | None = None
    id: ShortText | None = None
    name: ShortText | None = None

    @model_validator(mode="after")
    def _one(self) -> "ScenarioPart":
        if len([part for part in (self.path, self.id, self.name) if part]) != 1:
            raise PydanticCustomError("scenario", "give one of `path`, `id` and `name`")
        return self


def _path(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


class BenchmarkFile(FilePart):
    """The whole of a `benchmark.yaml`."""

    name: Name
    description: LongText | None = None
    attribution: LongText | None = None
    required_environment_variables: list[EnvName] | None = None
    required_secret_names: list[EnvName] | None = None
    metadata: Metadata | None = None
    scenarios: list[Annotated[ScenarioPart, BeforeValidator(_path)]] = Field(max_length=MAX_SCENARIOS)


@dataclass(frozen=True)
class NamedScenario:
    """A scenario that the server has, and the line that names it."""

    id: str | None
    name: str | None
    where: str


@dataclass(frozen=True)
class BenchmarkDraft:
    """A benchmark as its folder describes it, its scenarios in order."""

    request: BenchmarkRequest
    """Request without scenarios: only the server knows their ids."""
    scenarios: tuple[ScenarioDraft | NamedScenario, ...]


def read_benchmark(path: Path) -> BenchmarkDraft:
    """Return the benchmark of a folder, with its own scenarios; raises UsageError with file and line."""
    folder = BoundedFolder(path)
    if not folder.has(NAME):
        raise UsageError(f"{path} has no {NAME}; `benchyard benchmark new` makes a folder that has one")
    document = located_values.read_yaml(path / NAME, folder.text(NAME, MOST_YAML_BYTES))
    file = located_values.validate(document, BenchmarkFile)
    scenarios = tuple(_scenario(document, folder, index, part) for index, part in enumerate(file.scenarios))
    _check_names(document, scenarios)
    return BenchmarkDraft(BenchmarkRequest.model_validate(file.model_dump(exclude={"scenarios"})), scenarios)


def _scenario(
    document: LocatedData, folder: BoundedFolder, index: int, part: ScenarioPart
) -> ScenarioDraft | NamedScenario:
    place = ("scenarios", index)
    if part.path is None:
        return NamedScenario(part.id, part.name, f"{document.path}:{document.line(place)}")
    try:
        folder.inside(part.path)
    except UsageError as error:
        raise document.refuse(place, error.message) from error
    if not (folder.path / part.path).is_dir():
        raise document.refuse(place, f"there is no folder {part.path}")
    return scenario_draft.read_scenario(folder.path / part.path)


def _check_names(document: LocatedData, scenarios: tuple[ScenarioDraft | NamedScenario, ...]) -> None:
    seen: set[str] = set()
    for index, scenario in enumerate(scenarios):
        name = scenario.request.name if isinstance(scenario, ScenarioDraft) else None
        if name in seen:
            raise document.refuse(("scenarios", index), f"another scenario here has the name {name!r} too")
        if name is not None:
            seen.add(name)
