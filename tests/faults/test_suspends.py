"""The server dies while a devbox is suspended and resumed: its disk is kept, and it comes back each time."""

import random
import threading
import time
from pathlib import Path

import pytest

from benchyard.hosts import leaks
from benchyard.testing.server import RunningServer
from tests.faults.caller import Caller, several_callers
from tests.faults.seeds import SEEDS, seeds
from tests.faults.test_runs import reached
from tests.faults.workload import surprises

ROUNDS = 6 if SEEDS else 3


@pytest.mark.parametrize("seed", seeds(short=1))
def test_a_devbox_is_suspended_and_resumed_whatever_is_killed(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with (
        RunningServer(tmp_path / "data", ["--driver", "native"]) as server,
        several_callers(server, 2) as (caller, other),
    ):
        devbox = caller.post("/v1/devboxes/create_and_await_running").json()["id"]
        for number in range(ROUNDS):
            note = {"file_path": f"~/{number}", "contents": str(number)}
            assert caller.post(f"/v1/devboxes/{devbox}/write_file_contents", note).status_code == 200
            for verb, state in (("suspend", "suspended"), ("resume", "running")):
                _asked(server, other, f"/v1/devboxes/{devbox}/{verb}", chance)
                reached(caller, f"/v1/devboxes/{devbox}", "status", state)
        shown = caller.post(f"/v1/devboxes/{devbox}/execute_sync", {"command": "cat ~/[0-9]"}).json()
        assert shown["stdout"] == "".join(str(number) for number in range(ROUNDS))
        caller.post(f"/v1/devboxes/{devbox}/shutdown")
        assert leaks.find(server.data) == []
        assert not surprises(server)


def _asked(server: RunningServer, caller: Caller, path: str, chance: random.Random) -> None:
    """Ask for something of a server that dies in the middle of it."""
    asking = threading.Thread(target=caller.post, args=(path,))
    asking.start()
    time.sleep(chance.uniform(0, 0.2))
    server.kill()
    server.start()
    asking.join()
