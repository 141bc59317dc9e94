"""What whoever works on ReplicationBench is told."""

import json
from collections.abc import Sequence
from typing import Any

from benchyard.benchmarks.replication_papers import Paper, Task

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


def prompt(paper: Paper, tasks: Sequence[Task], path: str) -> str:
    """The prompt for some tasks of a paper; `path` is where the answer goes.

    The abstract and the link are left out, as officially: unlike the text they are not masked.
    """
    asked = {task.id for task in tasks}
    earlier = {name for task in tasks for name in task.parents} - asked
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
    found = paper.requirements
    language = _listed(found.get("code_language"))
    packages = _listed(found.get("dependencies"))
    if not language and not packages:
        return ""
    lines = ["CODE EXECUTION INSTRUCTIONS:", _RULE]
    if found.get("needs_gpu"):
        lines.append("The paper's authors used a GPU.")
    lines += [f"Programming language: {language}."] if language else []
    lines += [f"Python packages that the work needs: {packages}."] if packages else []
    return "\n".join(lines) + "\n"


def _data(dataset: dict[str, Any]) -> str:
    lines = [f"DATASET {str(dataset.get('dataset_name') or '').upper()} INSTRUCTIONS:", _RULE]
    lines.append(f"KIND: {dataset.get('kind')}")
    told = dataset.get("data_instructions")
    lines += [f"{key}: {value}" for key, value in told.items()] if isinstance(told, dict) else []
    for name, title in _PLACES.items():
        if dataset.get(name):
            lines.append(f"{title}: {_listed(dataset[name])}")
    return "\n".join(lines) + "\n"


_PLACES = {
    "url": "URLs",
    "size": "Sizes (MB)",
    "api_url": "API URL",
    "hf_name": "HuggingFace Dataset Names",
    "hf_split": "HuggingFace Dataset Splits",
    "hf_link": "HuggingFace Dataset Links",
}


def _task(task: Task) -> str:
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
        return [_blank(each) for each in value]
    return 0


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value or "")
