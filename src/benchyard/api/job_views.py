"""Short views of jobs for lists: the outcomes of an ended job are counted once and cached."""

from collections import OrderedDict

from benchyard.engine.clock import now_ms
from benchyard.engine.jobs.service import Jobs
from benchyard.models.jobs import ENDED_JOBS, BenchmarkJobView, Job
from benchyard.reports.outcomes import job_view

_REMEMBERED = 200
_SETTLED_MS = 60_000
"""Time after the end of a job during which its trials may still be ending."""


class JobViews:
    """Cache of the short views of jobs, for those that no longer change."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[object, BenchmarkJobView]] = OrderedDict()

    async def short(self, jobs: Jobs, job: Job) -> BenchmarkJobView:
        """Return a job with its outcomes, without their scenarios."""
        known = self._known.get(job.id)
        if known is not None and known[0] == _version(job):
            self._known.move_to_end(job.id)
            return known[1]
        view = job_view(job, await jobs.trials(job), with_scenarios=False)
        if _is_settled(job):
            self._known[job.id] = (_version(job), view)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return view


def _version(job: Job) -> object:
    """Return a value that changes when an ended job does: by a retry, a rescoring, another name."""
    scored = job.rescoring_state, job.rescoring and job.rescoring.number
    return job.state, job.end_time_ms, scored, job.name, job.is_pinned


def _is_settled(job: Job) -> bool:
    is_over = job.state in ENDED_JOBS and job.rescoring_state != "running"
    return is_over and job.end_time_ms is not None and now_ms() - job.end_time_ms > _SETTLED_MS
