"""The server may end at any moment of a job: it completes, and every agent runs exactly once."""

import random
import threading
import time
from pathlib import Path

import pytest

from benchyard.testing.server import RunningServer
from tests.faults.caller import Caller, several_callers
from tests.faults.jobs import FaultyJob, Follower, counting, nothing_is_left, scenario
from tests.faults.seeds import SEEDS, seeds
from tests.faults.warm import WarmServer
from tests.faults.workload import surprises

KILLS = 20 if SEEDS else 3
SCENARIOS = 5 if SEEDS else 2
ATTEMPTS = 10 if SEEDS else 3
QUICK_SECONDS, LONG_SECONDS = 0.3, 5 if SEEDS else 4
"""The long ones are at work while the server dies, more than once."""


@pytest.mark.parametrize("seed", seeds(short=1))
def test_every_agent_runs_once_however_often_the_server_is_killed(tmp_path: Path, seed: int) -> None:
    with WarmServer(tmp_path / "data") as server, several_callers(server, 1) as (caller,):
        job = _begun(caller)
        follower = Follower(server, job.id)
        follower.start()
        killer = threading.Thread(target=_kill, args=(server, random.Random(seed)))
        killer.start()
        job.ended()
        killer.join()
        _is_whole(job, follower)
        assert follower.connections > 1
        assert not surprises(server)
        nothing_is_left(server)


def test_a_job_goes_on_after_a_stop(tmp_path: Path) -> None:
    with WarmServer(tmp_path / "data") as server, several_callers(server, 1) as (caller,):
        job = _begun(caller, attempts=1)
        follower = Follower(server, job.id)
        follower.start()
        job.at_work(2)
        assert server.stop() == 0
        server.start()
        _is_whole(job, follower)
        assert not surprises(server)
        nothing_is_left(server)


def _begun(caller: Caller, attempts: int = ATTEMPTS) -> FaultyJob:
    scenarios = [scenario(caller) for _number in range(SCENARIOS)]
    return FaultyJob(
        caller, scenarios, [counting(QUICK_SECONDS), counting(LONG_SECONDS)], n_attempts=attempts
    )


def _kill(server: RunningServer, chance: random.Random) -> None:
    for _number in range(KILLS):
        time.sleep(chance.uniform(0.1, 2.5))
        server.kill()
        time.sleep(chance.uniform(0, 0.3))
        server.start()


def _is_whole(job: FaultyJob, follower: Follower) -> None:
    """Nothing was lost and nothing done twice, neither in the devboxes nor in what is told of them."""
    view = job.ended()
    told = follower.told()
    trials = job.trials()
    # A server that ends is no reason to begin anything again.
    assert len(trials) == view["benchmark_outcomes"][0]["n_trials"] * 2 == len(job.counting()), trials
    assert [(each["state"], each["score"]) for each in trials] == [("completed", 1.0)] * len(trials), trials
    assert {id: each["state"] for id, each in told.items()} == {each["id"]: "completed" for each in trials}
    assert [each["mean_score"] for each in view["benchmark_outcomes"]] == [1.0, 1.0]
