"""Folders of SWE-bench's own task repository, as rows."""

from collections.abc import Iterator
from pathlib import Path

import yaml

from benchyard.benchmarks.folders import MOST_YAML_BYTES, Folder
from benchyard.benchmarks.swe_rows import Row
from benchyard.errors import DatasetError, UsageError

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


def is_repository(data: Path) -> bool:
    """Whether a folder is a copy of the task repository."""
    return (data / _FOLDER).is_dir()


def found(data: Path, dataset: str) -> Iterator[Row | DatasetError]:
    """A row for each task of a dataset, an error for one that cannot be read, in order of their names."""
    for path in sorted((data / _FOLDER).iterdir()):
        if not path.is_dir() or path.is_symlink() or not (path / _TASK).exists():
            continue
        try:
            row = _row(Folder(path))
        except (UsageError, yaml.YAMLError, ValueError, TypeError) as error:
            yield DatasetError(f"{path}: {error}")
            continue
        named = row.get("datasets")
        if not isinstance(named, list) or dataset in named:
            yield row


def _row(folder: Folder) -> Row:
    row: Row = {"instance_id": folder.path.name}
    row |= yaml.safe_load(folder.text(_TASK, MOST_YAML_BYTES)) or {}
    row |= yaml.safe_load(folder.text(_TESTS, _MOST_BYTES)) if folder.has(_TESTS) else {}
    for column, name in _FILES.items():
        if folder.has(name):
            row[column] = folder.text(name, _MOST_BYTES)
    return row
