"""The server is killed while the disk of a trial, in which nobody works any more, becomes what is scored."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchyard.hosts import leaks
from benchyard.testing.server import RunningServer
from tests.faults.caller import PATIENCE_SECONDS, Caller, several_callers

# Enough that each moment lasts for a while.
LEFT = (
    "mkdir ~/many && cd ~/many && for each in $(seq 3000); do echo $each > $each; done; echo good > ~/answer"
)
GRADE = "sleep 0.5; grep -q good ~/answer && cat ~/many/3000 && echo 1"


def _has_ended(data: Path) -> bool:
    """The devbox does not run any more, and its disk is where it was."""
    folders = list((data / "host/devboxes").glob("dbx_*"))
    return any(
        (folder / "changes/home/user/answer").exists() and not (folder / "box.json").exists()
        for folder in folders
    )


def _is_noted(data: Path) -> bool:
    """The image has its record: its layer is about to be moved, or was."""
    return any((data / "images/images").glob("scr_*-1.json"))


def _is_in_a_room(data: Path) -> bool:
    """A scorer has begun; what is kept as the final state is not on disk yet, or just is."""
    return any((data / "host/devboxes").glob("scr_*-1-0-*"))


@pytest.mark.parametrize("moment", [_has_ended, _is_noted, _is_in_a_room])
def test_a_trial_is_scored_whenever_the_server_was_killed(
    tmp_path: Path, moment: Callable[[Path], bool]
) -> None:
    with RunningServer(tmp_path / "data") as server, several_callers(server, 1) as (caller,):
        job = _begun(caller)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not moment(server.data):
            assert time.monotonic() < deadline
        server.kill()
        server.start()
        while (view := caller.get(f"/v1/benchmark_jobs/{job}"))["state"] not in ("completed", "failed"):
            assert time.monotonic() < deadline, view
            time.sleep(0.1)
        (trial,) = caller.get(f"/v1/benchmark_jobs/{job}/trials")["trials"]
        assert (trial["state"], trial["score"]) == ("completed", 1.0), trial
        run = caller.get(f"/v1/scenarios/runs/{trial['scenario_run_id']}")
        # What was changed is told of the disk as it was left, though it was moved meanwhile.
        assert run["tamper_report"]["changed_inside_total"] == 3002
        again = caller.post(f"/v1/scenarios/runs/{run['id']}/rescore")
        assert again.status_code == 200, again.text
        while (run := caller.get(f"/v1/scenarios/runs/{run['id']}")).get("rescoring"):
            assert time.monotonic() < deadline, run
            time.sleep(0.1)
        assert run["scoring_contract_result"]["score"] == 1.0
    assert leaks.find(tmp_path / "data") == []


def _begun(caller: Caller) -> str:
    scorer = {"type": "bash_script_scorer", "bash_script": GRADE}
    body: dict[str, Any] = {
        "name": "taken",
        "input_context": {"problem_statement": "Write `good` to ~/answer."},
        "reference_output": LEFT,
        "scoring_contract": {
            "scoring_function_parameters": [{"name": "grade", "weight": 1.0, "scorer": scorer}]
        },
    }
    scenario = caller.post("/v1/scenarios", body).json()["id"]
    spec = {
        "type": "scenarios",
        "scenario_ids": [scenario],
        "agent_configs": [{"name": "oracle"}],
        "orchestrator_config": {"n_concurrent_trials": 1, "n_attempts": 1},
    }
    return str(caller.post("/v1/benchmark_jobs", {"spec": spec}).json()["id"])


def test_state_lost_with_the_power_is_not_scored(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server, several_callers(server, 1) as (caller,):
        job = _begun(caller)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not _is_in_a_room(server.data):
            assert time.monotonic() < deadline
        server.kill()
        # As the next boot of the machine finds it: nothing of the disk was synced, and neither was this.
        (note,) = (server.data / "host/devboxes").glob("dbx_*/rests")
        note.unlink()
        server.start()
        while (view := caller.get(f"/v1/benchmark_jobs/{job}"))["state"] not in ("completed", "failed"):
            assert time.monotonic() < deadline, view
            time.sleep(0.1)
        trials = caller.get(f"/v1/benchmark_jobs/{job}/trials")["trials"]
        assert any("started anew" in json.dumps(trial) for trial in trials), trials
    assert leaks.find(tmp_path / "data") == []
