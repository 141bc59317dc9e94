"""Tests that an answer keeps from being run: their number is known from the reference."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from benchyard.client import AsyncClient, Server
from benchyard.client.benchmark_files.results import ScenarioValidation
from benchyard.client.validation import Validator
from benchyard.testing.server import RunningServer
from tests.api.devbox import good
from tests.api.jobs import Job, agent, scenarios_spec
from tests.api.scenarios import function, scenario
from tests.integrity.graders import WORK
from tests.integrity.yard import Yard

RIGHT = "def add(a, b):\n    return a + b\n"
TESTS = """
import solution
def test_small():
    assert solution.add(1, 1) == 2
def test_large():
    assert solution.add(1000, 2000) == 3000
def test_negative():
    assert solution.add(-1, -2) == -3
"""
FEWER = {
    "ended": """
import gc
import pytest
def add(a, b):
    for each in gc.get_objects():
        if isinstance(each, pytest.Session):
            del each.items[1:]
    return 2
""",
    "exit": """
import pytest
def add(a, b):
    return 2 if a == 1 else pytest.exit("done", returncode=0)
""",
    "deselected": """
import _pytest.python
collect = _pytest.python.PyCollector.collect
_pytest.python.PyCollector.collect = lambda self: list(collect(self))[:1]
def add(a, b):
    return 2
""",
    "skipped": """
import pytest
def add(a, b):
    return 2 if a == 1 else pytest.skip("no")
""",
}
"""Answers of which one test is passed, and pytest says that all is well."""
TOLD = {
    "ended": "tells of 1 tests; that of the reference of 3",
    "exit": "tells of 2 of its 1 tests only",
    "deselected": "tells of 1 tests; that of the reference of 3",
    "skipped": "tells of 2 skipped tests; that of the reference of none",
}


@pytest.fixture(scope="module")
def http(server: RunningServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        yield client


def written(solution: str) -> str:
    return f"cat > solution.py <<'END'\n{solution}END\n"


def made(http: httpx.Client, yard: Yard, about: str, **fields: Any) -> str:
    """A scenario with three hidden tests; what it is about keeps it apart from those of other tests."""
    scorer = {
        "type": "test_based_scorer",
        "test_command": f"python3 -m pytest -q tests/test_hidden.py --junitxml=report.xml  # {about}",
        "test_files": [{"file_path": "tests/test_hidden.py", "file_contents": TESTS}],
        **fields.pop("scorer", {}),
    }
    body = {
        "environment_parameters": {"snapshot_id": yard.snapshot, "working_directory": WORK},
        "reference_output": f"#!/bin/sh\n{written(RIGHT)}",
        "scoring_isolation": "answer",
        "answer_paths": ["solution.py"],
        **fields,
    }
    found: str = scenario(http, function(scorer), **body)["id"]
    return found


def validated(server: RunningServer, id: str) -> ScenarioValidation:
    async def validate() -> ScenarioValidation:
        async with AsyncClient(Server(server.url, server.key)) as client:
            return await Validator(client).validate(await client.scenarios.get(id))

    return asyncio.run(validate())


def scored(http: httpx.Client, id: str, solution: str) -> dict[str, Any]:
    """The result of a trial whose agent writes this solution."""
    row = Job(http, scenarios_spec([id], agent(written(solution)))).row()
    found: dict[str, Any] = good(http.get(f"/v1/scenarios/runs/{row['scenario_run_id']}"))
    result: dict[str, Any] = found["scoring_contract_result"]
    return result


@pytest.mark.parametrize("public", [False, True], ids=["own", "public"])
def test_a_validated_scenario_knows_how_many_tests_there_are(
    server: RunningServer, http: httpx.Client, yard: Yard, public: bool
) -> None:
    id = made(http, yard, f"validated {public}", metadata={"benchyard.benchmark": "some"} if public else {})
    if not public:
        # Nothing is known yet, and pytest says that all is well.
        assert scored(http, id, FEWER["ended"])["score"] == 1.0
    validation = validated(server, id)
    assert validation.problems == []
    assert "the reference's report lists 3 tests" in validation.notes[-1]
    honest = scored(http, id, f"# honest\n{RIGHT}")
    assert (honest["score"], honest["suspicions"]) == (1.0, [])
    assert honest["scoring_function_results"][0]["counted"] == {"tests": 3, "skipped": 0}
    for name, solution in FEWER.items():
        result = scored(http, id, solution)
        (found,) = result["scoring_function_results"]
        assert result["score"] == float(public), name
        assert TOLD[name] in found["output"], name
        assert [TOLD[name] in each for each in result["suspicions"]] == ([True] if public else []), name


@pytest.mark.parametrize("isolation", ["clean", "live"])
def test_the_number_is_known_from_a_trial_of_the_oracle_too(
    http: httpx.Client, yard: Yard, isolation: str
) -> None:
    id = made(http, yard, isolation, scoring_isolation=isolation, answer_paths=None)
    assert Job(http, scenarios_spec([id], {"name": "oracle"})).row()["score"] == 1.0
    assert scored(http, id, FEWER["ended"])["score"] == 0.0
    assert scored(http, id, RIGHT)["score"] == 1.0


def test_the_number_is_known_from_a_reference_that_judged_a_scorer(http: httpx.Client, yard: Yard) -> None:
    id = made(http, yard, "judged", scorer_timeout_sec=20)
    killed = scored(http, id, "import os\nos.kill(os.getppid(), 9)\n")
    assert (killed["score"], killed["scoring_function_results"][0]["cause"]) == (0.0, "answer")
    assert TOLD["ended"] in scored(http, id, FEWER["ended"])["scoring_function_results"][0]["output"]


def test_count_of_the_author_overrides_that_of_the_reference(http: httpx.Client, yard: Yard) -> None:
    id = made(http, yard, "author", scorer={"report_tests": 0})
    assert Job(http, scenarios_spec([id], {"name": "oracle"})).row()["score"] == 1.0
    assert scored(http, id, FEWER["ended"])["score"] == 1.0
