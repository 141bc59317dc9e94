"""A job that is cancelled: what ran is gone at once, also if the server dies in the middle of it."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from benchyard.hosts import leaks
from benchyard.testing.server import RunningServer
from tests.faults.caller import Caller, several_callers
from tests.faults.jobs import PATIENCE_SECONDS, FaultyJob, command, counting, nothing_is_left, scenario
from tests.faults.seeds import SEEDS, seeds
from tests.faults.workload import surprises

TRIALS = 50 if SEEDS else 12
CLINGING = "trap '' TERM; (setsid sleep 1000 &) ; (trap '' TERM; sleep 1000) & sleep 1000"


def test_a_cancelled_job_leaves_nothing_behind(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with RunningServer(tmp_path / "data") as server, several_callers(server, 1) as (caller,):
        agents = [command(CLINGING)]
        orchestrator = {"n_attempts": TRIALS, "n_concurrent_trials": TRIALS}
        job = FaultyJob(caller, [scenario(caller)], agents, **orchestrator)
        running = job.at_work(TRIALS)
        begun = time.monotonic()
        answer = caller.post(f"/v1/benchmark_jobs/{job.id}/cancel")
        answered = time.monotonic() - begun
        while _devboxes(server, {each["devbox_id"] for each in running}):
            assert time.monotonic() < begun + PATIENCE_SECONDS, _devboxes(server, set())
            time.sleep(0.02)
        gone = time.monotonic() - begun
        record_property("seconds", {"trials": TRIALS, "answered": answered, "gone": gone})
        sys.stderr.write(f"{TRIALS} trials: answered after {answered:.2f} s, gone after {gone:.2f} s\n")
        assert answer.json()["state"] == "cancelled", answer.text
        assert {trial["state"] for trial in job.trials()} == {"canceled"}
        nothing_is_left(server)
        assert not surprises(server)


def _devboxes(server: RunningServer, ids: set[str]) -> list[str]:
    """What is left of devboxes: their processes (box.json is removed with the last), their control groups."""
    held = [path.parent.name for path in (server.data / "host/devboxes").glob("*/box.json")]
    groups = [leak.name for leak in leaks.look(server.data) if leak.kind != "folder"]
    return [*(id for id in held if not ids or id in ids), *groups]


@pytest.mark.parametrize("seed", seeds(short=1))
def test_a_server_that_dies_while_it_cancels_ends_the_job_when_it_is_back(tmp_path: Path, seed: int) -> None:
    with RunningServer(tmp_path / "data") as server, several_callers(server, 1) as (caller,):
        job = FaultyJob(caller, [scenario(caller)], [counting(2)], n_attempts=4, n_concurrent_trials=3)
        job.at_work(2)
        asking = threading.Thread(target=_cancel, args=(server, job.id))
        asking.start()
        time.sleep(0.02 * (seed % 10))
        server.kill()
        asking.join()
        server.start()
        # The first may have been noted, or not; then nobody has taken up yet what the first server began.
        assert caller.post(f"/v1/benchmark_jobs/{job.id}/cancel").json()["state"] == "cancelled"
        nothing_is_left(server)
        runs = caller.get(f"/v1/benchmark_runs/{job.view()['benchmark_outcomes'][0]['benchmark_run_id']}")
        assert runs["state"] == "canceled"
        assert caller.post(f"/v1/benchmark_jobs/{job.id}/resume").status_code == 200
        job.ended()
        counted = job.counting()
        assert [(each["state"], each["score"]) for each in counted] == [("completed", 1.0)] * 4, counted
        nothing_is_left(server)
        assert not surprises(server)


def _cancel(server: RunningServer, job_id: str) -> None:
    headers = {"Authorization": f"Bearer {server.key}"}
    with contextlib.suppress(httpx.TransportError):
        httpx.post(f"{server.url}/v1/benchmark_jobs/{job_id}/cancel", headers=headers, timeout=30)


def test_a_job_that_is_cancelled_while_it_is_planned_goes_on_when_it_is_resumed(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server, several_callers(server, 1) as (caller,):
        one = scenario(caller, "echo 1")
        jobs = []
        for number in range(20 if SEEDS else 6):
            job = FaultyJob(caller, [one], [{"name": "nop"}], n_attempts=600 if number % 2 else 2)
            jobs.append(job)
            time.sleep(0.005 * number)
            answer = caller.post(f"/v1/benchmark_jobs/{job.id}/cancel")
            assert (answer.status_code, answer.json().get("state")) == (200, "cancelled"), answer.text
            assert "running" not in _run_states(caller, job)
        for job in jobs[::2]:
            assert caller.post(f"/v1/benchmark_jobs/{job.id}/resume").status_code == 200
            job.ended()
            assert [each["score"] for each in job.counting()] == [1.0] * 2
            assert _run_states(caller, job) == {"completed"}
        nothing_is_left(server)
        assert not surprises(server)


def _run_states(caller: Caller, job: FaultyJob) -> set[str]:
    runs = caller.get("/v1/benchmark_runs?limit=100")["runs"]
    return {run["state"] for run in runs if run["metadata"].get("benchyard.job") == job.id}
