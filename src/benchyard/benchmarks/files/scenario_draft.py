"""Requests to the server, made from the folder of a scenario."""

import base64
import binascii
import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from benchyard.benchmarks.files import located_values
from benchyard.benchmarks.files.bounded_folder import MOST_YAML_BYTES, BoundedFolder
from benchyard.benchmarks.files.located_values import LocatedData
from benchyard.benchmarks.files.scenario_file import (
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
from benchyard.errors import TooLarge, UsageError
from benchyard.models.launch import LaunchParameters
from benchyard.models.scenarios import (
    RULES_IN_METADATA,
    FolderOptions,
    InputContext,
    ScenarioEnvironment,
    ScenarioRequest,
    ScoringContract,
    ScoringFunction,
    Step,
)
from benchyard.models.scoring import references
from benchyard.models.scoring.attachments import PackedFile, pack_files

MOST_BYTES = 64 * 1024
"""Most bytes of one file: the kernel takes commands of at most 128 KiB, and base64 adds a third."""
_WIDTH = 76
_COMMAND = re.compile(
    r"p=(?P<path>.+); mkdir -p -- \"\$\(dirname -- \"\$p\"\)\" && base64 -d > \"\$p\" <<'END' && "
    r"chmod (?P<mode>[0-7]{3,4}) -- \"\$p\"\n(?P<content>[A-Za-z0-9+/=\n]*)END",
)


@dataclass(frozen=True)
class StartingFile:
    """A file; its path begins at the working directory unless it is absolute."""

    path: str
    content: bytes
    mode: int = 0o644


def writing_command(file: StartingFile, working_directory: str | None) -> str:
    """Return the launch command that writes a file; raises TooLarge."""
    if len(file.content) > MOST_BYTES:
        raise TooLarge(
            f"{file.path}: it has {len(file.content)} bytes; a file that is there from the start has at most "
            f"{MOST_BYTES}. Put larger ones into an image: `environment: {{dockerfile: ...}}`"
        )
    path = shlex.quote(posixpath.join(working_directory or "", file.path))
    encoded = base64.b64encode(file.content).decode()
    lines = "".join(f"{encoded[at : at + _WIDTH]}\n" for at in range(0, len(encoded), _WIDTH))
    return (
        f'p={path}; mkdir -p -- "$(dirname -- "$p")" && base64 -d > "$p" <<\'END\' && '
        f'chmod {file.mode:o} -- "$p"\n{lines}END'
    )


def starting_file_of(text: str, working_directory: str | None) -> StartingFile | None:
    """Return the file that a launch command writes; None for any other command."""
    found = _COMMAND.fullmatch(text)
    if found is None:
        return None
    try:
        (path,) = shlex.split(found["path"])
        content = base64.b64decode(found["content"].replace("\n", ""), validate=True)
    except (ValueError, binascii.Error):
        return None
    base = f"{working_directory.rstrip('/')}/" if working_directory else ""
    file = StartingFile(path.removeprefix(base), content, int(found["mode"], 8))
    # A command written by hand may only look like one of ours.
    return file if len(content) <= MOST_BYTES and writing_command(file, working_directory) == text else None


Mode = Literal["none", "open", "allow-list"]


@dataclass(frozen=True)
class NetworkAccess:
    """Hosts that may be reached."""

    mode: Mode
    hosts: tuple[str, ...] = ()
    """Names, `*.` before them to include subdomains, and blocks of addresses; of an allow-list only."""


@dataclass(frozen=True)
class PhaseAccess:
    """Hosts that may be reached while the devbox is prepared, worked in, and graded."""

    setup: NetworkAccess
    agent: NetworkAccess
    scoring: NetworkAccess


MOST_TEST_BYTES = 16 * 1024**2
MOST_STEP_BYTES = 64 * 1024**2
"""Most bytes of one file that a step begins with."""
_OWN = {"name", "weight", "file", "files", "requirements_file"}


@dataclass(frozen=True)
class EnvironmentOrigin:
    """Start of a scenario's devbox, as its file names it."""

    kind: str | None = None
    """A value of `ORIGINS`; None is the default image."""
    name: str = ""
    prebuilt: str | None = None
    """For a Dockerfile: an image that was built from it, used instead if it is available."""
    on_demand: bool = False
    """For a Dockerfile: build it when a devbox first needs it."""


@dataclass(frozen=True)
class ScenarioDraft:
    """A scenario as its folder describes it; the server resolves the names in its environment."""

    folder: BoundedFolder
    request: ScenarioRequest
    origin: EnvironmentOrigin = EnvironmentOrigin()
    custom_scorers: dict[str, str] = field(default_factory=dict)
    """Type -> bash script of the custom scorers that come with it."""
    scoring_origin: EnvironmentOrigin | None = None
    """Start of the devbox it is graded in; None if it is the same as for the work."""
    phases: PhaseAccess | None = None
    """Hosts that may be reached in each phase; None is the server's default."""
    step_files: Mapping[str, bytes] = field(default_factory=dict)
    """Name of a step -> archive of the files put into the working directory before it."""
    attachments: Mapping[str, bytes] = field(default_factory=dict)
    """Name -> archive (`models.scoring.attachments.pack_files`) that is stored beside the scenario."""


def read_scenario(path: Path) -> ScenarioDraft:
    """Return the scenario of a folder; raises UsageError with file and line of a mistake."""
    folder = BoundedFolder(path)
    if not folder.has(NAME):
        raise UsageError(f"{path} has no {NAME}; `benchyard scenario new` makes a folder that has one")
    found = located_values.read_yaml(path / NAME, folder.text(NAME, MOST_YAML_BYTES))
    file = located_values.validate(found, ScenarioFile)
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
        steps=[_step(found, folder, index, part) for index, part in enumerate(file.steps or [])] or None,
        **file.options(),
    )
    return ScenarioDraft(
        folder,
        request,
        _origin(file.environment),
        dict(_customs(found, folder, file)),
        step_files=_step_files(found, folder, file),
    )


def _customs(found: LocatedData, folder: BoundedFolder, file: ScenarioFile) -> Iterator[tuple[str, str]]:
    """Yield type and script of the custom scorers that come with it."""
    lists: list[tuple[located_values.KeyPath, Sequence[ScorerPart]]] = [((), file.scorers)]
    lists += [(("steps", index), part.scorers or []) for index, part in enumerate(file.steps or [])]
    for place, scorers in lists:
        for index, each in enumerate(scorers):
            if isinstance(each, CustomPart) and each.file:
                text = _at(found, (*place, "scorers", index, "file"), folder, each.file)
                yield each.custom_scorer_type, text


def _contract(
    found: LocatedData, folder: BoundedFolder, place: located_values.KeyPath, scorers: Sequence[ScorerPart]
) -> ScoringContract:
    functions = [
        _function(found, folder, (*place, "scorers", index), part) for index, part in enumerate(scorers)
    ]
    return ScoringContract(scoring_function_parameters=functions)


def _step(found: LocatedData, folder: BoundedFolder, index: int, part: StepPart) -> Step:
    place = ("steps", index)
    problem = part.problem or f"{part.folder}/problem.md"
    if not folder.has(problem):
        raise found.refuse((*place, "name"), f"there is no file {problem}, the problem statement")
    there = [name for file_name in references.FILE_NAMES if folder.has(name := f"{part.folder}/{file_name}")]
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


def _step_files(found: LocatedData, folder: BoundedFolder, file: ScenarioFile) -> dict[str, bytes]:
    """Return, for each step, an archive of the files that it names."""
    archives = {}
    for index, part in enumerate(file.steps or []):
        if part.files and not isinstance(part.files, str):
            placed = dict(_placed(found, folder, ("steps", index, "files"), part.files))
            archives[part.name] = pack_files(placed)
    return archives


def _placed(
    found: LocatedData, folder: BoundedFolder, place: located_values.KeyPath, files: Iterable[PlacedFile]
) -> Iterator[tuple[str, PackedFile]]:
    for index, entry in enumerate(files):
        here = (*place, index, "file")
        for name, to in _spread(found, here, folder, entry):
            if to.startswith("/") or ".." in to.split("/"):
                raise found.refuse(here, f"{to}: files of a step go into the working directory")
            yield to, PackedFile(_data(found, here, folder, name, MOST_STEP_BYTES), folder.mode(name))


def _check(found: LocatedData, file: ScenarioFile) -> None:
    """Raise UsageError for parts of the file that contradict or miss each other."""
    if file.isolation == "answer" and not file.answer_paths:
        raise found.refuse(
            ("isolation",),
            "isolation: `answer` needs `answer_paths`, a list of the files and folders to take",
        )
    for key in file.metadata or {}:
        if key in RULES_IN_METADATA:
            name = RULES_IN_METADATA[key].replace("scoring_isolation", "isolation")
            raise found.refuse(("metadata", key), f"metadata: write `{name}:` instead of `{key}`")
    launch = ("environment", "launch_parameters")
    given = (found.data.get("environment") or {}).get("launch_parameters")
    options = {name: found.data[name] for name in FolderOptions.model_fields if name in found.data}
    for place, known in (
        *located_values.stray_keys(LaunchParameters, given, launch),
        *located_values.stray_keys(FolderOptions, options),
    ):
        raise found.refuse(
            place, f"{'.'.join(map(str, place[:-1]))}: {located_values.unknown_key(str(place[-1]), known)}"
        )


def _statement(found: LocatedData, folder: BoundedFolder, file: ScenarioFile) -> str:
    if not folder.has(file.problem):
        raise found.refuse(("problem",), f"there is no file {file.problem}, the problem statement")
    return _at(found, ("problem",), folder, file.problem)


def _reference(found: LocatedData, folder: BoundedFolder, file: ScenarioFile) -> str | None:
    if file.reference is not None:
        return _at(found, ("reference",), folder, file.reference)
    there = [name for name in references.FILE_NAMES if folder.has(name)]
    if len(there) > 1:
        raise UsageError(f"{folder.path}: keep one of {' and '.join(there)}; or say which: `reference: NAME`")
    return folder.text(there[0]) if there else None


def _origin(part: EnvironmentPart) -> EnvironmentOrigin:
    given = [(kind, getattr(part, kind)) for kind in ORIGINS if getattr(part, kind)]
    return EnvironmentOrigin(*given[0]) if given else EnvironmentOrigin()


def _environment(found: LocatedData, folder: BoundedFolder, part: EnvironmentPart) -> ScenarioEnvironment:
    launch = part.launch_parameters
    commands = [
        writing_command(file, part.working_directory) for file in _starting(found, folder, part.files)
    ]
    if commands:
        launch = launch or LaunchParameters()
        launch = launch.model_copy(update={"launch_commands": [*commands, *(launch.launch_commands or [])]})
    return ScenarioEnvironment(working_directory=part.working_directory, launch_parameters=launch)


def _starting(
    found: LocatedData, folder: BoundedFolder, files: Iterable[PlacedFile]
) -> Iterator[StartingFile]:
    for index, entry in enumerate(files):
        place = ("environment", "files", index, "file")
        for name, to in _spread(found, place, folder, entry):
            content = _data(found, place, folder, name, MOST_BYTES)
            yield StartingFile(to, content, folder.mode(name))


def _function(
    found: LocatedData, folder: BoundedFolder, place: located_values.KeyPath, part: ScorerPart
) -> ScoringFunction:
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
    found: LocatedData, place: located_values.KeyPath, folder: BoundedFolder, part: TestBasedPart
) -> Iterator[dict[str, str]]:
    left = MOST_TEST_BYTES
    for index, entry in enumerate(part.files):
        for name, to in _spread(found, (*place, index, "file"), folder, entry):
            text = _at(found, (*place, index, "file"), folder, name, left)
            left -= len(text.encode())
            yield {"file_path": to, "file_contents": text}


def _spread(
    found: LocatedData, place: located_values.KeyPath, folder: BoundedFolder, entry: PlacedFile
) -> Iterator[tuple[str, str]]:
    """Yield the files that an entry names, each with its path in the devbox."""
    try:
        names = list(folder.files(entry.file))
    except UsageError as error:
        raise found.refuse(place, error.message) from error
    base = entry.to or entry.file
    for name in names:
        below = PurePosixPath(name).relative_to(entry.file).as_posix()
        yield name, base if below == "." else posixpath.normpath(posixpath.join(base, below))


def _at(
    found: LocatedData,
    place: located_values.KeyPath,
    folder: BoundedFolder,
    name: str,
    limit: int | None = None,
) -> str:
    """Return the text of a file that a line of the scenario's file names."""
    try:
        return folder.text(name) if limit is None else folder.text(name, limit)
    except UsageError as error:
        raise _error_at(found, place, error) from error


def _data(
    found: LocatedData, place: located_values.KeyPath, folder: BoundedFolder, name: str, limit: int
) -> bytes:
    try:
        return folder.data(name, limit)
    except UsageError as error:
        raise _error_at(found, place, error) from error


def _error_at(found: LocatedData, place: located_values.KeyPath, error: UsageError) -> UsageError:
    told = f"{found.path}:{found.line(place)}: {error.message}"
    return TooLarge(told) if isinstance(error, TooLarge) else UsageError(told, line=found.line(place))
