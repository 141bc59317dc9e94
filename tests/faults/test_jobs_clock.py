"""The clock of the machine jumps by days while a job runs: nobody is too late, and nothing waits for days."""

import time
from pathlib import Path

import pytest

from tests.faults.caller import several_callers
from tests.faults.clock import Clock
from tests.faults.jobs import FaultyJob, Follower, counting, nothing_is_left, scenario
from tests.faults.test_jobs_losses import kill_devbox
from tests.faults.workload import surprises

DAY = 24 * 3600
BEATS_SECONDS = 2.5
"""So long that everything which looks at the clock has looked."""


@pytest.mark.parametrize("days", [(2, -2), (-2, 2)])
def test_a_job_does_not_go_by_a_clock_that_jumps(tmp_path: Path, days: tuple[int, int]) -> None:
    clock = Clock(tmp_path)
    with clock.server(tmp_path / "data") as server, several_callers(server, 1) as (caller,):
        agents = [counting(8, timeout_seconds=600)]
        job = FaultyJob(caller, [scenario(caller)], agents, n_attempts=3, deadline_seconds=3000)
        follower = Follower(server, job.id)
        follower.start()
        *kept, lost = job.at_work(3)
        clock.set(days[0] * DAY)
        kill_devbox(server, lost["devbox_id"])
        time.sleep(BEATS_SECONDS)
        clock.set(days[1] * DAY)
        time.sleep(BEATS_SECONDS)
        _is_whole(job, retries=1)
        assert {each["id"] for each in job.counting()} > {each["id"] for each in kept}
        assert follower.told()
        times = [event["time_ms"] for event in follower.events]
        assert max(times) - min(times) > DAY * 1000, "the clock of the server did not jump"
        nothing_is_left(server)
        assert not surprises(server)


def test_a_clock_that_was_set_back_while_the_server_was_away_stops_nothing(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    with clock.server(tmp_path / "data") as server, several_callers(server, 1) as (caller,):
        job = FaultyJob(caller, [scenario(caller)], [counting(6)], n_attempts=3, deadline_seconds=3000)
        job.at_work(3)
        server.kill()
        clock.set(-2 * DAY)
        server.start()
        _is_whole(job, retries=0)
        nothing_is_left(server)
        assert not surprises(server)


def _is_whole(job: FaultyJob, retries: int) -> None:
    view = job.ended()
    trials = job.trials()
    counting = job.counting()
    assert [(each["state"], each["score"]) for each in counting] == [("completed", 1.0)] * 3, trials
    assert len(trials) == 3 + retries, trials
    for trial in trials:
        assert trial["end_time_ms"] >= trial["start_time_ms"], trial
        assert trial["duration_ms"] >= 0, trial
        assert all(stage["end_ms"] >= stage["start_ms"] for stage in trial["stages"]), trial
    assert view["end_time_ms"] >= view["start_time_ms"], view
    assert all(outcome["duration_ms"] >= 0 for outcome in view["benchmark_outcomes"]), view
