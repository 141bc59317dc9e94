"""Times of a job by stage."""

from benchyard.models.jobs import Pause, Preparation
from benchyard.reports.outcomes import outcomes
from benchyard.reports.times import job_times, merge_intervals
from tests.reports.scenes import job, trial


def test_every_moment_counts_once() -> None:
    made = job().model_copy(
        update={
            "create_time_ms": 0,
            "end_time_ms": 4_000_000,
            "preparations": [Preparation(name="a", start_time_ms=1000, end_time_ms=38_000)],
            "pauses": [Pause(start_time_ms=45_000, end_time_ms=3_900_000)],
        }
    )
    trials = [
        trial(0.0, start_time_ms=40_000, end_time_ms=44_000, is_superseded=True),
        trial(0.0, attempt=2, start_time_ms=41_000, end_time_ms=45_000),
        trial(1.0, retry=1, start_time_ms=3_900_500, end_time_ms=4_000_000, preparing_ms=90_000),
    ]
    times = job_times(made, trials, now_ms=9_000_000)
    assert times.working_ms == 5000 + 9500
    assert times.preparing_ms == 37_000 + 90_000
    assert times.idle_ms == 3_855_000
    assert times.waiting_ms == 1000 + 2000 + 500
    whole = times.working_ms + times.preparing_ms + times.idle_ms + times.waiting_ms
    assert whole == 4_000_000
    (agent,) = outcomes(made, trials, with_scenarios=True)
    assert agent.duration_ms == times.working_ms
    (row,) = agent.scenario_outcomes
    assert (row.duration_ms, row.working_ms) == (4000 + 99_500, 4000 + 9500)


def test_a_job_that_goes_on_is_counted_up_to_now() -> None:
    made = job().model_copy(
        update={"create_time_ms": 1000, "preparations": [Preparation(name="a", start_time_ms=2000)]}
    )
    assert job_times(made, [], now_ms=9000).model_dump() == {
        "working_ms": 0,
        "preparing_ms": 7000,
        "waiting_ms": 1000,
        "idle_ms": 0,
    }
    # A clock that was set back makes nothing negative.
    assert sum(job_times(made, [], now_ms=500).model_dump().values()) == 0


def test_intervals_are_merged() -> None:
    assert merge_intervals([(5, 6), (1, 3), (2, 4), (4, 5), (8, 8), (9, 7)]) == [(1, 6)]
