"""The server may be killed at any moment of a build: it ends all the same, and nothing is half-made."""

import random
import time
from pathlib import Path

import pytest

from benchyard.hosts import leaks
from benchyard.testing.server import RunningServer
from tests.faults.caller import PATIENCE_SECONDS, Caller, several_callers
from tests.faults.seeds import seeds

ROUNDS = 5
COMMANDS = ["head -c 20000000 /dev/urandom > ~/big; sleep 0.2", "echo whole > ~/done"]
CUT = "the server stopped 2 times in the middle of this build"


@pytest.mark.parametrize("seed", seeds(short=1))
def test_a_build_ends_well_or_says_that_it_was_cut(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = tmp_path / "data"
    with RunningServer(data) as server, several_callers(server, 1) as (caller,):
        ids = []
        for number in range(ROUNDS):
            for body in ({"system_setup_commands": COMMANDS, "file_mounts": {"~/file": "x"}}, {}):
                made = caller.post("/v1/blueprints", {"name": f"round {number}", **body})
                ids.append(made.json()["id"])
            # When the next kill comes is left to chance, not waited for.
            time.sleep(chance.random())
            server.kill()
            server.start()
        views = [ended(caller, id) for id in ids]
        assert {view.get("error_message") for view in views if view["status"] == "failed"} <= {CUT}
        good = {str(view["id"]) for view in views if view["status"] == "build_complete"}
        assert {path.stem for path in (data / "images" / "images").glob("*.json")} == {"host", *good}
        assert [path for path in (data / "host" / "devboxes").iterdir() if path.name.startswith("bpt_")] == []
        for id in good & set(ids[::2]):
            assert shown(caller, id) == "whole\n20000000\n"
        for id in ids:
            assert caller.post(f"/v1/blueprints/{id}/delete").status_code == 200
    assert leaks.find(data) == []


def ended(caller: Caller, id: str) -> dict[str, object]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (view := caller.get(f"/v1/blueprints/{id}"))["status"] not in ("build_complete", "failed"):
        assert time.monotonic() < deadline, view
        time.sleep(0.1)
    return view


def shown(caller: Caller, blueprint_id: str) -> str:
    made = caller.post("/v1/devboxes/create_and_await_running", {"blueprint_id": blueprint_id}).json()
    assert made["status"] == "running", made
    command = {"command": "cat ~/done; stat -c %s ~/big"}
    answer = caller.post(f"/v1/devboxes/{made['id']}/execute_sync", command).json()
    caller.post(f"/v1/devboxes/{made['id']}/shutdown")
    return str(answer["stdout"])
