"""Rows of the SWE-bench family: found in files, or put together from folders, and checked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchyard.benchmarks.sources.records import as_list, is_data, rows
from benchyard.errors import DatasetError

Row = dict[str, Any]
MOST_TEXT = 1024**2
"""Of a patch or a statement: what a scenario takes."""


def found(data: Path, key: str = "instance_id") -> list[Row]:
    """The rows of a file, or of all files in a folder; of rows with the same key the fullest is taken."""
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
    """Files of a folder, and of those right below it, where data sets keep theirs."""
    for path in folder.iterdir():
        if path.is_file():
            yield path
        elif path.is_dir() and not path.is_symlink() and not path.name.startswith("."):
            yield from (inner for inner in path.iterdir() if inner.is_file())


def text(row: Row, *names: str, default: str | None = None) -> str:
    """A text of a row, under the first of these names that it has; raises DatasetError."""
    for name in names:
        value = row.get(name)
        if isinstance(value, str) and (value or default is not None):
            return value
    if default is not None:
        return default
    raise DatasetError(f"the row has no text {' or '.join(names)}; fetch the data again")


def texts(row: Row, *names: str) -> list[str]:
    """A list of texts, however it is written; raises DatasetError."""
    for name in names:
        if row.get(name) is not None:
            return [str(each) for each in as_list(row[name], name)]
    raise DatasetError(f"the row has no list {' or '.join(names)}; fetch the data again")


def patch(row: Row, name: str) -> str:
    """A diff of a row, which must not be larger than a scenario takes."""
    value = text(row, name)
    if len(value) > MOST_TEXT:
        raise DatasetError(f"{name} is larger than {MOST_TEXT} letters, which a scenario cannot hold")
    return value
