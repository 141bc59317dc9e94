"""Views and comparisons of jobs for routes: of large jobs made in workers, of ended ones remembered."""

import gzip
import hashlib
import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from benchyard.engine.clock import now_ms
from benchyard.engine.jobs.service import Jobs
from benchyard.models.jobs import ENDED_JOBS, BenchmarkJobView, Job
from benchyard.models.trials import SuspectRule
from benchyard.reports.outcomes import job_view
from benchyard.workers.workers import WorkerLimits, Workers

SMALL_JOB = 200
"""Number of trials up to which a job is counted on the event loop, within a few milliseconds."""
_LIMITS = WorkerLimits(seconds=300.0, memory_bytes=16 * 1024**3, output_bytes=1024**3)
_REMEMBERED_BYTES = 64 * 1024**2
_SETTLED_MS = 60_000
"""Time after the end of a job during which its trials may still be ending."""
_MODULE = "benchyard.reports.job_reports"


@dataclass(frozen=True)
class Report:
    """A report as compressed JSON."""

    packed: bytes

    @property
    def text(self) -> bytes:
        """Return the JSON."""
        return gzip.decompress(self.packed)

    @property
    def tag(self) -> str:
        """Return the entity tag of its content."""
        return f'"{hashlib.sha256(self.packed).hexdigest()[:32]}"'

    def respond(self, request: Request) -> Response:
        """Return it as an answer: compressed where the client takes that, or as not modified."""
        headers = {"etag": self.tag, "vary": "accept-encoding", "cache-control": "no-cache"}
        if self.tag in [each.strip() for each in request.headers.get("if-none-match", "").split(",")]:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            return Response(self.packed, media_type="application/json", headers=headers)
        return Response(self.text, media_type="application/json", headers=headers)


class JobReports:
    """Makes the views of jobs, and remembers those of jobs that no longer change."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._known: OrderedDict[object, Report] = OrderedDict()
        self._size = 0

    async def short(self, jobs: Jobs, job: Job) -> BenchmarkJobView:
        """Return a job with its outcomes, without their scenarios."""
        report = await self.view(jobs, job, with_scenarios=False)
        return BenchmarkJobView.model_validate_json(report.text)

    async def view(
        self, jobs: Jobs, job: Job, *, with_scenarios: bool, suspect: SuspectRule | None = None
    ) -> Report:
        """Return a job with its outcomes."""
        key = (job.id, _version(job), with_scenarios, suspect)
        if (known := self._known.get(key)) is not None:
            self._known.move_to_end(key)
            return known
        report = Report(await self._made(jobs, job, suspect, with_scenarios=with_scenarios))
        if _is_settled(job):
            self._remember(key, report)
        return report

    async def compare(
        self,
        jobs: Jobs,
        sides: Sequence[tuple[Job, int]],
        suspect: SuspectRule | None,
        clusters: Mapping[str, str] | None,
        cluster_key: str | None,
        margin: float = 0.0,
    ) -> Report:
        """Compare the second of two agents with the first."""
        compared = {job.id: job for job, _ in sides}
        parameters = {
            "jobs": [job.model_dump(mode="json") for job, _ in sides],
            "agents": [agent for _, agent in sides],
            "suspect": suspect,
            "clusters": clusters,
            "cluster_key": cluster_key,
            "margin": margin,
        }
        return Report(await self._work("make_comparison", jobs, list(compared.values()), parameters))

    async def _made(
        self, jobs: Jobs, job: Job, suspect: SuspectRule | None, *, with_scenarios: bool
    ) -> bytes:
        if job.n_trials <= SMALL_JOB:
            view = job_view(job, await jobs.trials(job), with_scenarios=with_scenarios, suspect=suspect)
            return gzip.compress(view.model_dump_json(exclude_none=True, by_alias=True).encode(), 1, mtime=0)
        parameters = {
            "job": job.model_dump(mode="json"),
            "suspect": suspect,
            "with_scenarios": with_scenarios,
        }
        return await self._work("make_job_view", jobs, [job], parameters)

    async def _work(
        self, function: str, jobs: Jobs, wanted: Sequence[Job], parameters: Mapping[str, object]
    ) -> bytes:
        """Have a report made in a worker, of the stored trials of some jobs."""
        descriptor = os.memfd_create("trials", os.MFD_CLOEXEC)
        try:
            for job in wanted:
                await jobs.write_trials(job.id, descriptor)
            made: bytes = await self._workers.call(f"{_MODULE}:{function}", descriptor, parameters, _LIMITS)
            return made
        finally:
            os.close(descriptor)

    def _remember(self, key: object, report: Report) -> None:
        self._known[key] = report
        self._size += len(report.packed)
        while self._size > _REMEMBERED_BYTES:
            _, dropped = self._known.popitem(last=False)
            self._size -= len(dropped.packed)


def _version(job: Job) -> object:
    """Return a value that changes when an ended job does: by a retry, a rescoring, another name, a note."""
    scored = job.rescoring_state, job.rescoring and job.rescoring.number
    return job.state, job.end_time_ms, scored, job.name, job.is_pinned, tuple(job.tags), job.note


def _is_settled(job: Job) -> bool:
    is_over = job.state in ENDED_JOBS and job.rescoring_state != "running"
    return is_over and job.end_time_ms is not None and now_ms() - job.end_time_ms > _SETTLED_MS
