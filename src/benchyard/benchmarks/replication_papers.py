"""Papers and tasks of ReplicationBench, as its files have them: values as they are, or as JSON text."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchyard.benchmarks import question_sets
from benchyard.benchmarks.base import Broken
from benchyard.benchmarks.sources.records import Row, as_list
from benchyard.errors import UsageError

_SCORED = "numeric"
_LARGE_MB = 2000.0


@dataclass(frozen=True)
class Task:
    """One task: what is to be computed, what comes out, and how far off it may be."""

    id: str
    paper_id: str
    description: str
    instructions: tuple[str, ...]
    expected: Any
    tolerance: Any
    difficulty: float | None
    parents: tuple[str, ...]


@dataclass(frozen=True)
class Paper:
    """One paper with its scored tasks, in their order."""

    id: str
    row: Row
    tasks: tuple[Task, ...] = ()
    unscored: int = 0
    """Tasks of other kinds, which nobody grades."""
    lost: str = ""
    """Why a scored task of it is missing: its score would be one of fewer tasks than everybody's."""

    @property
    def data(self) -> list[Row]:
        """The data sets that it needs."""
        found: list[Row] = self.row.get("dataset") or []
        return found

    @property
    def kinds(self) -> list[str]:
        """How its data is had: wget, api, huggingface, local; none where it needs none."""
        return sorted({str(each.get("kind") or "none") for each in self.data}) or ["none"]

    @property
    def megabytes(self) -> float | None:
        """How large its data is; None where that is not said of all of it."""
        sizes = [size for each in self.data for size in _several(each.get("size"))]
        if not sizes or not all(isinstance(size, int | float) for size in sizes):
            return None
        return float(sum(sizes))

    @property
    def requirements(self) -> Row:
        """What it is run with."""
        found = self.row.get("execution_requirements")
        return found if isinstance(found, dict) else {}

    @property
    def needs(self) -> list[str]:
        """What a devbox must have or reach to work on it, in words."""
        found = []
        if self.kinds != ["none"]:
            size = f", {self.megabytes:g} MB" if self.megabytes is not None else ""
            large = " (large)" if (self.megabytes or 0) > _LARGE_MB else ""
            found.append(f"data from outside: {', '.join(self.kinds)}{size}{large}")
        if self.requirements.get("needs_gpu"):
            found.append("a GPU")
        if self.requirements.get("needs_browsing"):
            found.append("browsing")
        return found


@dataclass
class Found:
    """What was read: papers by id, and what is wrong with the others."""

    papers: dict[str, Paper] = field(default_factory=dict)
    broken: list[Broken] = field(default_factory=list)


def read(papers: Path, tasks: Path) -> Found:
    """The papers of two files, with the tasks that are scored."""
    found = Found()
    for each in question_sets.items(papers):
        if isinstance(each, Broken):
            found.broken.append(each)
            continue
        number, row = each
        try:
            id = question_sets.text(row, "paper_id")
            found.papers[id] = Paper(id, {**row, "dataset": _data_sets(_parsed(row.get("dataset")))})
        except UsageError as error:
            found.broken.append(_broken(papers, number, error))
    _add_tasks(found, tasks)
    return found


def _add_tasks(found: Found, path: Path) -> None:
    for each in question_sets.items(path):
        if isinstance(each, Broken):
            # The file breaks off here, and any paper may have had more tasks.
            found.broken.append(each)
            found.papers = {
                id: replace(paper, lost=paper.lost or each.name) for id, paper in found.papers.items()
            }
            return
        number, row = each
        paper = found.papers.get(str(row.get("paper_id") or "").strip())
        try:
            if paper is None:
                id = question_sets.text(row, "paper_id")
                raise UsageError(f"its paper {id!r} is not among the papers")
            if (row.get("kind") or _SCORED) != _SCORED:
                found.papers[paper.id] = replace(paper, unscored=paper.unscored + 1)
                continue
            task = _task(question_sets.text(row, "task_id"), paper.id, row)
            if any(task.id == other.id for other in paper.tasks):
                raise UsageError(f"its paper has another task {task.id!r}")
            found.papers[paper.id] = replace(paper, tasks=(*paper.tasks, task))
        except UsageError as error:
            broken = _broken(path, number, error)
            found.broken.append(broken)
            if paper is not None:
                found.papers[paper.id] = replace(paper, lost=paper.lost or broken.name)


def _task(id: str, paper_id: str, row: Row) -> Task:
    if "expected_output" not in row:
        raise UsageError("it has no `expected_output`")
    instructions = row.get("instructions")
    difficulty = row.get("difficulty")
    return Task(
        id=id,
        paper_id=paper_id,
        description=_description(row.get("description")),
        instructions=(instructions,) if isinstance(instructions, str) else _texts(instructions),
        expected=_parsed(row["expected_output"]),
        tolerance=_parsed(row.get("tolerance")),
        difficulty=float(difficulty) if isinstance(difficulty, int | float) else None,
        parents=_texts(row.get("parents")),
    )


def _description(value: Any) -> str:
    """The short text of a task, which some leave empty: the instructions say it all."""
    if value is not None and not isinstance(value, str):
        raise UsageError("its `description` is no text")
    return (value or "").strip()


def _data_sets(value: Any) -> list[Row]:
    """The data sets of a paper, which names one as it is, and several as a list or by their names."""
    if isinstance(value, dict):
        is_named = "kind" not in value and all(isinstance(each, dict) for each in value.values())
        value = list(value.values()) if is_named else [value]
    found = as_list(value or [], "`dataset`")
    if not all(isinstance(each, dict) for each in found):
        raise UsageError("its `dataset` must be an object, or a list of them")
    return found


def _parsed(value: Any) -> Any:
    """A value that may be written as JSON text, as the hub has it."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{value[:60]!r} is no JSON") from error


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(each) for each in as_list(value or [], "instructions and parents"))


def _several(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _broken(path: Path, number: int, error: UsageError) -> Broken:
    return Broken(f"{path.name} row {number}", f"{path}: row {number}: {error.message}")
