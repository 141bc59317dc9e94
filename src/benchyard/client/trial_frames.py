"""Tables of trials as files and data frames of other programs: CSV, Parquet, pandas, polars."""

import csv
import importlib
import importlib.util
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal, get_args

from benchyard.errors import UsageError
from benchyard.models.reports.job_report import TableColumn, TableView

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Characters with which spreadsheets take a text for a formula."""


def values_of(column: TableColumn) -> list[Any]:
    """Return the values of a column, one for each row."""
    if column.dictionary is not None and column.codes is not None:
        return [column.dictionary[code] for code in column.codes]
    return list(column.values or [])


def write_csv(table: TableView, file: IO[str]) -> None:
    """Write a table as CSV with a line of titles; texts that spreadsheets would run get a quote before."""
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(table.columns)
    writer.writerows(_rows([values_of(column) for column in table.columns.values()]))


def _rows(columns: Sequence[Sequence[Any]]) -> Iterator[list[Any]]:
    for row in zip(*columns, strict=True):
        yield [_cell(value) for value in row]


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return value
    # NUL ends a file for some readers.
    text = value.replace("\0", "\ufffd")
    return f"'{text}" if text.startswith(_FORMULA) else text


FrameKind = Literal["pandas", "polars"]
"""The library of the wanted data frame."""


def write_parquet(table: TableView, path: Path) -> None:
    """Write a table as Parquet; raises UsageError without the library that does."""
    arrow = _library(
        "pyarrow", "Parquet needs pyarrow: install it with `pip install 'benchyard[benchmarks]'`"
    )
    parquet = importlib.import_module("pyarrow.parquet")
    columns = {name: _array(arrow, column) for name, column in table.columns.items()}
    parquet.write_table(arrow.table(columns), path)


def save_csv(table: TableView, path: Path) -> None:
    """Write a table to a file as CSV; the file appears when it is whole."""
    with _replaced(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        write_csv(table, file)


def save_parquet(table: TableView, path: Path) -> None:
    """Write a table to a file as Parquet; the file appears when it is whole."""
    with _replaced(path) as part:
        write_parquet(table, part)


@contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """Yield a file beside a path, which takes the path's place after the block."""
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}; make it first")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".part-")
    os.close(handle)
    try:
        yield Path(name)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)


def _array(arrow: Any, column: TableColumn) -> Any:
    if column.dictionary is None or column.codes is None:
        return arrow.array(column.values or [])
    # A value that is not there is no code.
    nothing = {code for code, text in enumerate(column.dictionary) if text is None}
    codes = [None if code in nothing else code for code in column.codes]
    texts = ["" if text is None else text for text in column.dictionary]
    return arrow.DictionaryArray.from_arrays(
        arrow.array(codes, arrow.int32()), arrow.array(texts, arrow.string())
    )


def frame_of(table: TableView, kind: FrameKind | None = None) -> Any:
    """Return a table as a data frame, of polars or else of pandas, whichever is installed.

    Raises UsageError where it is not.
    """
    columns = {name: values_of(column) for name, column in table.columns.items()}
    chosen = kind or _installed()
    if chosen not in get_args(FrameKind):
        raise UsageError(f"there is no data frame of kind {chosen!r}; there are: pandas, polars")
    library = _library(chosen, f"{chosen} is not installed: install it with `pip install {chosen}`")
    return library.DataFrame(columns, strict=False) if chosen == "polars" else library.DataFrame(columns)


def _installed() -> str:
    for name in ("polars", "pandas"):
        if importlib.util.find_spec(name) is not None:
            return name
    raise UsageError("a data frame needs polars or pandas: install one with `pip install polars`")


def _library(name: str, remedy: str) -> Any:
    # Imported on request: neither is needed otherwise, and both take long.
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageError(remedy) from error
