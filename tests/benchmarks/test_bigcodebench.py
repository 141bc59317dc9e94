"""The three sets of BigCodeBench: rows in every form, prompts, and real items."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from benchyard.benchmarks import catalog
from benchyard.benchmarks.base import BrokenItem, ImportOptions
from benchyard.benchmarks.bigcodebench import imported_modules
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.client import Client, Server
from benchyard.models.scenarios import ScenarioRequest
from benchyard.scorers import catalog as scorers
from benchyard.scorers.base import ScoringContext
from benchyard.testing.server import RunningServer
from tests import parity
from tests.benchmarks.executing import both, brought, executed
from tests.benchmarks.samples.finding import sample

SIGNATURE = "import os\nimport pandas as pd\ndef task_func(numbers):"
TEST = """import unittest
class TestCases(unittest.TestCase):
    def test_it(self):
        self.assertEqual(task_func([1, 2]), 3)
"""
ROW = {
    "task_id": "BigCodeBench/7",
    "complete_prompt": f'{SIGNATURE}\n    """Sum the numbers."""\n',
    "instruct_prompt": f"Sum the numbers.\nYou should write code starting with:\n```\n{SIGNATURE}\n```",
    "canonical_solution": "    return sum(numbers)",
    "code_prompt": SIGNATURE,
    "test": TEST,
    "entry_point": "task_func",
    "doc_struct": "{}",
    "libs": "['os', 'pandas']",
}
WHOLE_SECONDS = 3600.0
LIGHT = {"0", "76", "266", "342", "380", "494", "570", "798", "912", "1102"}
"""Real items that need little: the standard library, or a small package."""


def written(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(name: str, data: Path, variant: str | None = None) -> list[ScenarioRequest]:
    found = list(catalog.load(name).scenarios(data, ImportOptions(Path(__file__).parent, variant)))
    assert [each for each in found if isinstance(each, BrokenItem)] == []
    return [each.request for each in found if isinstance(each, ScenarioDraft)]


def scorer(request: ScenarioRequest) -> dict[str, Any]:
    (function,) = request.scoring_contract.scoring_function_parameters
    scorers.parse(function.scorer["type"], function.scorer, ScoringContext())
    return function.scorer


@pytest.mark.parametrize("libs", ["['os', 'pandas']", '["os", "pandas"]', ["os", "pandas"]])
def test_rows_are_read_in_every_form(tmp_path: Path, libs: Any) -> None:
    (request,) = read("bigcodebench", written(tmp_path / "rows.jsonl", {**ROW, "libs": libs}))
    assert request.name == "bigcodebench/7"
    assert (request.metadata or {})["libraries"] == "os, pandas"
    assert request.reference_output == f"{ROW['complete_prompt']}\n{ROW['canonical_solution']}"
    assert (request.scoring_isolation, request.answer_paths) == ("answer", ["solution.py"])
    assert request.validation_type == "EVALUATION"


def test_the_hub_has_parquet_files(tmp_path: Path) -> None:
    if importlib.util.find_spec("pyarrow") is None:
        pytest.skip("parquet files need pyarrow, which the extra `benchmarks` brings")
    arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    path = tmp_path / "data/v0.1.4-00000-of-00001.parquet"
    path.parent.mkdir()
    more = {"q_idx": 1, "question": "?", "score": 0.7, "_id": "7"}
    parquet.write_table(arrow.Table.from_pylist([{**ROW, **more}]), path)
    (request,) = read("bigcodebench-hard-complete", tmp_path)
    assert request.name == "bigcodebench-hard-complete/7"
    assert (request.metadata or {})["difficulty"] == "hard"


def test_prompts_are_the_official_ones(tmp_path: Path) -> None:
    data = written(tmp_path / "rows.jsonl", ROW)
    (complete,) = read("bigcodebench", data)
    (instruct,) = read("bigcodebench", data, "instruct")
    (hard,) = read("bigcodebench-hard-instruct", data)
    begin = (
        "Please provide a self-contained Python script that solves the following problem "
        "in a markdown code block:\n"
    )
    said = complete.input_context.problem_statement
    assert said.startswith(f"{begin}```\nimport os\n")
    assert "`/app/solution.py`" in said
    assert "return sum" not in said
    assert instruct.input_context.problem_statement.startswith(f"{begin}Sum the numbers.\n")
    assert hard.input_context.problem_statement == instruct.input_context.problem_statement


def test_the_whole_environment_unless_small(tmp_path: Path) -> None:
    data = written(tmp_path / "rows.jsonl", ROW)
    (whole,), (small,) = read("bigcodebench", data), read("bigcodebench", data, "complete-small")
    assert "modules" not in scorer(whole)
    assert scorer(small)["modules"] == ["os", "pandas", "unittest"]
    assert (small.metadata or {})["environment"].startswith("unofficial environment")
    assert imported_modules("import pandas as pd\npd.read_excel('x.xlsx').plot()") == [
        "matplotlib",
        "openpyxl",
        "pandas",
    ]


def test_sets_that_lie_together_are_distinguished(tmp_path: Path) -> None:
    written(tmp_path / "BigCodeBench-Hard-v0.1.4.jsonl", {**ROW, "task_id": "BigCodeBench/1"})
    written(tmp_path / "BigCodeBench-v0.1.4.jsonl", {**ROW, "task_id": "BigCodeBench/2"})
    written(tmp_path / "BigCodeBench-v0.1.2.jsonl", {**ROW, "task_id": "BigCodeBench/3"})
    assert [each.name for each in read("bigcodebench", tmp_path)] == ["bigcodebench/2"]
    hard = read("bigcodebench-hard-complete", tmp_path)
    assert [each.name for each in hard] == ["bigcodebench-hard-complete/1"]


def test_broken_rows_are_named_and_the_rest_is_loaded(tmp_path: Path) -> None:
    rows = [{**ROW, "test": ""}, ROW, {**ROW, "task_id": "seven"}]
    data = written(tmp_path / "rows.jsonl", *rows)
    data.write_text(data.read_text() + '{"task_id": "BigC')
    found = list(catalog.load("bigcodebench").scenarios(data, ImportOptions(tmp_path)))
    broken = [each for each in found if isinstance(each, BrokenItem)]
    assert [each.request.name for each in found if isinstance(each, ScenarioDraft)] == ["bigcodebench/7"]
    assert [each.name for each in broken] == ["BigCodeBench/7", "seven", "rows.jsonl row 4"]
    assert "`test`" in broken[0].reason
    assert "half-downloaded" in broken[2].reason


def test_items_that_need_a_network_say_so() -> None:
    requests = read("bigcodebench-hard-complete", sample("bigcodebench"))
    needing = {request.name.rpartition("/")[2]: (request.metadata or {}).get("needs") for request in requests}
    assert len(requests) == 37
    assert (needing["590"], needing["655"], needing["13"]) == ("network", "NLTK corpora", None)


def test_real_items_are_solved_by_the_oracle_only(server: RunningServer, tmp_path: Path) -> None:
    lines = (sample("bigcodebench") / "BigCodeBench-v0.1.4-sample.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if row["task_id"].rpartition("/")[2] in LIGHT]
    data = written(tmp_path / "rows.jsonl", *rows)
    oracle, nop = executed(server, "bigcodebench", data, "complete-small")
    items = sorted(LIGHT, key=int)
    assert oracle == dict.fromkeys((f"bigcodebench-complete-small/{item}" for item in items), 1.0)
    assert nop == dict.fromkeys(oracle, 0.0)
    parity.note("bigcodebench", [f"bigcodebench/{item}" for item in items], len(lines))


@pytest.mark.skipif(not parity.IS_WHOLE, reason="installs the whole environment, some GB: `make parity`")
@pytest.mark.parametrize("name", ["bigcodebench", "bigcodebench-hard-complete", "bigcodebench-hard-instruct"])
def test_all_real_items_are_solved_by_the_oracle_only(server: RunningServer, name: str) -> None:
    requests = read(name, sample("bigcodebench"))
    needing = {request.name: (request.metadata or {}).get("needs") for request in requests}
    with Client(Server(server.url, server.key)) as client:
        oracle, nop = both(client, brought(client, name, sample("bigcodebench")), WHOLE_SECONDS, 2)
    left = {item: f"it needs {needs}" for item, needs in needing.items() if needs}
    bad = {item: why for item, why in parity.unexpected(oracle, nop).items() if item not in left}
    parity.note(name, [item for item in oracle if item not in left], len(requests), bad, left)
    assert sorted(oracle) == sorted(needing)
    assert nop == dict.fromkeys(oracle, 0.0)
    assert bad == {}
