"""Rows of data files in every form, whole and broken."""

import ast
import csv
import gzip
import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchyard.benchmarks.sources import records
from benchyard.benchmarks.sources.records import as_list, rows
from benchyard.errors import DatasetError

Row = dict[str, Any]

ROWS: list[Row] = [
    {"id": f"r{number}", "text": 'say "ü",\n' * number, "more": str(number)} for number in range(40)
]

LITERALS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def write_jsonl(path: Path, given: list[Row]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in given))


def write_gz(path: Path, given: list[Row]) -> None:
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in given).encode(), mtime=0))


def write_json(path: Path, given: list[Row]) -> None:
    path.write_text(json.dumps(given, indent=1))


def write_columns(path: Path, given: list[Row]) -> None:
    path.write_text(json.dumps({name: [row[name] for row in given] for name in given[0]}))


def write_split(path: Path, given: list[Row]) -> None:
    path.write_text(json.dumps({"test": given}))


def write_csv(path: Path, given: list[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, list(given[0]))
        writer.writeheader()
        writer.writerows(given)


def write_parquet(path: Path, given: list[Row]) -> None:
    arrow = importlib.import_module("pyarrow")
    importlib.import_module("pyarrow.parquet").write_table(arrow.Table.from_pylist(given), path)


WRITERS: dict[str, Callable[[Path, list[Row]], None]] = {
    "a.jsonl": write_jsonl,
    "a.jsonl.gz": write_gz,
    "a.json": write_json,
    "columns.json": write_columns,
    "split.json": write_split,
    "a.csv": write_csv,
    "A.PARQUET": write_parquet,
}


@pytest.mark.parametrize("name", WRITERS)
def test_rows_are_read_in_every_form(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name, ROWS)
    assert list(rows(tmp_path / name)) == ROWS


@pytest.mark.parametrize("name", WRITERS)
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0.05, 0.99))
def test_half_a_file_is_never_taken_for_a_whole_one(tmp_path: Path, name: str, share: float) -> None:
    path = tmp_path / name
    WRITERS[name](path, ROWS)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    found: list[Row] = []
    try:
        found.extend(rows(path))
    except DatasetError:
        return
    # Cut between two lines, or in the last cell of a CSV: only the checksum tells that there was more.
    assert path.suffix in (".jsonl", ".csv")
    assert found[:-1] == ROWS[: len(found) - 1]
    assert path.suffix == ".csv" or found == ROWS[: len(found)]


BROKEN = [
    (
        "a.jsonl",
        b'{"a": 1}\n\n{"a": 2}\n{"a"',
        "a.jsonl:4: half-downloaded: the file ends in the middle of row 3",
    ),
    ("a.jsonl", b'{"a": 1}\n{"a"\n{"a": 3}\n', "a.jsonl:2: this is not valid JSON"),
    ("a.jsonl", b"[1]\n", "a.jsonl:1: a row must be an object, and this is list"),
    ("a.jsonl", b'{"a": "\xff"}\n', "a.jsonl:1: this is not valid JSON"),
    ("a.jsonl", b'{"a": ' + b"9" * 5000 + b"}\n", "a.jsonl:1: this is not valid JSON"),
    ("a.jsonl", b"[" * 100_000 + b"\n", "a.jsonl:1: this is not valid JSON: it is nested too deeply"),
    ("a.jsonl.gz", b"no gzip", "this is not a gzip file"),
    ("a.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 9, mtime=0)[:-9], "half-downloaded"),
    ("a.json", b'[{"a": 1},\n{"a": "tex', "a.json:2: half-downloaded"),
    ("a.json", b'[{"a": 1},\n', "half-downloaded"),
    ("a.json", b'[{"a": 1}\n{}]', "a.json:2: Expecting"),
    ("a.json", b'{"a": [1, 2], "b": [1]}', "different lengths: a 2, b 1"),
    ("a.json", b'{"a": 1}', "a list of rows is expected"),
    ("a.json", b"[1]", "row 1: a row must be an object"),
    ("a.json", b"\xff", "this is not valid JSON"),
    ("a.csv", b'a,b\n1,2\n3,"4', "half-downloaded: the file ends in the middle of row 2"),
    ("a.csv", b"a,b\n1,2\n\n3\n", "a.csv:4: row 2 has 1 cells, and the first line 2"),
    ("a.csv", b"a,a\n1,2\n", "a.csv:1: the column 'a' is there twice"),
    ("a.csv", b'a\n"x"y\n', "a.csv:2: this is not valid CSV"),
    ("a.csv", b"a\n\xff\n", "a.csv:2: this is not UTF-8 text"),
    ("a.parquet", b"PAR1 and then nothing", "half-downloaded: the file has no end"),
    ("a.parquet", b"something else altogether", "this is not a parquet file"),
    ("a.txt", b"", "rows are read from files that end with .jsonl"),
]


@pytest.mark.parametrize(("name", "content", "said"), BROKEN, ids=range(len(BROKEN)))
def test_broken_file_is_refused_with_its_line(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DatasetError) as told:
        list(rows(tmp_path / name))
    assert said in told.value.message
    assert str(tmp_path / name) in told.value.message


@pytest.mark.parametrize("name", WRITERS)
def test_missing_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DatasetError, match="No such file"):
        list(rows(tmp_path / name))


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.csv", "A.PARQUET"])
def test_rows_have_a_largest_size(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    WRITERS[name](tmp_path / name, [{"id": "x" * 10_000} for _ in range(16)])
    monkeypatch.setattr(records, "MOST_ROW_BYTES", 5000)
    with pytest.raises(DatasetError, match="larger than 5000 bytes"):
        list(rows(tmp_path / name))


def test_there_is_a_largest_number_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MOST_ROWS", 39)
    for name, write in WRITERS.items():
        write(tmp_path / name, ROWS)
        with pytest.raises(DatasetError, match="more than 39 rows"):
            list(rows(tmp_path / name))


def test_rows_are_read_as_they_are_needed(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\nbroken\n')
    assert next(rows(path)) == {"a": 1}


def test_without_pyarrow_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parquet(tmp_path / "a.parquet", ROWS)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DatasetError, match=r"pip install 'benchyard\[benchmarks\]'"):
        list(rows(tmp_path / "a.parquet"))


@settings(deadline=None, max_examples=30)
@given(st.lists(LITERALS, max_size=5))
def test_a_list_is_itself_however_it_is_written(value: list[Any]) -> None:
    assert as_list(value) == value
    assert as_list(json.dumps(value)) == value
    assert as_list(json.dumps(value, ensure_ascii=False, indent=1)) == value


@given(st.lists(st.text() | st.integers() | st.none() | st.booleans()))
def test_text_of_python_is_read_as_python_does(value: list[Any]) -> None:
    text = repr(value)
    assert as_list(text) == ast.literal_eval(text) == value
    assert as_list(repr(tuple(value))) == value


@given(st.text())
def test_any_text_is_a_list_or_refused(text: str) -> None:
    try:
        found = as_list(text)
    except DatasetError:
        return
    assert isinstance(found, list)


NO_LISTS: list[object] = [
    None,
    1,
    {},
    "",
    "1",
    "{}",
    '{"a": 1}',
    "null",
    "['a'",
    "__import__('os')",
    "[" * 100_000,
    "['a'] + ['b']",
    "{1}",
]


@pytest.mark.parametrize("value", NO_LISTS, ids=range(len(NO_LISTS)))
def test_value_that_is_not_a_list_is_refused_by_name(value: object) -> None:
    with pytest.raises(DatasetError, match=r"^FAIL_TO_PASS must be a list"):
        as_list(value, "FAIL_TO_PASS")


def test_odd_escapes_of_python_are_read_in_silence() -> None:
    assert as_list(r"['test_\d']") == [r"test_\d"]
