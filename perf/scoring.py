"""`scoring`: what a score costs beside a bare devbox, and many runs at the same time."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchyard import AsyncBenchyard
from benchyard.testing.server import RunningServer
from perf.api import Api
from perf.machine import MB, resident
from perf.measure import Figure, interleave
from perf.options import Options
from perf.page import heading, table

_CHANGED = "mkdir ~/many; cd ~/many; for i in $(seq 1000); do head -c 10000 /dev/zero > $i; done"
_BATCHES = 4


def measure(folder: Path, options: Options) -> list[str]:
    """Score runs side by side with bare devboxes; then many runs from start to end, several times over."""
    with RunningServer(folder / "data", ["--driver", "native"]) as server:
        api = Api(server)
        scenario = _scenario(api)
        empty, full = _run(api, scenario), _run(api, scenario)
        api.run(full["devbox_id"], _CHANGED)
        cycles: dict[str, Callable[[], object]] = {
            "a bare devbox: create, run a command, shut down": api.cycle,
            "score a run that changed nothing": partial(_score, api, empty["id"]),
            "score a run that changed 1,000 files and 10 MB": partial(_score, api, full["id"]),
        }
        figures = interleave(cycles, options.rounds)
        for run in (empty, full):
            api.post(f"/v1/scenarios/runs/{run['id']}/complete")
        api.close()
        batches = [_batch(server, scenario, options.executions) for _ in range(_BATCHES)]
    return [
        heading(f"{options.rounds} rounds, interleaved."),
        "",
        *_report(figures, batches, options),
    ]


BODY: dict[str, Any] = {
    "input_context": {"problem_statement": "Do nothing."},
    "scoring_contract": {
        "scoring_function_parameters": [
            {"name": "true", "weight": 1, "scorer": {"type": "command_scorer", "command": "true"}}
        ]
    },
}


def _scenario(api: Api) -> str:
    body = {**BODY, "name": "measured"}
    return str(api.post("/v1/scenarios", body)["id"])


def _run(api: Api, scenario: str) -> dict[str, Any]:
    run = api.post("/v1/scenarios/start_run", {"scenario_id": scenario})
    api.post(f"/v1/devboxes/{run['devbox_id']}/wait_for_status", {"statuses": ["running"]})
    return run


def _score(api: Api, run: str) -> None:
    api.post(f"/v1/scenarios/runs/{run}/score")
    view = api.post(f"/v1/scenarios/runs/{run}/wait_for_state", {"states": ["scored"]})
    if view["scoring_contract_result"]["score"] != 1.0:
        raise RuntimeError(f"the run was not scored: {view['scoring_contract_result']}")


def _batch(server: RunningServer, scenario: str, count: int) -> tuple[float, float]:
    """Seconds for so many runs at once from start to end, and the server's memory afterwards in MB."""
    begin = time.perf_counter()
    asyncio.run(_all(server, scenario, count))
    return time.perf_counter() - begin, resident(server.pid) / MB


async def _all(server: RunningServer, scenario: str, count: int) -> None:
    async with AsyncBenchyard(base_url=server.url, bearer_token=server.key) as client:
        await asyncio.gather(*(_whole(client, scenario) for _ in range(count)))


async def _whole(client: AsyncBenchyard, scenario: str) -> None:
    run = await client.api.scenarios.start_run(scenario_id=scenario)
    await client.devbox.from_id(run.devbox_id).await_running()
    scored = await client.api.scenarios.runs.score_and_await(run.id)
    if scored.scoring_contract_result is None or scored.scoring_contract_result.score != 1.0:
        raise RuntimeError(f"the run was not scored: {scored.scoring_contract_result}")
    ended = await client.api.scenarios.runs.complete(run.id)
    if ended.state != "completed":
        raise RuntimeError(f"the run is {ended.state}")


def _report(figures: dict[str, Figure], batches: list[tuple[float, float]], options: Options) -> list[str]:
    floor = next(iter(figures.values())).p50
    targets = {"score a run that changed nothing": "at most 3x"}
    rows = [
        (name, f"{each.p50:.1f}", f"{each.p95:.1f}", f"{each.p50 / floor:.2f}x", targets.get(name, ""))
        for name, each in figures.items()
    ]
    told = "; ".join(f"{seconds:.1f} s, then {memory:.0f} MB" for seconds, memory in batches)
    return [
        "### A score beside a bare devbox",
        *table(("", "p50 ms", "p95 ms", "to a bare devbox", "target"), rows),
        "",
        f"### {options.executions} runs at once, started, scored and completed through the SDK",
        "",
        f"{_BATCHES} times over, none lost; time, and the server's memory after each: {told}.",
    ]
