"""ReplicationBench: results of astrophysics papers, to be computed anew from the papers' data."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchyard.benchmarks import question_sets
from benchyard.benchmarks.base import About, Benchmark, Broken, Options
from benchyard.benchmarks.question_sets import Question
from benchyard.benchmarks.replication_papers import Paper, Task, read
from benchyard.benchmarks.replication_prompts import prompt
from benchyard.benchmarks.scenario_folder import Draft
from benchyard.benchmarks.sources import local
from benchyard.benchmarks.sources.base import HubDataset, SourceFile

_ANSWER = "submission.json"
_PAPERS, _TASKS, _ALL = "papers", "tasks", "all"
_SECONDS = 6 * 3600.0
"""What an agent had in the runs of its authors."""
_MOST_PROMPT = 1024**2


class ReplicationbenchBenchmark(Benchmark):
    """A scenario for each paper with all its tasks, as officially; or one for each task."""

    about = About(
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

    def scenarios(self, data: Path, options: Options) -> Iterator[Draft | Broken]:
        files = local.files(self.source, data)
        found = read(files["papers.jsonl"], files["tasks.jsonl"])
        yield from found.broken
        variant = options.variant or _PAPERS
        for paper in found.papers.values():
            if variant in (_PAPERS, _ALL) and paper.lost:
                yield Broken(
                    paper.id,
                    f"a scored task of it cannot be read ({paper.lost}), and without it the score would be "
                    "another one; mend that row, or import `--variant tasks`",
                )
            elif not paper.tasks:
                yield Broken(paper.id, "it has no numeric task, and no other kind is graded")
                continue
            if variant in (_PAPERS, _ALL) and not paper.lost:
                yield _made(paper, paper.tasks, paper.id, options)
            if variant in (_TASKS, _ALL):
                for task in paper.tasks:
                    yield _made(paper, (task,), f"{paper.id}__{task.id}", options)


def _made(paper: Paper, tasks: Sequence[Task], item: str, options: Options) -> Draft | Broken:
    text = prompt(paper, tasks, f"{question_sets.PLACE}/{_ANSWER}")
    if len(text) > _MOST_PROMPT:
        return Broken(item, f"its prompt has {len(text)} letters, and more than {_MOST_PROMPT} are too many")
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
