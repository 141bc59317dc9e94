"""Times of a job by activity: working, preparing, waiting, idle."""

from collections.abc import Iterable, Sequence

from benchyard.models.jobs import Job, JobTimes
from benchyard.models.trials import Trial

Interval = tuple[int, int]
"""Begin and end, in milliseconds."""


def job_times(job: Job, trials: Sequence[Trial], now_ms: int) -> JobTimes:
    """Divide the time from the job's creation to its end, or to now, among four activities."""
    end = job.end_time_ms or now_ms
    whole = merge_intervals([(job.create_time_ms, end)])
    working = merge_intervals(_clip((_work(trial, end) for trial in trials if trial.start_time_ms), whole))
    installs = [
        (preparation.start_time_ms, preparation.end_time_ms or end) for preparation in job.preparations
    ]
    builds = [_preparation(trial) for trial in trials if trial.start_time_ms and trial.preparing_ms]
    preparing = merge_intervals(_clip([*installs, *builds], whole))
    pauses = merge_intervals(_clip(((pause.start_time_ms, pause.end_time_ms) for pause in job.pauses), whole))
    busy = merge_intervals([*working, *preparing])
    gone = merge_intervals([*busy, *pauses])
    return JobTimes(
        working_ms=total_length(working),
        preparing_ms=total_length(busy) - total_length(working),
        idle_ms=total_length(gone) - total_length(busy),
        waiting_ms=total_length(whole) - total_length(gone),
    )


def working_ms(trials: Iterable[Trial]) -> int | None:
    """Return the time in which at least one of these ended trials was at work; None without any."""
    known = [trial for trial in trials if trial.start_time_ms is not None and trial.end_time_ms is not None]
    return (
        total_length(merge_intervals(_work(interval, interval.end_time_ms or 0) for interval in known))
        if known
        else None
    )


def merge_intervals(intervals: Iterable[Interval]) -> list[Interval]:
    """Return intervals that cover the same moments without overlaps, in order."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        elif end > start:
            merged.append((start, end))
    return merged


def total_length(intervals: Iterable[Interval]) -> int:
    """Return the total length of intervals that do not overlap."""
    return sum(end - start for start, end in intervals)


def _work(trial: Trial, end: int) -> Interval:
    start = (trial.start_time_ms or 0) + trial.preparing_ms
    return start, max(start, trial.end_time_ms or end)


def _preparation(trial: Trial) -> Interval:
    start = trial.start_time_ms or 0
    return start, start + trial.preparing_ms


def _clip(intervals: Iterable[Interval], whole: Sequence[Interval]) -> list[Interval]:
    """Return the parts of the intervals inside the whole; adjusted clocks may put some outside of it."""
    if not whole:
        return []
    first, last = whole[0]
    return [(max(first, start), min(last, end)) for start, end in intervals]
