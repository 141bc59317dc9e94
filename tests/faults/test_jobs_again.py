"""The server dies while a job is resumed, retried or scored again: that happens, and happens once."""

import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from benchyard.testing.server import RunningServer
from tests.faults.caller import several_callers
from tests.faults.jobs import PATIENCE_SECONDS, FaultyJob, command, counting, nothing_is_left, scenario
from tests.faults.seeds import seeds
from tests.faults.workload import surprises

ATTEMPTS = 3
KILLS = 3


@pytest.mark.parametrize("seed", seeds(short=1))
def test_repeated_requests_to_an_ended_job_happen_once(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with RunningServer(tmp_path / "data") as server, several_callers(server, 1) as (caller,):
        agents = [counting(1), command("exit 3")]
        job = FaultyJob(caller, [scenario(caller)], agents, n_attempts=ATTEMPTS, n_concurrent_trials=3)
        job.at_work()
        assert caller.post(f"/v1/benchmark_jobs/{job.id}/cancel").json()["state"] == "cancelled"
        _asked(server, job, "resume", {}, chance)
        good, bad = _counted(job)
        tried = len(job.trials())

        _asked(server, job, "retry", {"only": "failed"}, chance)
        assert [each["id"] for each in _counted(job)[0]] == [each["id"] for each in good]
        again = _counted(job)[1]
        assert not {each["id"] for each in again} & {each["id"] for each in bad}
        assert len(job.trials()) == tried + ATTEMPTS, job.trials()

        _asked(server, job, "rescore", {}, chance)
        for each in _counted(job)[0]:
            assert [record["score"] for record in each["earlier_scores"]] == [1.0], each
        nothing_is_left(server)
        assert not surprises(server)


def _asked(
    server: RunningServer, job: FaultyJob, verb: str, body: dict[str, Any], chance: random.Random
) -> None:
    """Ask it of a job, with a server that dies again and again, and see it through."""
    answers: list[int] = []

    def ask() -> None:
        answers.append(job.caller.post(f"/v1/benchmark_jobs/{job.id}/{verb}", body).status_code)

    asking = threading.Thread(target=ask)
    asking.start()
    for _number in range(KILLS):
        time.sleep(chance.uniform(0, 0.5))
        server.kill()
        server.start()
    asking.join()
    assert answers == [200]
    job.ended()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (view := job.view()).get("rescoring_state") == "running":
        assert time.monotonic() < deadline, view
        time.sleep(0.1)


def _counted(job: FaultyJob) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The trials that count, of the agent that works and of the one that fails; each has its due end."""
    found = sorted(job.counting(), key=lambda each: each["attempt"])
    good = [each for each in found if each["agent"] == 0]
    bad = [each for each in found if each["agent"] == 1]
    assert [(each["state"], each["score"]) for each in good] == [("completed", 1.0)] * ATTEMPTS, found
    failures = [(each["state"], each["failure"]["kind"]) for each in bad]
    assert failures == [("failed", "agent")] * ATTEMPTS, found
    return good, bad
