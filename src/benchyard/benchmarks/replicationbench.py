"""ReplicationBench: results of astrophysics papers, to be computed again from the papers' data."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchyard.benchmarks import question_sets
from benchyard.benchmarks.base import BenchmarkFacts, BrokenItem, ImportOptions, PublicBenchmark
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.benchmarks.question_sets import Question
from benchyard.benchmarks.sources import local_copies
from benchyard.benchmarks.sources.base import HubDataset, SourceFile
from benchyard.benchmarks.sources.records import Row, as_list
from benchyard.errors import UsageError

_SCORED = "numeric"
_LARGE_MB = 2000.0


@dataclass(frozen=True)
class PaperTask:
    """A task: its instructions, the expected result, and the tolerance."""

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
    """A paper with its scored tasks, in their order."""

    id: str
    row: Row
    tasks: tuple[PaperTask, ...] = ()
    unscored: int = 0
    """Number of tasks of other kinds, which are not graded."""
    lost: str = ""
    """Reason why a scored task is missing; empty if none is. Such a paper's score would not be comparable."""

    @property
    def data(self) -> list[Row]:
        """Data sets that the paper's tasks need."""
        found: list[Row] = self.row.get("dataset") or []
        return found

    @property
    def kinds(self) -> list[str]:
        """Ways to get its data: wget, api, huggingface, local; `none` if it needs none."""
        return sorted({str(dataset.get("kind") or "none") for dataset in self.data}) or ["none"]

    @property
    def megabytes(self) -> float | None:
        """Size of its data; None if the size of some part is unknown."""
        sizes = [size for dataset in self.data for size in _several(dataset.get("size"))]
        if not sizes or not all(isinstance(size, int | float) for size in sizes):
            return None
        return float(sum(sizes))

    @property
    def requirements(self) -> Row:
        """Requirements for running it."""
        found = self.row.get("execution_requirements")
        return found if isinstance(found, dict) else {}

    @property
    def needs(self) -> list[str]:
        """Things a devbox must have or reach for its tasks, in words."""
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
class ScoredPapers:
    """Papers by id, and the faults of papers that could not be read."""

    papers: dict[str, Paper] = field(default_factory=dict)
    broken: list[BrokenItem] = field(default_factory=list)


def read_papers(papers: Path, tasks: Path) -> ScoredPapers:
    """Read the papers of two files, with the tasks that are scored."""
    found = ScoredPapers()
    for item in question_sets.items(papers):
        if isinstance(item, BrokenItem):
            found.broken.append(item)
            continue
        number, row = item
        try:
            id = question_sets.text(row, "paper_id")
            found.papers[id] = Paper(id, {**row, "dataset": _data_sets(_parsed(row.get("dataset")))})
        except UsageError as error:
            found.broken.append(_broken(papers, number, error))
    _add_tasks(found, tasks)
    return found


def _add_tasks(papers: ScoredPapers, path: Path) -> None:
    for item in question_sets.items(path):
        if isinstance(item, BrokenItem):
            # The file cannot be read further: any paper may have had more tasks.
            papers.broken.append(item)
            papers.papers = {
                id: replace(paper, lost=paper.lost or item.name) for id, paper in papers.papers.items()
            }
            return
        number, row = item
        paper = papers.papers.get(str(row.get("paper_id") or "").strip())
        try:
            if paper is None:
                id = question_sets.text(row, "paper_id")
                raise UsageError(f"its paper {id!r} is not among the papers")
            if (row.get("kind") or _SCORED) != _SCORED:
                papers.papers[paper.id] = replace(paper, unscored=paper.unscored + 1)
                continue
            task = _read_task(question_sets.text(row, "task_id"), paper.id, row)
            if any(task.id == other.id for other in paper.tasks):
                raise UsageError(f"its paper has another task {task.id!r}")
            papers.papers[paper.id] = replace(paper, tasks=(*paper.tasks, task))
        except UsageError as error:
            broken = _broken(path, number, error)
            papers.broken.append(broken)
            if paper is not None:
                papers.papers[paper.id] = replace(paper, lost=paper.lost or broken.name)


def _read_task(id: str, paper_id: str, row: Row) -> PaperTask:
    if "expected_output" not in row:
        raise UsageError("it has no `expected_output`")
    instructions = row.get("instructions")
    difficulty = row.get("difficulty")
    return PaperTask(
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
    """Return the short text of a task; it may be empty, since the instructions are complete."""
    if value is not None and not isinstance(value, str):
        raise UsageError("its `description` is not a text")
    return (value or "").strip()


def _data_sets(value: Any) -> list[Row]:
    """Return the data sets of a paper, which are given as one object, as a list, or by their names."""
    if isinstance(value, dict):
        is_named = "kind" not in value and all(isinstance(inner, dict) for inner in value.values())
        value = list(value.values()) if is_named else [value]
    datasets = as_list(value or [], "`dataset`")
    if not all(isinstance(dataset, dict) for dataset in datasets):
        raise UsageError("its `dataset` must be an object, or a list of them")
    return datasets


def _parsed(value: Any) -> Any:
    """Return a value, parsed if it is JSON text, as on the hub."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{value[:60]!r} is not valid JSON") from error


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(text) for text in as_list(value or [], "instructions and parents"))


def _several(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _broken(path: Path, number: int, error: UsageError) -> BrokenItem:
    return BrokenItem(f"{path.name} row {number}", f"{path}: row {number}: {error.message}")


# From Christine8888/replicationbench-release, MIT licence (src/evaluation/core/prompts.py: START_PROMPT, and
# the restrictions of SYSTEM_PROMPT that do not speak of the tools of its harness).
_START = """\
TASK INSTRUCTIONS:
------------------
You will work diligently and persistently to reproduce an astrophysics research paper, by writing code, \
analyzing data, and applying your scientific understanding. Again, NEVER attempt to guess any answers or \
find answers directly in the manuscript. We are interested in verifying the reproducibility of the \
paper's results, so all results must be computed by the code you write.

You will be provided with a paper manuscript, a set of tasks you must complete, and information on \
dataset access and code execution. You should assume that you have access to all of the data and \
packages you need, and that you may install additional packages as needed.

CRITICAL RESTRICTIONS:
1. You MUST NOT hardcode numerical values from the paper's results as your answers.
2. You MUST actually compute the results from scratch using proper data analysis techniques. Any \
provided data is fair game for use in your computation.
3. DO NOT EVER fall back on values quoted from the paper as your answers (That is cheating!).
4. If you encounter dependency or installation issues, you must troubleshoot them rather than bypass the \
computation by looking up the answer.
5. If you absolutely cannot install a required package after multiple attempts, clearly state this \
limitation and implement an alternative approach that still performs real computation.
6. Under NO CIRCUMSTANCES should you guess any answers. If you cannot compute the answer, return None \
for that result.
7. You may use open-source libraries, but DO NOT download the paper's original source code.
"""
_RULE = "-" * 30
_END = """\
FINAL INSTRUCTIONS:
{rule}
Write your results to the file `{path}`: one JSON object, whose keys are the TASK_IDs. Write it early, and
again after each task: what is in it at the end is graded. A result that you cannot compute is null. Give
numbers in full, and do not round them.

The form of the file, with 0 in the place of every number:

{blank}
"""


def papers_prompt(paper: Paper, tasks: Sequence[PaperTask], path: str) -> str:
    """Return the prompt for some tasks of a paper; `path` is the place for the answer.

    As in the official prompt, the abstract and the link are left out: unlike the text they are not masked.
    """
    ids = {task.id for task in tasks}
    earlier = {name for task in tasks for name in task.parents} - ids
    parts = [_START, _about(paper), _running(paper), *map(_data, paper.data)]
    if more := paper.row.get("other_instructions"):
        parts.append(f"ADDITIONAL AUTHOR INSTRUCTIONS: {more}\n")
    for number, task in enumerate((each for each in paper.tasks if each.id in earlier), start=1):
        parts.append(
            f"EARLIER TASK {number}, which the ones below build on, and which is not graded:\n{_task(task)}"
        )
    parts += [f"TASK {number}:\n{_task(task)}" for number, task in enumerate(tasks, start=1)]
    blank = json.dumps({task.id: _blank(task.expected) for task in tasks})
    parts.append(_END.format(rule=_RULE, path=path, blank=blank))
    return "\n".join(part for part in parts if part)


def _about(paper: Paper) -> str:
    row = paper.row
    lines = ["PAPER INFORMATION:", _RULE, f"TITLE: {row.get('title') or paper.id}"]
    if row.get("publication_date"):
        lines.append(f"PUBLICATION DATE: {row['publication_date']}")
    if row.get("full_text"):
        lines.append(f"\nFULL PAPER TEXT:\n{row['full_text']}")
    browsing = row.get("browsing_instructions")
    if isinstance(browsing, dict) and browsing.get("browsing_text"):
        lines.append(
            f"\nMORE TEXT: {browsing.get('browsing_instructions') or ''}\n{browsing['browsing_text']}"
        )
    return "\n".join(lines) + "\n"


def _running(paper: Paper) -> str:
    requirements = paper.requirements
    language = _joined_values(requirements.get("code_language"))
    packages = _joined_values(requirements.get("dependencies"))
    if not language and not packages:
        return ""
    lines = ["CODE EXECUTION INSTRUCTIONS:", _RULE]
    if requirements.get("needs_gpu"):
        lines.append("The paper's authors used a GPU.")
    lines += [f"Programming language: {language}."] if language else []
    lines += [f"Python packages that the work needs: {packages}."] if packages else []
    return "\n".join(lines) + "\n"


def _data(dataset: dict[str, Any]) -> str:
    lines = [f"DATASET {str(dataset.get('dataset_name') or '').upper()} INSTRUCTIONS:", _RULE]
    lines.append(f"KIND: {dataset.get('kind')}")
    instructions = dataset.get("data_instructions")
    lines += (
        [f"{key}: {value}" for key, value in instructions.items()] if isinstance(instructions, dict) else []
    )
    for name, title in _PLACES.items():
        if dataset.get(name):
            lines.append(f"{title}: {_joined_values(dataset[name])}")
    return "\n".join(lines) + "\n"


_PLACES = {
    "url": "URLs",
    "size": "Sizes (MB)",
    "api_url": "API URL",
    "hf_name": "HuggingFace Dataset Names",
    "hf_split": "HuggingFace Dataset Splits",
    "hf_link": "HuggingFace Dataset Links",
}


def _task(task: PaperTask) -> str:
    steps = "\n".join(f"  {number}. {step}" for number, step in enumerate(task.instructions, start=1))
    return (
        f"TASK_ID: {task.id}\n"
        f"SHORT DESCRIPTION: {task.description}\n"
        f"DETAILED INSTRUCTIONS:\n{steps}\n"
        f"EXPECTED OUTPUT FORMAT: {_shape(task.expected)}\n"
    )


def _shape(value: Any) -> str:
    if isinstance(value, list):
        return f"A list with {len(value)} elements"
    if isinstance(value, dict):
        return f"A dictionary with the keys: {', '.join(value)}"
    if isinstance(value, float):
        return "A floating point number"
    return "Match the format specified in the instructions"


def _blank(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _blank(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_blank(item) for item in value]
    return 0


def _joined_values(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value or "")


_ANSWER = "submission.json"
_PAPERS, _TASKS, _ALL = "papers", "tasks", "all"
_SECONDS = 6 * 3600.0
"""Time that agents had in the authors' own runs."""
_MOST_PROMPT = 1024**2


class ReplicationbenchBenchmark(PublicBenchmark):
    """A scenario for each paper with all its tasks, as officially; or one for each task."""

    about = BenchmarkFacts(
        title="ReplicationBench",
        summary="111 numeric results of 20 astrophysics papers, to be computed anew from their data",
        size=20,
        licence="MIT",
        citation=(
            "Ye et al., ReplicationBench: Can AI Agents Replicate Astrophysics Research Papers?, "
            "arXiv:2510.24591"
        ),
        home="https://github.com/Christine8888/replicationbench-release",
        aliases=("ChristineYe8/replicationbench", "Christine8888/replicationbench-release"),
        needs=("data sets of the papers, which devboxes must be able to reach", "for some papers a GPU"),
        variants=(_PAPERS, _TASKS, _ALL),
        variants_are_parts=True,
    )
    source = HubDataset(
        "ChristineYe8/replicationbench", "main", (SourceFile("papers.jsonl"), SourceFile("tasks.jsonl"))
    )

    def scenarios(self, data: Path, options: ImportOptions) -> Iterator[ScenarioDraft | BrokenItem]:
        files = local_copies.files_in_copy(self.source, data)
        papers = read_papers(files["papers.jsonl"], files["tasks.jsonl"])
        yield from papers.broken
        variant = options.variant or _PAPERS
        for paper in papers.papers.values():
            if variant in (_PAPERS, _ALL) and paper.lost:
                yield BrokenItem(
                    paper.id,
                    f"a scored task of it cannot be read ({paper.lost}), and without it the score would be "
                    "another one; mend that row, or import `--variant tasks`",
                )
            elif not paper.tasks:
                yield BrokenItem(paper.id, "it has no numeric task, and no other kind is graded")
                continue
            if variant in (_PAPERS, _ALL) and not paper.lost:
                yield _draft(paper, paper.tasks, paper.id, options)
            if variant in (_TASKS, _ALL):
                for task in paper.tasks:
                    yield _draft(paper, (task,), f"{paper.id}__{task.id}", options)


def _draft(
    paper: Paper, tasks: Sequence[PaperTask], item: str, options: ImportOptions
) -> ScenarioDraft | BrokenItem:
    text = papers_prompt(paper, tasks, f"{question_sets.PLACE}/{_ANSWER}")
    if len(text) > _MOST_PROMPT:
        return BrokenItem(
            item, f"its prompt has {len(text)} letters, and more than {_MOST_PROMPT} are too many"
        )
    values = {task.id: task.expected for task in tasks}
    tolerances = {task.id: task.tolerance for task in tasks if task.tolerance is not None}
    difficulties = [task.difficulty for task in tasks if task.difficulty is not None]
    question = Question(
        name=f"replicationbench/{item}",
        prompt=text,
        answer_path=_ANSWER,
        scorer="replication_scorer",
        expected={"values": values, "tolerances": tolerances},
        reference=json.dumps(values) + "\n",
        metadata={
            "category": "astrophysics",
            "kind": "paper" if item == paper.id else "task",
            "paper": paper.id,
            "tasks": len(tasks),
            "unscored_tasks": paper.unscored or None,
            "difficulty": f"{sum(difficulties) / len(difficulties):.3g}" if difficulties else None,
            "year": str(paper.row.get("publication_date") or "")[:4],
            "source": paper.row.get("source"),
            "data": ", ".join(paper.kinds),
            "data_mb": f"{paper.megabytes:g}" if paper.megabytes is not None else None,
            "needs": "; ".join(paper.needs) or "nothing from outside",
            "text": "masked" if paper.row.get("full_text") else "not in the data",
        },
        seconds=_SECONDS,
    )
    return question_sets.draft(question, options)
