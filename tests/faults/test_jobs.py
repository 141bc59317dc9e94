"""The server may end at any moment of a job: it completes, and every agent runs exactly once."""

import random
import threading
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from benchyard.testing.server import RunningServer
from tests.faults.caller import Caller, several_callers
from tests.faults.jobs import FaultyJob, Follower, counting, nothing_is_left, scenario
from tests.faults.seeds import SEEDS, seeds
from tests.faults.workload import surprises

QUICK_SECONDS, LONG_SECONDS = 0.3, 5 if SEEDS else 4
"""The long ones are at work while the server dies, more than once."""


class Size(NamedTuple):
    """Of a job with two agents, and how often its server is killed."""

    scenarios: int
    attempts: int
    kills: int


SHORT = Size(scenarios=2, attempts=3, kills=3)


def size(seed: int) -> Size:
    """A hundred trials and twenty kills with the first seed, thirty and eight with each of the others."""
    if not SEEDS:
        return SHORT
    return Size(5, 10, 20) if seed == 1 else Size(5, 3, 8)


@pytest.mark.parametrize("seed", seeds(short=1))
def test_every_agent_runs_once_however_often_the_server_is_killed(tmp_path: Path, seed: int) -> None:
    with RunningServer(tmp_path / "data") as server, several_callers(server, 1) as (caller,):
        job = _begun(caller, size(seed))
        follower = Follower(server, job.id)
        follower.start()
        killer = threading.Thread(target=_kill, args=(server, random.Random(seed), size(seed).kills))
        killer.start()
        job.ended()
        killer.join()
        _is_whole(job, follower)
        assert follower.connections > 1
        assert not surprises(server)
        nothing_is_left(server)


def test_a_job_goes_on_after_a_stop(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server, several_callers(server, 1) as (caller,):
        job = _begun(caller, SHORT._replace(attempts=1))
        follower = Follower(server, job.id)
        follower.start()
        job.at_work(2)
        assert server.stop() == 0
        server.start()
        _is_whole(job, follower)
        assert not surprises(server)
        nothing_is_left(server)


def _begun(caller: Caller, size: Size) -> FaultyJob:
    scenarios = [scenario(caller) for _number in range(size.scenarios)]
    agents = [counting(QUICK_SECONDS), counting(LONG_SECONDS)]
    return FaultyJob(caller, scenarios, agents, n_attempts=size.attempts)


def _kill(server: RunningServer, chance: random.Random, kills: int) -> None:
    for _number in range(kills):
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
    assert [(trial["state"], trial["score"]) for trial in trials] == [("completed", 1.0)] * len(trials), (
        trials
    )
    assert {id: each["state"] for id, each in told.items()} == {trial["id"]: "completed" for trial in trials}
    assert [each["mean_score"] for each in view["benchmark_outcomes"]] == [1.0, 1.0]
