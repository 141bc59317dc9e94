"""Parts of a Harbor task folder that a scenario has no field for, and the reverse."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import StringConstraints

from benchyard.benchmarks.base import PUBLIC_KEY
from benchyard.benchmarks.files import located_values
from benchyard.benchmarks.files.bounded_folder import BoundedFolder
from benchyard.benchmarks.files.located_values import FilePart
from benchyard.models.scenarios import (
    NOTES,
    IsolationChoice,
    ScenarioRequest,
    TaskOptions,
)
from benchyard.models.scoring.attachments import MOST_PACKED_BYTES, PackedFile

ATTACHMENT = "task"
"""Name of the attachment with these files."""
SECTION = "benchyard"
"""Name of the table in `[metadata]`."""
EXPORTED = tuple(name for name in TaskOptions.model_fields if NOTES[name].harbor is None)
"""Fields of a scenario that a task has no place for but the table."""
_PARTS = ("environment", "tests", "solution")
_STEP_PARTS = ("tests", "solution", "workdir")
_MOST_BYTES = 4 * 1024**2
"""Most bytes of kept files that are not needed to run or grade it."""


class ScorerNote(FilePart):
    """A scorer that the tests were made of; only for people."""

    name: str
    type: str
    weight: float


class BenchyardTable(TaskOptions, FilePart):
    """The table `[metadata.benchyard]`."""

    name: str | None = None
    """Name of the scenario; only for people."""
    benchmark: str | None = None
    """The public benchmark that it belongs to."""
    isolation: IsolationChoice | None = None
    reward: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """Name of the reward that is the score, if there are several and none is called `reward`."""
    network: Literal["server"] | None = None
    """Set if the scenario names no networks: it has the server's default."""
    scoring_network: Literal["none"] | None = None
    """Set if scorers reach nothing here, because the server brings files that their tests fetch elsewhere."""
    reference: Literal["diff", "script", "expected"] | None = None
    """Kind of reference that the solution was made of; only for people."""
    scorers: list[ScorerNote] | None = None


def table_of(found: located_values.LocatedData, metadata: dict[str, Any]) -> BenchyardTable:
    """Return the table in a task's metadata; raises UsageError with the line of a mistake."""
    if SECTION not in metadata:
        return BenchyardTable()
    place = ("metadata", SECTION)
    try:
        return BenchyardTable.model_validate(metadata[SECTION])
    except ValueError as error:
        first = str(error).splitlines()[1:3]
        reason = f"[metadata.{SECTION}]: {' '.join(' '.join(first).split())[:300]}"
        raise found.refuse(place, reason) from error


def apply_table(
    request: ScenarioRequest, part: BenchyardTable, known: IsolationChoice | None = None
) -> ScenarioRequest:
    """Apply the table to a request; a `known` isolation takes precedence over the table's."""
    values = {name: getattr(part, name) for name in TaskOptions.model_fields}
    changes: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    if part.isolation is not None and known is None:
        changes["scoring_isolation"] = part.isolation
    if part.required_secret_names is not None:
        left = [
            variable
            for variable in request.required_environment_variables or []
            if variable not in part.required_secret_names
        ]
        changes["required_environment_variables"] = left or None
    if part.benchmark is not None:
        changes["metadata"] = {**(request.metadata or {}), PUBLIC_KEY: part.benchmark}
    return request.model_copy(update=changes)


def unmapped_files(folder: BoundedFolder, *, needed: Iterable[str]) -> dict[str, PackedFile]:
    """Return the files of a task folder to keep: those `needed`, and small ones while there is room."""
    names = set(needed)
    files: dict[str, PackedFile] = {}
    left = _MOST_BYTES
    for name in folder.files("."):
        path = name.removeprefix("./")
        if path in names:
            files[path] = PackedFile(folder.data(path, MOST_PACKED_BYTES), folder.mode(path))
        elif not _is_elsewhere(path) and not (folder.path / path).is_symlink():
            left -= folder.inside(path).stat().st_size
            if left >= 0:
                files[path] = PackedFile(folder.data(path, _MOST_BYTES), folder.mode(path))
    return files


def _is_elsewhere(path: str) -> bool:
    parts = path.split("/")
    if parts[0] == "steps" and len(parts) > 2:
        return parts[2] in _STEP_PARTS
    return parts[0] in _PARTS or parts[0] == ".git"
