"""Where the time of a job went: working, preparing, waiting, idle."""

from collections.abc import Iterable, Sequence

from benchyard.models.jobs import Job, JobTimes
from benchyard.models.trials import Trial

Interval = tuple[int, int]
"""From, and to: in milliseconds."""


def job_times(job: Job, trials: Sequence[Trial], now_ms: int) -> JobTimes:
    """Every moment from the job's making to its end, or to now, under one of four heads."""
    end = job.end_time_ms or now_ms
    whole = merge_intervals([(job.create_time_ms, end)])
    working = merge_intervals(_clip((_work(each, end) for each in trials if each.start_time_ms), whole))
    installs = [(each.start_time_ms, each.end_time_ms or end) for each in job.preparations]
    builds = [_preparation(each) for each in trials if each.start_time_ms and each.preparing_ms]
    preparing = merge_intervals(_clip([*installs, *builds], whole))
    pauses = merge_intervals(_clip(((each.start_time_ms, each.end_time_ms) for each in job.pauses), whole))
    busy = merge_intervals([*working, *preparing])
    gone = merge_intervals([*busy, *pauses])
    return JobTimes(
        working_ms=total_length(working),
        preparing_ms=total_length(busy) - total_length(working),
        idle_ms=total_length(gone) - total_length(busy),
        waiting_ms=total_length(whole) - total_length(gone),
    )


def working_ms(trials: Iterable[Trial]) -> int | None:
    """How long at least one of these trials, of those that have ended, was at work; None if none was."""
    known = [each for each in trials if each.start_time_ms is not None and each.end_time_ms is not None]
    return (
        total_length(merge_intervals(_work(each, each.end_time_ms or 0) for each in known)) if known else None
    )


def merge_intervals(intervals: Iterable[Interval]) -> list[Interval]:
    """The same moments as intervals that do not overlap, in their order."""
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        elif end > start:
            found.append((start, end))
    return found


def total_length(intervals: Iterable[Interval]) -> int:
    """How long intervals that do not overlap are together."""
    return sum(end - start for start, end in intervals)


def _work(trial: Trial, end: int) -> Interval:
    start = (trial.start_time_ms or 0) + trial.preparing_ms
    return start, max(start, trial.end_time_ms or end)


def _preparation(trial: Trial) -> Interval:
    start = trial.start_time_ms or 0
    return start, start + trial.preparing_ms


def _clip(intervals: Iterable[Interval], whole: Sequence[Interval]) -> list[Interval]:
    """What of the intervals lies in the whole: clocks that were set may put some outside of it."""
    if not whole:
        return []
    first, last = whole[0]
    return [(max(first, start), min(last, end)) for start, end in intervals]
