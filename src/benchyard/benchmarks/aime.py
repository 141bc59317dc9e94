"""AIME: problems of the American Invitational Mathematics Examination, with integers up to 999 as answers."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchyard.benchmarks import question_sets
from benchyard.benchmarks.base import BenchmarkFacts, BrokenItem, ImportOptions, PublicBenchmark
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.benchmarks.question_sets import Question
from benchyard.benchmarks.sources.base import HubDataset, HubDatasets, SourceFile
from benchyard.benchmarks.sources.records import Row
from benchyard.errors import UsageError

_ALL = "all"
_ANSWER = "answer.txt"
_PROMPT = """\
Solve this problem of the American Invitational Mathematics Examination. Its answer is an integer from 0
to 999.

{problem}

Write the answer to the file `{path}`: the integer, in digits, and nothing else.
"""
_LARGEST = 999
_EXAM = re.compile(
    r"(?P<year>(?:19|20)\d\d)[-_ ]?(?:AIME[-_ ]?)?(?P<exam>II|I)[-_ /]+(?:Problems/Problem_)?(?P<number>"
    r"\d{1,2})\b"
)
_SET = re.compile(r"aime[-_ ]?(?P<year>(?:19|20)?\d\d)(?!\d)", re.IGNORECASE)
_YEAR = re.compile(r"(?:19|20)\d\d")


class AimeBenchmark(PublicBenchmark):
    """Problems of three years, in the sets that are commonly used."""

    about = BenchmarkFacts(
        title="AIME",
        summary="90 problems of the AIME I and II of 2024, 2025 and 2026; answers are integers from 0 to 999",
        size=90,
        licence="problems: copyright of the MAA, for internal use; sets: MIT (2024), Apache-2.0 (2025, 2026)",
        citation="Mathematical Association of America, American Invitational Mathematics Examination",
        home="https://huggingface.co/datasets/math-ai/aime26",
        needs=("pyarrow, to read the set of 2024 from the hub: the extra `benchmarks`",),
        variants=(_ALL, "2024", "2025", "2026"),
        variants_are_parts=True,
    )
    source = HubDatasets(
        (
            HubDataset(
                "Maxwell-Jia/AIME_2024",
                "8d88b2876a82a080e2f172cc9b25d0d9d2cb4792",
                (SourceFile("aime_2024_problems.parquet"),),
            ),
            HubDataset(
                "math-ai/aime25",
                "563bb8404243c5f09de6ec262f2db674fe5bce9b",
                (
                    SourceFile(
                        "test.jsonl", "b4e273c02d3e7fe1b74b59eae768fc8230bfb0f79539890cb56f4361caac0331"
                    ),
                ),
            ),
            HubDataset(
                "math-ai/aime26",
                "79037aebdb6580008fb960d17cb21fd3099083e3",
                (
                    SourceFile(
                        "aime2026.jsonl", "52822957957a3f577d1e9706c36a66a8108a3f99b6aff424cfb72dff0094a9ee"
                    ),
                ),
            ),
        )
    )

    def scenarios(self, data: Path, options: ImportOptions) -> Iterator[ScenarioDraft | BrokenItem]:
        year = None if options.variant in (None, _ALL) else options.variant
        seen: set[str] = set()
        for path in question_sets.data_files(data):
            for found in question_sets.items(path):
                item = found if isinstance(found, BrokenItem) else _item(path, *found)
                if isinstance(item, BrokenItem):
                    yield item
                elif year in (None, item.metadata["year"]):
                    yield _twice(path, item) if item.name in seen else question_sets.draft(item, options)
                    seen.add(item.name)


def _twice(path: Path, item: Question) -> BrokenItem:
    return BrokenItem(
        item.name, f"{path}: another problem has this name too; give a folder with each year once"
    )


def _item(path: Path, number: int, row: Row) -> Question | BrokenItem:
    try:
        problem = question_sets.text(row, "problem", "Problem", "question")
        answer = _answer(question_sets.first(row, "answer", "Answer", "expected_answer"))
    except UsageError as error:
        return BrokenItem(f"{path.name} row {number}", f"{path}: row {number}: {error.message}")
    year, item, exam = _identity(path, number, row)
    return Question(
        name=f"aime/{item}",
        prompt=_PROMPT.format(problem=problem, path=f"{question_sets.PLACE}/{_ANSWER}"),
        answer_path=_ANSWER,
        scorer="aime_scorer",
        expected={"answer": answer},
        reference=f"{answer}\n",
        metadata={"category": "mathematics", "year": year, "exam": exam},
    )


def _answer(given: object) -> int:
    text = str(given).strip() if isinstance(given, int | str) and not isinstance(given, bool) else ""
    if isinstance(given, float) and given.is_integer():
        text = str(int(given))
    if not re.fullmatch(r"[0-9]{1,3}", text) or int(text) > _LARGEST:
        raise UsageError(f"`answer` must be an integer from 0 to 999, and is {str(given)[:60]!r}")
    return int(text)


def _identity(path: Path, number: int, row: Row) -> tuple[str | None, str, str | None]:
    """Return year, name and exam of a problem, from its row or the names of its file and folder."""
    given = question_sets.first(row, "id", "ID", "problem_idx")
    id = str(number if given is None else given)
    for text in (id, str(row.get("url") or "")):
        if known := _EXAM.search(text):
            return known["year"], f"{known['year']}-{known['exam']}-{known['number']}", known["exam"]
    year = _year(row.get("year")) or _year_in(id) or _year_in(path.stem) or _year_in(path.parent.name)
    plain = _SET.sub("", id).strip("-_ ") or str(number)
    return year, f"{year}-{plain}" if year else plain, None


def _year(given: Any) -> str | None:
    match = _YEAR.fullmatch(str(given))
    return match[0] if match else None


def _year_in(name: str) -> str | None:
    match = _SET.search(name)
    return match["year"].rjust(4, "x").replace("xx", "20") if match else None
