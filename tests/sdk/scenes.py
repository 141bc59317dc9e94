"""Scenarios and runs as most tests want them, by the generated client."""

import io
import uuid
import zipfile
from typing import Any

from runloop_api_client import Runloop
from runloop_api_client.lib.polling import PollingConfig
from runloop_api_client.types import BenchmarkView, ScenarioRunView, ScenarioView

QUICK = PollingConfig(interval_seconds=0.1, max_attempts=1200)
DONE = "test -e ~/done"


def unique(of: str) -> str:
    """A name that nothing else has."""
    return f"{of}-{uuid.uuid4().hex[:8]}"


def function(name: str = "done", weight: float = 1.0, **scorer: Any) -> dict[str, Any]:
    """One scorer of a contract: passes once there is a file `done`, unless it is said otherwise."""
    return {"name": name, "weight": weight, "scorer": scorer or {"type": "command_scorer", "command": DONE}}


def contract(*functions: dict[str, Any]) -> Any:
    """A scoring contract of these scorers."""
    return {"scoring_function_parameters": list(functions) or [function()]}


def fields(of: str = "scene", **more: Any) -> dict[str, Any]:
    """What makes a small scenario."""
    return {
        "name": unique(of),
        "input_context": {"problem_statement": "make a file `done` in your home"},
        "scoring_contract": contract(),
        **more,
    }


def scenario(client: Runloop, of: str = "scene", **more: Any) -> ScenarioView:
    """A small scenario."""
    return client.scenarios.create(**fields(of, **more))


def benchmark(client: Runloop, *scenario_ids: str, **more: Any) -> BenchmarkView:
    """A benchmark of these scenarios."""
    return client.benchmarks.create(name=unique("bench"), scenario_ids=list(scenario_ids), **more)


def started(client: Runloop, scenario_id: str, **more: Any) -> ScenarioRunView:
    """A run whose devbox runs."""
    return client.scenarios.start_run_and_await_env_ready(
        scenario_id=scenario_id, polling_config=QUICK, **more
    )


def solve(client: Runloop, run: ScenarioRunView) -> None:
    """Do what the small scenario asks for."""
    client.devboxes.write_file_contents(run.devbox_id, file_path="done", contents="")


def scored(client: Runloop, id: str) -> ScenarioRunView:
    """The run, scored."""
    return client.scenarios.runs.score_and_await(id, polling_config=QUICK)


def points(run: ScenarioRunView) -> float:
    """The score of a run that has one."""
    assert run.scoring_contract_result is not None, run
    return run.scoring_contract_result.score


def entries(content: bytes, run_id: str) -> dict[str, bytes]:
    """The files of a zip of logs, which are flat and begin with the run's id."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert all(name.startswith(f"{run_id}_") and "/" not in name for name in names), names
        return {name.removeprefix(f"{run_id}_"): archive.read(name) for name in names}
