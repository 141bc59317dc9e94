"""Items of the SWE-bench family: checked rows of files or task folders, and common parts of scenarios."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from benchyard.benchmarks.files.bounded_folder import MOST_YAML_BYTES, BoundedFolder
from benchyard.benchmarks.sources.records import as_list, is_data, rows
from benchyard.errors import DatasetError, UsageError
from benchyard.models.launch import LaunchParameters, Size, UserParameters
from benchyard.models.scenarios import ScenarioEnvironment, ScoringContract, ScoringFunction

Row = dict[str, Any]
MOST_TEXT = 1024**2
"""Most bytes of a patch or a statement in a scenario."""


def read_rows(data: Path, key: str = "instance_id") -> list[Row]:
    """Return the rows of a file, or of all files in a folder; of rows with the same key the fullest one."""
    files = [data] if data.is_file() else sorted(path for path in _files(data) if is_data(path))
    best: dict[str, Row] = {}
    for file in files:
        for number, row in enumerate(rows(file), start=1):
            name = row.get(key)
            if not isinstance(name, str) or not name:
                raise DatasetError(f"{file}: row {number} has no {key}; is this the right file?")
            if name not in best or len(row) > len(best[name]):
                best[name] = row
    return list(best.values())


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and of its direct subfolders, where data sets keep theirs."""
    for path in folder.iterdir():
        if path.is_file():
            yield path
        elif path.is_dir() and not path.is_symlink() and not path.name.startswith("."):
            yield from (inner for inner in path.iterdir() if inner.is_file())


def text_of(row: Row, *names: str, default: str | None = None) -> str:
    """Return a text of a row, under the first of these names that it has; raises DatasetError."""
    for name in names:
        value = row.get(name)
        if isinstance(value, str) and (value or default is not None):
            return value
    if default is not None:
        return default
    raise DatasetError(f"the row has no text {' or '.join(names)}; fetch the data again")


def texts_of(row: Row, *names: str) -> list[str]:
    """Return a list of texts, in whatever notation it is; raises DatasetError."""
    for name in names:
        if row.get(name) is not None:
            return [str(text) for text in as_list(row[name], name)]
    raise DatasetError(f"the row has no list {' or '.join(names)}; fetch the data again")


def patch_of(row: Row, name: str) -> str:
    """Return a diff of a row; raises DatasetError if it is larger than a scenario takes."""
    value = text_of(row, name)
    if len(value) > MOST_TEXT:
        raise DatasetError(f"{name} is larger than {MOST_TEXT} letters, which a scenario cannot hold")
    return value


_FOLDER = "tasks"
_TASK = "task.yaml"
_TESTS = "tests.json"
_FILES = {
    "problem_statement": "problem_statement.md",
    "patch": "gold.patch",
    "test_patch": "test.patch",
    "eval_script": "eval.sh",
    "dockerfile": "Dockerfile",
}
_MOST_BYTES = 8 * 1024**2


def is_task_repository(data: Path) -> bool:
    """Tell whether a folder is a copy of the task repository."""
    return (data / _FOLDER).is_dir()


def read_tasks(data: Path, dataset: str) -> Iterator[Row | DatasetError]:
    """Yield a row for each task of a dataset, ordered by name, or an error if it cannot be read."""
    for path in sorted((data / _FOLDER).iterdir()):
        if not path.is_dir() or path.is_symlink() or not (path / _TASK).exists():
            continue
        try:
            row = _row(BoundedFolder(path))
        except (UsageError, yaml.YAMLError, ValueError, TypeError) as error:
            yield DatasetError(f"{path}: {error}")
            continue
        named = row.get("datasets")
        if not isinstance(named, list) or dataset in named:
            yield row


def _row(folder: BoundedFolder) -> Row:
    row: Row = {"instance_id": folder.path.name}
    row |= yaml.safe_load(folder.text(_TASK, MOST_YAML_BYTES)) or {}
    row |= yaml.safe_load(folder.text(_TESTS, _MOST_BYTES)) if folder.has(_TESTS) else {}
    for column, name in _FILES.items():
        if folder.has(name):
            row[column] = folder.text(name, _MOST_BYTES)
    return row


_ITEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


def item_name(row: Row) -> str:
    """Return the name of a row, which is safe as the name of a folder."""
    item = text_of(row, "instance_id")
    if not _ITEM.fullmatch(item):
        raise DatasetError(f"instance_id {item[:100]!r} is not a name")
    return item


def base_commit(row: Row) -> str:
    """Return the commit that the work begins at."""
    commit = text_of(row, "base_commit")
    if not _COMMIT.fullmatch(commit):
        raise DatasetError(f"base_commit {commit[:100]!r} is not a commit")
    return commit


def contract_of(type: str, **fields: str) -> ScoringContract:
    """Return a contract of one scorer."""
    function = ScoringFunction(name="resolved", weight=1.0, scorer={"type": type, **fields})
    return ScoringContract(scoring_function_parameters=[function])


def root_environment(directory: str) -> ScenarioEnvironment:
    """Return the environment of the devbox: work is done as root, as in the official images."""
    root = UserParameters(username="root", uid=0)
    launch = LaunchParameters(user_parameters=root, resource_size_request=Size.MEDIUM)
    return ScenarioEnvironment(working_directory=directory, launch_parameters=launch)


def answer_rules(directory: str) -> dict[str, Any]:
    """Return the rules for the answer: the files of the repository, without its history."""
    return {
        "scoring_isolation": "answer",
        "answer_paths": [directory],
        "answer_excludes": [f"{directory}/.git"],
    }
