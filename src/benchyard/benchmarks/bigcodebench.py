"""BigCodeBench: 1,140 functions to write in Python with calls of many libraries, graded by unit tests."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchyard.benchmarks import question_sets
from benchyard.benchmarks.base import (
    ITEM_KEY,
    PUBLIC_KEY,
    BenchmarkFacts,
    BrokenItem,
    ImportOptions,
    PublicBenchmark,
)
from benchyard.benchmarks.files.bounded_folder import BoundedFolder
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.benchmarks.question_sets import PLACE
from benchyard.benchmarks.sources.base import HubDataset, SourceFile
from benchyard.benchmarks.sources.records import Row, as_list
from benchyard.errors import UsageError
from benchyard.models.scenarios import InputContext, ScenarioEnvironment, ScenarioRequest, ScoringContract

VERSION = "v0.1.4"
"""Version of the data: the default of the official harness."""
LICENCE = "Apache-2.0"
CITATION = "Zhuo et al., BigCodeBench: Benchmarking Code Generation with Diverse Function Calls, ICLR 2025"
NEEDS = (
    "a Python 3.10 on the server, else results are marked `unofficial environment`",
    "a package index for the 73 pinned packages (about 5 GB), or the variant `small`",
)
SMALL = "small"
ANSWER = "solution.py"
ENVIRONMENT_KEY = "environment"
_INSTRUCTION = (
    "Please provide a self-contained Python script that solves the following problem "
    "in a markdown code block:"
)
"""Quoted from `bigcodebench/generate.py` of bigcode-project/bigcodebench (Apache-2.0)."""
_WHERE = f"\nWrite the script to the file `{PLACE}/{ANSWER}`; what is in that file is your answer.\n"
_TASK = re.compile(r"(?:BigCodeBench/)?(\d{1,6})")
_NETWORK = frozenset({"101", "176", "314", "590", "1005", "1012"})
"""Items with reference solutions that fail without a network: they fetch pages, or look up names."""
_UNSTEADY = {"1040": "its server of sockets may not be up when the test asks for it"}
_CORPORA = re.compile(r"nltk\.(?:download|corpus)|stopwords|word_tokenize|pos_tag|sent_tokenize")
_IMPLIED = {
    "openpyxl": re.compile(r"excel|xlsx", re.IGNORECASE),
    "lxml": re.compile(r"read_html|[\"']lxml[\"']"),
    "matplotlib": re.compile(r"\.plot\(|\.hist\("),
}
"""Module -> pattern of code for which pandas or BeautifulSoup load that module by themselves."""
_FIELDS = ("task_id", "complete_prompt", "instruct_prompt", "canonical_solution", "code_prompt", "test")


def scenarios_of_set(
    benchmark: str, data: Path, options: ImportOptions, prompt: str
) -> Iterator[ScenarioDraft | BrokenItem]:
    """Yield the scenarios of one of the sets; `prompt` is `complete` or `instruct`."""
    for path in _files(data, is_hard="hard" in benchmark):
        for item in question_sets.items(path):
            if isinstance(item, BrokenItem):
                yield item
                continue
            number, row = item
            try:
                yield _draft(benchmark, row, options, prompt)
            except UsageError as error:
                name = str(row.get("task_id") or f"{path.name} row {number}")[:100]
                yield BrokenItem(name, f"{path}: row {number}: {error.message}")


def _files(data: Path, *, is_hard: bool) -> list[Path]:
    """Return the files of the right set and version, from a folder that may have several."""
    files = question_sets.data_files(data)
    of_set = [path for path in files if ("hard" in str(path.relative_to(data.parent)).lower()) == is_hard]
    of_version = [path for path in of_set if VERSION in path.name]
    return of_version or of_set or files


def _draft(benchmark: str, row: Row, options: ImportOptions, prompt: str) -> ScenarioDraft:
    fields = {name: _text(row, name) for name in _FIELDS}
    known = _TASK.fullmatch(fields["task_id"])
    if known is None:
        raise UsageError(f"`task_id` is {fields['task_id'][:60]!r}, and should be like `BigCodeBench/13`")
    is_small = (options.variant or "").endswith(SMALL)
    scorer: dict[str, Any] = {
        "type": "bigcodebench_scorer",
        "code_prompt": fields["code_prompt"],
        "test": fields["test"],
        "entry_point": str(row.get("entry_point") or "task_func"),
        "answer": ANSWER,
    }
    solution = f"{fields['complete_prompt']}\n{fields['canonical_solution']}"
    if is_small:
        scorer["modules"] = imported_modules(solution, fields["test"])
    request = ScenarioRequest(
        name=f"{benchmark}/{known[1]}",
        input_context=InputContext(problem_statement=_prompt(fields, prompt)),
        scoring_contract=ScoringContract.model_validate(
            {"scoring_function_parameters": [{"name": "tests", "weight": 1.0, "scorer": scorer}]}
        ),
        environment_parameters=ScenarioEnvironment(working_directory=PLACE),
        metadata={
            PUBLIC_KEY: benchmark,
            ITEM_KEY: known[1],
            "task_id": fields["task_id"],
            **_labels(benchmark, known[1], row, solution),
            "prompt": prompt,
            ENVIRONMENT_KEY: f"unofficial environment ({SMALL})" if is_small else "official packages",
        },
        reference_output=solution,
        validation_type="EVALUATION",
        scoring_isolation="answer",
        answer_paths=[ANSWER],
    )
    return ScenarioDraft(BoundedFolder(options.work), request)


def _text(row: Row, name: str) -> str:
    """Return a text of a row unchanged: spaces at the beginning of code matter."""
    question_sets.text(row, name)
    return str(row[name])


def _prompt(given: dict[str, str], prompt: str) -> str:
    if prompt == "instruct":
        return f"{_INSTRUCTION}\n{given['instruct_prompt'].strip()}\n{_WHERE}"
    return f"{_INSTRUCTION}\n```\n{given['complete_prompt'].strip()}\n```\n{_WHERE}"


def _labels(benchmark: str, number: str, row: Row, solution: str) -> dict[str, str]:
    libraries = [str(each) for each in as_list(row.get("libs") or [], "`libs`")]
    needs = ["network"] if number in _NETWORK else []
    if "nltk" in libraries and _CORPORA.search(solution):
        needs.append("NLTK corpora")
    labels = {
        "libraries": ", ".join(libraries)[:1000],
        "difficulty": "hard" if "hard" in benchmark else "",
        "needs": ", ".join(needs),
        "unsteady": _UNSTEADY.get(number, ""),
    }
    return {name: value for name, value in labels.items() if value}


def imported_modules(*texts: str) -> list[str]:
    """Return the top-level names of modules that these programs import directly or through others."""
    modules: set[str] = set()
    for text in texts:
        try:
            nodes = list(ast.walk(ast.parse(text)))
        except (SyntaxError, ValueError, RecursionError) as error:
            raise UsageError(f"its code cannot be read: {error}") from error
        for node in nodes:
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules.add(node.module.partition(".")[0])
        if modules & {"pandas", "bs4"}:
            modules |= {module for module, sign in _IMPLIED.items() if sign.search(text)}
    return sorted(modules)


COMPLETE, INSTRUCT = "complete", "instruct"


class BigcodebenchBenchmark(PublicBenchmark):
    """The whole set; prompts are beginnings of functions, or, in the variant `instruct`, plain requests."""

    about = BenchmarkFacts(
        title="BigCodeBench",
        summary="1,140 Python functions that call many libraries, graded by unit tests",
        size=1140,
        licence=LICENCE,
        citation=CITATION,
        home="https://huggingface.co/datasets/bigcode/bigcodebench",
        aliases=("bigcode/bigcodebench", "BigCodeBench (complete)", "BigCodeBench-Full"),
        needs=NEEDS,
        variants=(COMPLETE, INSTRUCT, f"{COMPLETE}-{SMALL}", f"{INSTRUCT}-{SMALL}"),
    )
    source = HubDataset(
        "bigcode/bigcodebench",
        "b74c0d0bf70d2c0bc459be537895cca163007f1a",
        (SourceFile(f"data/{VERSION}-00000-of-00001.parquet"),),
    )

    def scenarios(self, data: Path, options: ImportOptions) -> Iterator[ScenarioDraft | BrokenItem]:
        prompt = INSTRUCT if (options.variant or "").startswith(INSTRUCT) else COMPLETE
        return scenarios_of_set("bigcodebench", data, options, prompt)
