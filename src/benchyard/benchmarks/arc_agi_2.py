"""ARC-AGI-2: puzzles of coloured grids, to be understood from a few examples."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchyard.benchmarks import question_sets
from benchyard.benchmarks.base import BenchmarkFacts, BrokenItem, ImportOptions, PublicBenchmark
from benchyard.benchmarks.files.bounded_folder import BoundedFolder
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.benchmarks.question_sets import Question
from benchyard.benchmarks.sources.base import GitTree
from benchyard.errors import UsageError

_SPLITS = ("evaluation", "training")
_ANSWER = "submission.json"
_MOST_BYTES = 4 * 1024**2
_LARGEST_SIDE = 30
_COLOURS = 10
_PROMPT = """\
Below are pairs of an input and an output grid. Each output is made from its input by one rule, the same for
all pairs. Find the rule, and apply it to the test inputs.

A grid is a list of rows, from the top; a row is a list of integers from 0 to 9, which are colours. Grids have
1 to 30 rows and columns. An output may have another size than its input.

Training pairs:

{train}

Test inputs, of which there {count}:

{test}

You have two attempts at each test input. Write them to the file `{path}` as JSON of this form, with one
object for each test input, in their order:

{{"{task}": [{{"attempt_1": [[0, 0], [0, 0]], "attempt_2": [[0, 0], [0, 0]]}}{more}]}}

An attempt is right if its grid is exactly the output: its size, and every cell. A test input is solved if one
of its two attempts is right. An attempt that you do not make is an empty list.
"""


class ArcAgi2Benchmark(PublicBenchmark):
    """The public evaluation tasks, or the public training tasks."""

    about = BenchmarkFacts(
        title="ARC-AGI-2",
        summary="120 public evaluation tasks: find the rule behind a few pairs of grids, and apply it",
        size=120,
        licence="Apache-2.0",
        citation=(
            "Chollet et al., ARC-AGI-2: A New Challenge for Frontier AI Reasoning Systems, arXiv:2505.11831"
        ),
        home="https://github.com/arcprize/ARC-AGI-2",
        aliases=("ARC-AGI 2", "arcprize/ARC-AGI-2"),
        variants=_SPLITS,
        variants_are_parts=True,
    )
    source = GitTree(
        "https://github.com/arcprize/ARC-AGI-2", "f3283f727488ad98fe575ea6a5ac981e4a188e49", ("data",)
    )

    def scenarios(self, data: Path, options: ImportOptions) -> Iterator[ScenarioDraft | BrokenItem]:
        split = options.variant or _SPLITS[0]
        folder = BoundedFolder(_folder(data, split))
        for path in sorted(folder.path.glob("*.json")):
            try:
                yield question_sets.draft(_question(path.stem, split, _task(folder, path)), options)
            except UsageError as error:
                yield BrokenItem(path.stem, error.message)


def _folder(data: Path, split: str) -> Path:
    """Return the folder with a split's tasks: in a copy of the repository, or of its `data`, or itself."""
    for folder in (data / "data" / split, data / split, data):
        if any(folder.glob("*.json")):
            return folder
    raise UsageError(
        f"{data}: there are no tasks in it; give a copy of the repository, with data/{split}/*.json"
    )


def _task(folder: BoundedFolder, path: Path) -> dict[str, Any]:
    try:
        task = json.loads(folder.text(path.name, _MOST_BYTES))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: this is not valid JSON: {str(error)[:200]}; fetch it again") from error
    for part in ("train", "test"):
        pairs = task.get(part) if isinstance(task, dict) else None
        if not isinstance(pairs, list) or not pairs or not all(_is_pair(pair) for pair in pairs):
            raise UsageError(
                f"{path}: `{part}` must be a list of pairs, each with the grids `input` and `output`: "
                "rows of one length, of integers from 0 to 9, at most 30 by 30"
            )
    found: dict[str, Any] = task
    return found


def _is_pair(pair: object) -> bool:
    return isinstance(pair, dict) and _is_grid(pair.get("input")) and _is_grid(pair.get("output"))


def _is_grid(value: object) -> bool:
    if not isinstance(value, list) or not 1 <= len(value) <= _LARGEST_SIDE:
        return False
    if not all(isinstance(row, list) and 1 <= len(row) <= _LARGEST_SIDE for row in value):
        return False
    cells = [cell for row in value for cell in row]
    return len({len(row) for row in value}) == 1 and all(
        type(cell) is int and 0 <= cell < _COLOURS for cell in cells
    )


def _question(task_id: str, split: str, task: dict[str, Any]) -> Question:
    outputs = [pair["output"] for pair in task["test"]]
    count = len(outputs)
    prompt = _PROMPT.format(
        train="\n".join(
            json.dumps({"input": pair["input"], "output": pair["output"]}) for pair in task["train"]
        ),
        test="\n".join(json.dumps({"input": pair["input"]}) for pair in task["test"]),
        count="is one" if count == 1 else f"are {count}",
        more=", ..." if count > 1 else "",
        path=f"{question_sets.PLACE}/{_ANSWER}",
        task=task_id,
    )
    right = {task_id: [{"attempt_1": output, "attempt_2": []} for output in outputs]}
    return Question(
        name=f"arc-agi-2/{task_id}",
        prompt=prompt,
        answer_path=_ANSWER,
        scorer="arc_scorer",
        expected={"task_id": task_id, "outputs": outputs},
        reference=json.dumps(right) + "\n",
        metadata={"category": "abstract reasoning", "split": split, "test_inputs": count},
    )
