"""AIME in every form that its sets have: fields, ids, years, answers, files."""

import csv
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from benchyard.benchmarks import catalog
from benchyard.benchmarks.sources.base import HubDatasets
from benchyard.errors import UsageError
from tests.benchmarks.reading import drafts, expected, read_all
from tests.benchmarks.samples.finding import OWN, sample

PROBLEM = "What is $40 + 2$? Braces {like these} and 100% stay as they are."


def written(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


FORMS = {
    "2024-I-4": {"ID": "2024-I-4", "Problem": PROBLEM, "Solution": "It is 42.", "Answer": 42},
    "2024-II-15": {
        "id": 88,
        "problem": PROBLEM,
        "answer": "042",
        "year": "2024",
        "url": "https://a.example/wiki/2024_AIME_II_Problems/Problem_15",
    },
    "2025-7": {"problem": PROBLEM, "answer": "42", "id": "7", "year": 2025},
    "2026-3": {"problem_idx": 3, "answer": 42, "problem": PROBLEM, "problem_type": ["Algebra"], "year": 2026},
    "2024-0": {"id": "aime24-0", "year": 2024, "problem": PROBLEM, "answer": 42, "reference_solution": "..."},
    "2024-5": {"id": "aime24-5", "problem": PROBLEM, "expected_answer": "42", "reference_solution": "..."},
    "1": {"question": PROBLEM, "answer": 42.0},
}


@pytest.mark.parametrize("item", FORMS)
def test_each_form_of_a_row_is_read(tmp_path: Path, item: str) -> None:
    (request,) = drafts("aime", written(tmp_path / "rows.jsonl", FORMS[item]))
    assert request.name == f"aime/{item}"
    assert PROBLEM in request.input_context.problem_statement
    assert "It is 42" not in request.input_context.problem_statement
    assert expected(request) == {"answer": 42}
    assert request.reference_output == "42\n"


@pytest.mark.parametrize(
    ("path", "year"),
    [
        ("math-ai--aime25/test.jsonl", "2025"),
        ("aime2026.jsonl", "2026"),
        ("Maxwell-Jia--AIME_2024/x.jsonl", "2024"),
        ("aime_2024_problems.jsonl", "2024"),
        ("x.jsonl", None),
    ],
)
def test_the_file_names_the_year_where_no_row_does(tmp_path: Path, path: str, year: str | None) -> None:
    written(tmp_path / path, {"problem": PROBLEM, "answer": "42", "id": "7"})
    (request,) = drafts("aime", tmp_path)
    assert (request.metadata or {}).get("year") == year
    assert request.name == (f"aime/{year}-7" if year else "aime/7")


def test_years_are_read_together_or_one_at_a_time(tmp_path: Path) -> None:
    for year in (2024, 2025, 2026):
        rows = ({"problem": PROBLEM, "answer": 1, "id": number} for number in range(3))
        written(tmp_path / f"set--aime{year}" / "test.jsonl", *rows)
    assert len(drafts("aime", tmp_path)) == len(drafts("aime", tmp_path, variant="all")) == 9
    names = [request.name for request in drafts("aime", tmp_path, variant="2025")]
    assert names == ["aime/2025-0", "aime/2025-1", "aime/2025-2"]


def test_csv_and_parquet_are_read(tmp_path: Path) -> None:
    row = {"ID": "2024-I-1", "Problem": PROBLEM, "Solution": "", "Answer": "042"}
    with (tmp_path / "a.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, row)
        writer.writeheader()
        writer.writerow(row)
    (request,) = drafts("aime", tmp_path / "a.csv")
    assert expected(request) == {"answer": 42}
    if importlib.util.find_spec("pyarrow") is None:
        pytest.skip("parquet files are read with pyarrow, which is not installed")
    arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist([{**row, "Answer": 42}]), tmp_path / "a.parquet")
    assert drafts("aime", tmp_path / "a.parquet") == [request]


@pytest.mark.parametrize("answer", [None, "", "x", 1000, -1, 4.5, True, "4 2", [4], "٤"])
def test_a_row_that_has_no_answer_is_reported_and_the_rest_goes_on(tmp_path: Path, answer: Any) -> None:
    good = {"problem": PROBLEM, "answer": 1, "year": 2024, "id": 1}
    path = written(tmp_path / "a.jsonl", good, {**good, "id": 2, "answer": answer}, {**good, "id": 3})
    names, broken = read_all("aime", path)
    assert names == ["aime/2024-1", "aime/2024-3"]
    assert [each.name for each in broken] == ["a.jsonl row 2"]
    assert "from 0 to 999" in broken[0].reason


def test_incomplete_and_duplicate_rows_are_reported(tmp_path: Path) -> None:
    good = {"problem": PROBLEM, "answer": 1, "year": 2024, "id": 1}
    path = written(tmp_path / "a.jsonl", good, good, {"answer": 1})
    path.write_text(path.read_text() + '{"problem": "What')
    names, broken = read_all("aime", path)
    assert names == ["aime/2024-1"]
    told = [each.reason for each in broken]
    assert "another problem" in told[0]
    assert "`problem`" in told[1]
    assert "half-downloaded" in told[2]
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "nowhere"):
        with pytest.raises(UsageError, match=str(place)):
            read_all("aime", place)


def test_our_sample_matches_its_description() -> None:
    assert [request.name for request in drafts("aime", OWN / "aime")] == ["aime/2031-0", "aime/2031-1"]
    benchmark = catalog.load("aime")
    assert isinstance(benchmark.source, HubDatasets)
    assert len(benchmark.source.parts) == 3
    assert benchmark.about.size == 90
    assert catalog.canonical_name("AIME") == "aime"


def test_the_real_sample_is_whole() -> None:
    requests = drafts("aime", sample("aime"))
    assert len(requests) == 30
    assert {(request.metadata or {})["year"] for request in requests} == {"2024"}
