"""The server may end at any moment of any round: each is worked on once, prepared once and scored once."""

import random
import time
from pathlib import Path
from typing import Any

import pytest

from benchyard.testing.server import RunningServer
from tests.faults.caller import Caller, several_callers
from tests.faults.jobs import FaultyJob, command, nothing_is_left, scenario
from tests.faults.seeds import SEEDS, seeds
from tests.faults.workload import surprises

WORKING = "echo begin $BENCHYARD_ROUND >> ~/log; sleep 0.7; echo end $BENCHYARD_ROUND >> ~/log"
ONE, TWO, THREE = ("begin 1 end 1", "begin 2 end 2", "begin 3 end 3")


def exactly(*lines: str) -> dict[str, Any]:
    """A scorer: 1 for who did this and nothing else, once."""
    grade = f'test "$(xargs < ~/log)" = "{" ".join(lines)}" && echo 1 || echo 0'
    return {"type": "bash_script_scorer", "bash_script": grade}


def step(name: str, scorer: dict[str, Any], **fields: Any) -> dict[str, Any]:
    function = {"name": "counted", "weight": 1.0, "scorer": scorer}
    contract = {"scoring_function_parameters": [function]}
    return {"name": name, "problem_statement": name, "scoring_contract": contract, **fields}


def size(seed: int) -> tuple[int, int]:
    """How many attempts, and how many kills: most with the first seed."""
    if not SEEDS:
        return 2, 5
    return (6, 20) if seed == 1 else (3, 6)


@pytest.mark.parametrize("seed", seeds(short=1))
def test_every_round_happens_once_however_often_the_server_is_killed(tmp_path: Path, seed: int) -> None:
    attempts, kills = size(seed)
    with RunningServer(tmp_path / "data") as server, several_callers(server, 1) as (caller,):
        tries = scenario(caller, exactly(ONE, TWO, THREE)["bash_script"], tries=3)
        prepared = "echo setup 2 >> ~/log; sleep 0.3"
        steps = [step("one", exactly(ONE)), step("two", exactly(ONE, "setup 2", TWO), setup=prepared)]
        stepped = scenario(caller, steps=steps)
        job = FaultyJob(caller, [tries, stepped], [command(WORKING)], n_attempts=attempts)
        chance = random.Random(seed)
        for _number in range(kills):
            time.sleep(chance.uniform(0.1, 1.5))
            server.kill()
            server.start()
        job.ended()
        for trial in job.counting():
            _is_whole(caller, trial, 3 if trial["scenario_id"] == tries else 2)
        assert len(job.trials()) == 2 * attempts, "a server that ends is no reason to begin anything again"
        assert not surprises(server)
        nothing_is_left(server)


def _is_whole(caller: Caller, trial: dict[str, Any], rounds: int) -> None:
    assert (trial["state"], trial["score"]) == ("completed", 1.0), trial
    assert [each["number"] for each in trial["rounds"]] == [*range(1, rounds + 1)], trial
    assert trial["rounds"][-1]["score"] == 1.0, trial
    assert all(each["exit_status"] == 0 and each["end_time_ms"] for each in trial["rounds"]), trial
    run = caller.get(f"/v1/scenarios/runs/{trial['scenario_run_id']}")
    told = [each["round"] for each in [*run["earlier_results"], run["scoring_contract_result"]]]
    assert told == [*range(1, rounds + 1)], run
