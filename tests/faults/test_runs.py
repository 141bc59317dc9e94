"""The server may be killed at any moment of a scenario run: every run ends with the score it deserves."""

import random
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchyard.hosts import leaks
from benchyard.testing.server import RunningServer
from tests.faults.caller import PATIENCE_SECONDS, Caller, several_callers
from tests.faults.seeds import seeds

RUNS = 8
KILLS = 4
ISOLATION = ("clean", "answer", "live", "clean")
GRADE = "sleep 0.3; grep -q good ~/answer && echo 1 || echo 0.25"


@pytest.mark.parametrize("seed", seeds(short=1))
def test_every_run_ends_with_its_score(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = tmp_path / "data"
    with RunningServer(data) as server, several_callers(server, RUNS) as callers:
        scenarios = {kind: scenario(callers[0], kind) for kind in set(ISOLATION)}
        benchmark = {"name": "all", "scenario_ids": list(scenarios.values())}
        made = callers[0].post("/v1/benchmarks", benchmark).json()
        whole = callers[0].post("/v1/benchmarks/start_run", {"benchmark_id": made["id"]}).json()["id"]
        killer = threading.Thread(target=kill, args=(server, chance))
        with ThreadPoolExecutor(RUNS) as pool:
            killer.start()
            work = [
                pool.submit(live, caller, scenarios[ISOLATION[number % len(ISOLATION)]], whole, number)
                for number, caller in enumerate(callers)
            ]
            views = [each.result() for each in work]
            killer.join()
        scores = [view["scoring_contract_result"]["score"] for view in views]
        assert scores == [1.0 if number % 2 else 0.25 for number in range(RUNS)], views
        ended = callers[0].post(f"/v1/benchmark_runs/{whole}/complete").json()
        assert (ended["state"], ended["score"]) == ("completed", pytest.approx(0.625))
        kept = [
            view["id"] for number, view in enumerate(views) if ISOLATION[number % len(ISOLATION)] != "live"
        ]
        again = scored_again(server, callers, kept, chance)
    # What each run left is there once, with where it began for an answer, and nothing else.
    answers = [each["id"] for each in again if each["scoring_contract_result"]["isolation"] == "answer"]
    left = {path.stem for path in (data / "images/images").glob("*.json")} - {"host"}
    wanted = {f"{each}-1-final" for each in kept} | {f"{answer}-1-start" for answer in answers}
    assert left == wanted
    assert leaks.find(data) == []


def test_a_run_that_ended_just_before_the_server_did_has_no_devbox(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server, several_callers(server, 1) as (caller,):
        run = caller.post("/v1/scenarios/start_run", {"scenario_id": scenario(caller, "clean")}).json()
        reached(caller, f"/v1/devboxes/{run['devbox_id']}", "status", "running")
        server.kill()
        with closing(sqlite3.connect(server.data / "benchyard.db")) as database, database:
            # What a server does just before it ends the devbox.
            ended = (
                "UPDATE scenario_runs SET status = 'completed', body = json_set(body, '$.state', 'completed')"
            )
            assert database.execute(ended).rowcount == 1
        server.start()
        reached(caller, f"/v1/devboxes/{run['devbox_id']}", "status", "shutdown")
        assert leaks.find(server.data) == []


def test_a_live_scoring_that_cannot_refuse_tracing_says_so(tmp_path: Path) -> None:
    """As that of a devbox which an older version of the server had started."""
    with RunningServer(tmp_path / "data") as server, several_callers(server, 1) as (caller,):
        id = scenario(caller, "live", scoring_tracing=True)
        run = caller.post("/v1/scenarios/start_run", {"scenario_id": id}).json()
        reached(caller, f"/v1/devboxes/{run['devbox_id']}", "status", "running")
        newer = caller.post(f"/v1/scenarios/{id}", {"scoring_tracing": False}).json()["revision"]
        server.kill()
        with closing(sqlite3.connect(server.data / "benchyard.db")) as database, database:
            update = "UPDATE scenario_runs SET body = json_set(body, '$.scenario_revision', ?)"
            assert database.execute(update, (newer,)).rowcount == 1
        server.start()
        caller.post(f"/v1/scenarios/runs/{run['id']}/score")
        view = reached(caller, f"/v1/scenarios/runs/{run['id']}", "state", "scored")
        (note,) = view["tamper_report"]["notes"]
        assert note.startswith("processes could trace its scorers: ")
        assert "started without the means to refuse tracing" in note
        assert view["scoring_contract_result"]["score"] == 0.25


def scenario(caller: Caller, isolation: str, **fields: Any) -> str:
    scorer = {"type": "bash_script_scorer", "bash_script": GRADE}
    body: dict[str, Any] = {
        "name": isolation,
        "input_context": {"problem_statement": "Write `good` to ~/answer."},
        "scoring_contract": {
            "scoring_function_parameters": [
                {"name": "one", "weight": 0.5, "scorer": scorer},
                {"name": "two", "weight": 0.5, "scorer": scorer},
            ]
        },
        "scoring_isolation": isolation,
        **fields,
    }
    if isolation == "answer":
        body["answer_paths"] = ["answer"]
    return str(caller.post("/v1/scenarios", body).json()["id"])


def live(caller: Caller, scenario_id: str, benchmark_run_id: str, number: int) -> dict[str, Any]:
    """One run from its start to its score, by a caller that asks again when the server is away."""
    body = {"scenario_id": scenario_id, "benchmark_run_id": benchmark_run_id}
    run = caller.post("/v1/scenarios/start_run", body).json()
    reached(caller, f"/v1/devboxes/{run['devbox_id']}", "status", "running")
    word = "good" if number % 2 else "bad"
    path = {"file_path": "~/answer", "contents": word}
    caller.post(f"/v1/devboxes/{run['devbox_id']}/write_file_contents", path)
    caller.post(f"/v1/scenarios/runs/{run['id']}/score")
    return reached(caller, f"/v1/scenarios/runs/{run['id']}", "state", "scored")


def scored_again(
    server: RunningServer, callers: list[Caller], kept: list[str], chance: random.Random
) -> list[dict[str, Any]]:
    """Those runs, each scored once more from what it left, whatever is killed meanwhile."""
    killer = threading.Thread(target=kill, args=(server, chance))
    with ThreadPoolExecutor(RUNS) as pool:
        killer.start()
        again = [*pool.map(score_again, callers, kept)]
        killer.join()
    for view in again:
        (before,) = view["earlier_results"]
        assert view["scoring_contract_result"]["score"] == before["score"]
        assert "rescoring_failure" not in view
    return again


def score_again(caller: Caller, run_id: str) -> dict[str, Any]:
    """A run that is over, scored again from what it left."""
    caller.post(f"/v1/scenarios/runs/{run_id}/rescore")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while "rescoring" in (view := caller.get(f"/v1/scenarios/runs/{run_id}")):
        assert time.monotonic() < deadline, view
        time.sleep(0.1)
    return view


def reached(caller: Caller, path: str, field: str, wanted: str) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (view := caller.get(path))[field] != wanted:
        assert time.monotonic() < deadline, view
        time.sleep(0.1)
    return view


def kill(server: RunningServer, chance: random.Random) -> None:
    for _ in range(KILLS):
        time.sleep(0.2 + chance.random())
        server.kill()
        server.start()
