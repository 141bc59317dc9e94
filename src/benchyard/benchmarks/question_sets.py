"""Data files and scenarios of benchmarks that ask for an answer in a file.

The devbox is a light one, from the default image. The expected answer is only in the scorer, which grades on
the host; neither the prompt nor the devbox has it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchyard.benchmarks.base import ITEM_KEY, PUBLIC_KEY, BrokenItem, ImportOptions
from benchyard.benchmarks.files.bounded_folder import BoundedFolder
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.benchmarks.sources.records import Row, is_data, rows
from benchyard.errors import DatasetError, UsageError
from benchyard.models.scenarios import InputContext, ScenarioEnvironment, ScenarioRequest, ScoringContract

PLACE = "/app"
"""Directory to work in, which the answer's file belongs in."""
MOST_FILES = 5000
_DEEPEST = 4
_MOST_LABEL = 1000


@dataclass(frozen=True)
class Question:
    """A scenario: a prompt, the path for the answer, the expected values, and a right answer."""

    name: str
    """Name of the scenario, `BENCHMARK/ITEM`."""
    prompt: str
    answer_path: str
    scorer: str
    """Type of the scorer."""
    expected: Mapping[str, Any]
    reference: str
    metadata: Mapping[str, object] = field(default_factory=dict)
    """Labels; those that are None or empty are left out."""
    seconds: float | None = None
    """Time limit of the agent, if the authors give one."""


def draft(question: Question, options: ImportOptions) -> ScenarioDraft:
    """Return the scenario of a question."""
    benchmark, _, item = question.name.partition("/")
    labels = {
        name: str(value)[:_MOST_LABEL] for name, value in question.metadata.items() if value not in (None, "")
    }
    scorer = {"type": question.scorer, "path": question.answer_path, "expected": dict(question.expected)}
    request = ScenarioRequest(
        name=question.name,
        input_context=InputContext(problem_statement=question.prompt),
        scoring_contract=ScoringContract.model_validate(
            {"scoring_function_parameters": [{"name": "answer", "weight": 1.0, "scorer": scorer}]}
        ),
        environment_parameters=ScenarioEnvironment(working_directory=PLACE),
        metadata={PUBLIC_KEY: benchmark, ITEM_KEY: item, **labels},
        reference_output=question.reference,
        validation_type="EVALUATION",
        scoring_isolation="answer",
        answer_paths=[question.answer_path],
        agent_timeout_sec=question.seconds,
    )
    return ScenarioDraft(BoundedFolder(options.work), request)


def data_files(data: Path) -> list[Path]:
    """Return the files with rows in a folder, or the file itself; raises UsageError if there are none."""
    files = [data] if data.is_file() else sorted(_below(data, _DEEPEST))
    files = [path for path in files if is_data(path)]
    if not files:
        raise UsageError(
            f"{data}: there is no data in it: no .jsonl, .jsonl.gz, .json, .csv or .parquet file"
        )
    if len(files) > MOST_FILES:
        raise UsageError(
            f"{data}: it has more than {MOST_FILES} data files; give a folder with the data only"
        )
    return files


def _below(folder: Path, depth: int) -> Iterator[Path]:
    if not folder.is_dir():
        raise UsageError(f"there is no file or folder {folder}")
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_file():
            yield path
        elif path.is_dir() and depth > 1:
            yield from _below(path, depth - 1)


def items(path: Path) -> Iterator[tuple[int, Row] | BrokenItem]:
    """Yield the rows of a file with their numbers, from 1; the fault if the file cannot be read further."""
    number = 0
    try:
        for number, row in enumerate(rows(path), start=1):
            yield number, row
    except DatasetError as error:
        yield BrokenItem(f"{path.name} row {number + 1}", error.message)


def first(row: Row, *names: str) -> Any:
    """Return the first of these values of a row that is not empty; None if there is none."""
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def text(row: Row, *names: str) -> str:
    """Return the text of a row under one of these names; raises UsageError with the names it has."""
    value = first(row, *names)
    if not isinstance(value, str) or not value.strip():
        columns = " or ".join(f"`{name}`" for name in names)
        if any(name in row for name in names):
            raise UsageError(f"its {columns} has no text")
        raise UsageError(
            f"it has no text {columns}; it has: {', '.join(str(name)[:60] for name in list(row)[:20])}"
        )
    return value.strip()
