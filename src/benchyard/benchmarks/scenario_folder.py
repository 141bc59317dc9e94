"""From the folder of a scenario to what the wire is asked for."""

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from benchyard.benchmarks import marked
from benchyard.benchmarks.access import Phases
from benchyard.benchmarks.folders import MOST_YAML_BYTES, Folder
from benchyard.benchmarks.marked import Marked
from benchyard.benchmarks.scenario_file import (
    NAME,
    ORIGINS,
    TEXTS,
    CustomPart,
    EnvironmentPart,
    PlacedFile,
    PythonScriptPart,
    ScenarioFile,
    ScorerPart,
    StepPart,
    TestBasedPart,
)
from benchyard.benchmarks.starting_files import MOST_BYTES, StartingFile, command
from benchyard.errors import TooLarge, UsageError
from benchyard.models import references
from benchyard.models.attachments import PackedFile, packed
from benchyard.models.launch import LaunchParameters
from benchyard.models.scenarios import (
    RULES_IN_METADATA,
    InputContext,
    ScenarioEnvironment,
    ScenarioRequest,
    ScoringContract,
    ScoringFunction,
    Step,
)

MOST_TEST_BYTES = 16 * 1024**2
MOST_STEP_BYTES = 64 * 1024**2
"""Of one file that a step begins with."""
_OWN = {"name", "weight", "file", "files", "requirements_file"}


@dataclass(frozen=True)
class Origin:
    """What a scenario's devbox starts from, as its file names it."""

    kind: str | None = None
    """One of `ORIGINS`; None is the default image."""
    name: str = ""
    prebuilt: str | None = None
    """Of a Dockerfile: an image that was built from it, taken instead where it can be had."""
    on_demand: bool = False
    """Of a Dockerfile: built when a devbox first needs it."""


@dataclass(frozen=True)
class Draft:
    """A scenario as its folder describes it; the server knows what its environment's names mean."""

    folder: Folder
    request: ScenarioRequest
    origin: Origin = Origin()
    custom_scorers: dict[str, str] = field(default_factory=dict)
    """Type -> bash script, of those that come with it."""
    scoring_origin: Origin | None = None
    """What the devbox that it is graded in starts from, where that is another one."""
    phases: Phases | None = None
    """What may be reached in each phase; None is what the server has for everybody."""
    step_files: Mapping[str, bytes] = field(default_factory=dict)
    """Name of a step -> archive of what is put into the working directory before it."""
    attachments: Mapping[str, bytes] = field(default_factory=dict)
    """Name -> archive (`models.attachments.packed`) that is stored beside the scenario."""


def read(path: Path) -> Draft:
    """The scenario of a folder; raises UsageError with file and line of what is wrong."""
    folder = Folder(path)
    if not folder.has(NAME):
        raise UsageError(f"{path} has no {NAME}; `benchyard scenario new` makes a folder that has one")
    found = marked.read(path / NAME, folder.text(NAME, MOST_YAML_BYTES))
    file = marked.checked(found, ScenarioFile)
    _check(found, file)
    request = ScenarioRequest(
        name=file.name,
        input_context=InputContext(
            problem_statement=_statement(found, folder, file), additional_context=file.additional_context
        ),
        scoring_contract=_contract(found, folder, (), file.scorers),
        environment_parameters=_environment(found, folder, file.environment),
        metadata=file.metadata,
        reference_output=_reference(found, folder, file),
        required_environment_variables=file.required_environment_variables,
        required_secret_names=file.required_secret_names,
        scorer_timeout_sec=file.scorer_timeout_sec,
        validation_type=file.validation_type,
        steps=[_step(found, folder, index, part) for index, part in enumerate(file.steps or [])] or None,
        **file.rules().model_dump(exclude={"steps"}),
    )
    return Draft(
        folder,
        request,
        _origin(file.environment),
        dict(_customs(found, folder, file)),
        step_files=_step_files(found, folder, file),
    )


def _customs(found: Marked, folder: Folder, file: ScenarioFile) -> Iterator[tuple[str, str]]:
    """Type and script of the custom scorers that come with it."""
    lists: list[tuple[marked.Place, Sequence[ScorerPart]]] = [((), file.scorers)]
    lists += [(("steps", index), part.scorers or []) for index, part in enumerate(file.steps or [])]
    for place, scorers in lists:
        for index, each in enumerate(scorers):
            if isinstance(each, CustomPart) and each.file:
                text = _at(found, (*place, "scorers", index, "file"), folder, each.file)
                yield each.custom_scorer_type, text


def _contract(
    found: Marked, folder: Folder, place: marked.Place, scorers: Sequence[ScorerPart]
) -> ScoringContract:
    functions = [
        _function(found, folder, (*place, "scorers", index), part) for index, part in enumerate(scorers)
    ]
    return ScoringContract(scoring_function_parameters=functions)


def _step(found: Marked, folder: Folder, index: int, part: StepPart) -> Step:
    place = ("steps", index)
    problem = part.problem or f"{part.folder}/problem.md"
    if not folder.has(problem):
        raise found.refuse((*place, "name"), f"there is no file {problem}, which says what is to be done")
    there = [name for each in references.FILE_NAMES if folder.has(name := f"{part.folder}/{each}")]
    if len(there) > 1 and part.reference is None:
        raise UsageError(f"{folder.path}: keep one of {' and '.join(there)}; or say which: `reference: NAME`")
    reference = part.reference or (there[0] if there else None)
    return Step(
        problem_statement=_at(found, (*place, "problem"), folder, problem),
        scoring_contract=_contract(found, folder, place, part.scorers) if part.scorers else None,
        reference_output=_at(found, (*place, "reference"), folder, reference) if reference else None,
        files=part.files if isinstance(part.files, str) else None,
        **part.model_dump(exclude={"problem", "scorers", "reference", "files"}),
    )


def _step_files(found: Marked, folder: Folder, file: ScenarioFile) -> dict[str, bytes]:
    """Name of a step -> archive of the files that it names."""
    archives = {}
    for index, part in enumerate(file.steps or []):
        if part.files and not isinstance(part.files, str):
            placed = dict(_placed(found, folder, ("steps", index, "files"), part.files))
            archives[part.name] = packed(placed)
    return archives


def _placed(
    found: Marked, folder: Folder, place: marked.Place, files: Iterable[PlacedFile]
) -> Iterator[tuple[str, PackedFile]]:
    for index, entry in enumerate(files):
        here = (*place, index, "file")
        for name, to in _spread(found, here, folder, entry):
            if to.startswith("/") or ".." in to.split("/"):
                raise found.refuse(here, f"{to}: files of a step go into the working directory")
            yield to, PackedFile(_data(found, here, folder, name, MOST_STEP_BYTES), folder.mode(name))


def _check(found: Marked, file: ScenarioFile) -> None:
    """What the parts of a file owe each other."""
    if file.isolation == "answer" and not file.answer_paths:
        raise found.refuse(
            ("isolation",), "isolation: `answer` needs `answer_paths`, a list of what is taken"
        )
    for key in file.metadata or {}:
        if key in RULES_IN_METADATA:
            name = RULES_IN_METADATA[key].replace("scoring_isolation", "isolation")
            raise found.refuse(("metadata", key), f"metadata: write `{name}:` instead of `{key}`")
    launch = ("environment", "launch_parameters")
    given = (found.data.get("environment") or {}).get("launch_parameters")
    for place, known in marked.strays(LaunchParameters, given, launch):
        raise found.refuse(
            place, f"{'.'.join(map(str, place[:-1]))}: {marked.unknown(str(place[-1]), known)}"
        )


def _statement(found: Marked, folder: Folder, file: ScenarioFile) -> str:
    if not folder.has(file.problem):
        raise found.refuse(("problem",), f"there is no file {file.problem}, which says what is to be done")
    return _at(found, ("problem",), folder, file.problem)


def _reference(found: Marked, folder: Folder, file: ScenarioFile) -> str | None:
    if file.reference is not None:
        return _at(found, ("reference",), folder, file.reference)
    there = [name for name in references.FILE_NAMES if folder.has(name)]
    if len(there) > 1:
        raise UsageError(f"{folder.path}: keep one of {' and '.join(there)}; or say which: `reference: NAME`")
    return folder.text(there[0]) if there else None


def _origin(part: EnvironmentPart) -> Origin:
    given = [(kind, getattr(part, kind)) for kind in ORIGINS if getattr(part, kind)]
    return Origin(*given[0]) if given else Origin()


def _environment(found: Marked, folder: Folder, part: EnvironmentPart) -> ScenarioEnvironment:
    launch = part.launch_parameters
    commands = [command(file, part.working_directory) for file in _starting(found, folder, part.files)]
    if commands:
        launch = launch or LaunchParameters()
        launch = launch.model_copy(update={"launch_commands": [*commands, *(launch.launch_commands or [])]})
    return ScenarioEnvironment(working_directory=part.working_directory, launch_parameters=launch)


def _starting(found: Marked, folder: Folder, files: Iterable[PlacedFile]) -> Iterator[StartingFile]:
    for index, entry in enumerate(files):
        place = ("environment", "files", index, "file")
        for name, to in _spread(found, place, folder, entry):
            content = _data(found, place, folder, name, MOST_BYTES)
            yield StartingFile(to, content, folder.mode(name))


def _function(found: Marked, folder: Folder, place: marked.Place, part: ScorerPart) -> ScoringFunction:
    scorer: dict[str, Any] = part.model_dump(exclude_none=True, exclude=_OWN)
    name = getattr(part, "file", None)
    if name and scorer["type"] in TEXTS:
        scorer[TEXTS[scorer["type"]]] = _at(found, (*place, "file"), folder, name)
    if isinstance(part, PythonScriptPart) and part.requirements_file:
        text = _at(found, (*place, "requirements_file"), folder, part.requirements_file)
        scorer["requirements_contents"] = text
    if isinstance(part, TestBasedPart):
        scorer["test_files"] = [
            *scorer.pop("test_files", []),
            *_test_files(found, (*place, "files"), folder, part),
        ]
    return ScoringFunction(name=part.name, weight=1.0 if part.weight is None else part.weight, scorer=scorer)


def _test_files(
    found: Marked, place: marked.Place, folder: Folder, part: TestBasedPart
) -> Iterator[dict[str, str]]:
    left = MOST_TEST_BYTES
    for index, entry in enumerate(part.files):
        for name, to in _spread(found, (*place, index, "file"), folder, entry):
            text = _at(found, (*place, index, "file"), folder, name, left)
            left -= len(text.encode())
            yield {"file_path": to, "file_contents": text}


def _spread(
    found: Marked, place: marked.Place, folder: Folder, entry: PlacedFile
) -> Iterator[tuple[str, str]]:
    """The files that an entry names, each with where it goes."""
    try:
        names = list(folder.files(entry.file))
    except UsageError as error:
        raise found.refuse(place, error.message) from error
    base = entry.to or entry.file
    for name in names:
        below = PurePosixPath(name).relative_to(entry.file).as_posix()
        yield name, base if below == "." else posixpath.normpath(posixpath.join(base, below))


def _at(found: Marked, place: marked.Place, folder: Folder, name: str, limit: int | None = None) -> str:
    """The text of a file that a line of ours names."""
    try:
        return folder.text(name) if limit is None else folder.text(name, limit)
    except UsageError as error:
        raise _refused(found, place, error) from error


def _data(found: Marked, place: marked.Place, folder: Folder, name: str, limit: int) -> bytes:
    try:
        return folder.data(name, limit)
    except UsageError as error:
        raise _refused(found, place, error) from error


def _refused(found: Marked, place: marked.Place, error: UsageError) -> UsageError:
    told = f"{found.path}:{found.line(place)}: {error.message}"
    return TooLarge(told) if isinstance(error, TooLarge) else UsageError(told, line=found.line(place))
