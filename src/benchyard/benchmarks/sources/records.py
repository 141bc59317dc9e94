"""Rows of a data file, one after the other: `.jsonl`, `.jsonl.gz`, `.json`, `.csv` and `.parquet`."""

import ast
import csv
import gzip
import importlib
import json
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from benchyard.errors import DatasetError

Row = dict[str, Any]

MOST_ROW_BYTES = 64 * 1024**2
MOST_ROWS = 1_000_000
_MOST_JSON_BYTES = 512 * 1024**2
_MOST_GROUP_BYTES = 4 * 1024**3
_BATCH = 16
_CUT = "half-downloaded: the file ends in the middle of row"


def rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file as they are needed; raises DatasetError with file, line and mistake."""
    try:
        for count, row in enumerate(_reader(path)(path), start=1):
            if count > MOST_ROWS:
                raise DatasetError(f"{path}: it has more than {MOST_ROWS} rows")
            yield row
    except OSError as error:
        raise DatasetError(f"{path}: {error.strerror or error}") from error


def is_data(path: Path) -> bool:
    """Tell whether a file has an ending that `rows` reads."""
    return any(path.name.lower().endswith(ending) for ending in _READERS)


def as_list(value: object, what: str = "this") -> list[Any]:
    """Return a list given as a list, as JSON text, or as Python text; raises DatasetError."""
    if isinstance(value, list | tuple):
        return list(value)
    if not isinstance(value, str):
        raise DatasetError(f"{what} must be a list, or the text of one, and is {type(value).__name__}")
    if len(value) > MOST_ROW_BYTES:
        raise DatasetError(f"{what} must be a list, and its text is longer than {MOST_ROW_BYTES} letters")
    value_list = _parsed(value.strip())
    if not isinstance(value_list, list | tuple):
        raise DatasetError(f"{what} must be a list, or the text of one, and is {_short(value)}")
    return list(value_list)


def _parsed(text: str) -> object:
    """Return the value of a text as JSON, else as a literal of Python; None if it is neither."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _short(text: str) -> str:
    return repr(text[:60]) + ("..." if len(text) > 60 else "")


def _reader(path: Path) -> Callable[[Path], Iterator[Row]]:
    for ending, reader in _READERS.items():
        if path.name.lower().endswith(ending):
            return reader
    raise DatasetError(f"{path}: rows are read from files that end with {', '.join(_READERS)}")


def _jsonl(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        yield from _json_lines(path, file)


def _jsonl_gz(path: Path) -> Iterator[Row]:
    row = 1
    try:
        with gzip.open(path, "rb") as file:
            for row, found in enumerate(_json_lines(path, file), start=2):  # noqa: B007
                yield found
    except EOFError as error:
        raise DatasetError(f"{path}:{row}: {_CUT} {row}; fetch it again") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DatasetError(
            f"{path}: this is not a gzip file, or it is damaged: {error}; fetch it again"
        ) from error


def _json_lines(path: Path, file: "BinaryIO | gzip.GzipFile") -> Iterator[Row]:
    row = 0
    for number, line in _lines(path, file):
        if not line.strip():
            continue
        row += 1
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            cut = not line.endswith(b"\n")
            said = f"{_CUT} {row}; fetch it again" if cut else f"this is not valid JSON: {_reason(error)}"
            raise DatasetError(f"{path}:{number}: {said}", line=number) from error
        yield _require_row(found, f"{path}:{number}")


def _lines(path: Path, file: "BinaryIO | gzip.GzipFile") -> Iterator[tuple[int, bytes]]:
    """Yield numbered lines, none longer than a row may be."""
    number = 0
    while line := file.readline(MOST_ROW_BYTES + 1):
        number += 1
        if len(line) > MOST_ROW_BYTES:
            raise DatasetError(f"{path}:{number}: the row is larger than {MOST_ROW_BYTES} bytes")
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        yield number, line


def _json(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        content = file.read(_MOST_JSON_BYTES + 1)
    if len(content) > _MOST_JSON_BYTES:
        raise DatasetError(f"{path}: it is larger than {_MOST_JSON_BYTES} bytes; give it as .jsonl")
    try:
        value = json.loads(content.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        cut = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated")
        said = "half-downloaded: the file ends in the middle; fetch it again" if cut else _reason(error)
        raise DatasetError(f"{path}:{error.lineno}: {said}", line=error.lineno) from error
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path}: this is not valid JSON: {_reason(error)}") from error
    yield from _from_json(path, value)


def _from_json(path: Path, found: object) -> Iterator[Row]:
    if isinstance(found, dict) and found and all(isinstance(value, list) for value in found.values()):
        found = _from_columns(path, found)
    if not isinstance(found, list):
        raise DatasetError(f"{path}: a list of rows is expected, or an object of lists")
    for number, row in enumerate(found, start=1):
        yield _require_row(row, f"{path}: row {number}")


def _from_columns(path: Path, columns: dict[str, list[Any]]) -> list[Any]:
    """Return the rows in an object of lists: either its only split, or a list for each column."""
    only = next(iter(columns.values()))
    if len(columns) == 1 and all(isinstance(row, dict) for row in only):
        return only
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        lengths_shown = ", ".join(f"{name[:60]} {length}" for name, length in list(lengths.items())[:10])
        raise DatasetError(f"{path}: its columns have different lengths: {lengths_shown}")
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _csv(path: Path) -> Iterator[Row]:
    csv.field_size_limit(max(csv.field_size_limit(), MOST_ROW_BYTES))
    with path.open("rb") as file:
        reader = csv.reader((_text(path, number, line) for number, line in _lines(path, file)), strict=True)
        header: list[str] | None = None
        row = 0
        while True:
            row += header is not None
            try:
                values = next(reader, None)
            except csv.Error as error:
                cut = "unexpected end of data" in str(error)
                said = f"{_CUT} {row}; fetch it again" if cut else f"this is not valid CSV: {error}"
                raise DatasetError(f"{path}:{reader.line_num}: {said}", line=reader.line_num) from error
            if values is None:
                return
            if header is None:
                header = _header(path, values)
            elif values:
                yield _cells(header, values, f"{path}:{reader.line_num}", row)
            else:
                row -= 1  # An empty line.


def _text(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path}:{number}: this is not UTF-8 text", line=number) from error


def _header(path: Path, names: list[str]) -> list[str]:
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise DatasetError(f"{path}:1: the column {_short(min(twice))} is there twice", line=1)
    return names


def _cells(header: list[str], values: list[str], where: str, row: int) -> Row:
    if len(values) != len(header):
        raise DatasetError(f"{where}: row {row} has {len(values)} cells, and the first line {len(header)}")
    return dict(zip(header, values, strict=True))


def _parquet(path: Path) -> Iterator[Row]:
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise DatasetError(
            f"{path}: parquet files are read with pyarrow; `pip install 'benchyard[benchmarks]'` installs it"
        ) from error
    row = 0
    try:
        with parquet.ParquetFile(path) as file:
            _check_groups(path, file.metadata)
            for batch in file.iter_batches(batch_size=_BATCH):
                if batch.nbytes > _BATCH * MOST_ROW_BYTES:
                    raise DatasetError(f"{path}: its rows are larger than {MOST_ROW_BYTES} bytes")
                for found in batch.to_pylist():
                    row += 1
                    yield _require_row(found, f"{path}: row {row}")
    except (arrow.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        raise DatasetError(f"{path}: {_parquet_reason(path, row, error)}; fetch it again") from error


def _check_groups(path: Path, metadata: Any) -> None:
    """Raise DatasetError for groups of rows that would not fit into memory, by the file's own metadata."""
    sizes = [metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups)]
    if metadata.num_rows > MOST_ROWS or max(sizes, default=0) > _MOST_GROUP_BYTES:
        raise DatasetError(
            f"{path}: it has more than {MOST_ROWS} rows, or more in one group than can be read"
        )


def _parquet_reason(path: Path, row: int, error: Exception) -> str:
    with path.open("rb") as file:
        begins = file.read(4) == b"PAR1"
    if begins and "footer" in str(error):
        return "half-downloaded: the file has no end"
    return f"this is not a parquet file, or it is damaged after row {row}: {_reason(error)}"


def _require_row(row: object, where: str) -> Row:
    if not isinstance(row, dict):
        raise DatasetError(f"{where}: a row must be an object, and this is {type(row).__name__}")
    return row


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return " ".join(str(error).split())[:200]


_READERS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".jsonl": _jsonl,
    ".jsonl.gz": _jsonl_gz,
    ".json": _json,
    ".csv": _csv,
    ".parquet": _parquet,
}
