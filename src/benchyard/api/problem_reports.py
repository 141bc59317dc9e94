"""Problems of jobs for routes: read from what is kept of trials, in workers, and remembered."""

import asyncio
import json
import logging
import os
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from weakref import WeakValueDictionary

from benchyard.api.job_reports import is_settled
from benchyard.api.report_cache import Report, ReportCache
from benchyard.engine.engine import Engine
from benchyard.engine.jobs.evidence import EvidenceBatch
from benchyard.errors import BenchyardError, WorkerFailed
from benchyard.models.jobs import Job
from benchyard.models.reports.problems import (
    BenchmarkProblemsView,
    ProblemJob,
    ProblemPoint,
    ProblemsView,
    ProblemTrend,
)
from benchyard.workers.workers import WorkerLimits, Workers

_log = logging.getLogger(__name__)

READING_SECONDS = 15.0
"""Time after which a request answers with what was read; a repeated one goes on with the rest."""
_AT_ONCE = 2
_LISTED_AT_ONCE = 10_000
"""Trials without findings that are listed at once: more would be long to parse."""
_MOST_READINGS = 200
_MOST_LISTED = 100_000
"""Trials without findings that are kept in lists of all jobs."""
_LISTING_PAUSE = 10.0
"""The trials of a running job are listed again after so many times the duration of that, at the earliest."""
_LEAST_PAUSE = 0.5
_MOST_EARLIER = 10
"""Earlier jobs that are looked at in search of one with trials."""
TELL_SECONDS = 20.0
"""Pause between looks for ended jobs whose new problems webhooks wait for."""
_DIGESTS = "benchyard.reports.problems.digests"
_REPORT = "benchyard.reports.problems.job_problems:make_problems"
_READING = WorkerLimits(seconds=120.0, memory_bytes=4 * 1024**3, output_bytes=256 * 1024**2)
_COUNTING = WorkerLimits(seconds=300.0, memory_bytes=16 * 1024**3, output_bytes=256 * 1024**2)

Missing = Sequence[tuple[str, str | None]]
"""Ids of trials without findings, each with the id of its run."""


@dataclass
class _Reading:
    """Trials of a job that are left to read."""

    version: object
    is_settled: bool
    """True if no further trials could end when they were listed."""
    missing: Missing
    is_cut: bool
    """True if there are more than were listed."""
    stale_after: float
    """Time after which a running job may have so many more that it is worth a look."""

    def must_list(self, job: Job) -> bool:
        """Tell whether the trials without findings have to be listed again."""
        if self.version != _results_version(job):
            return True
        if self.missing:
            return False
        return self.is_cut or (
            not self.is_settled and (is_settled(job) or time.monotonic() > self.stale_after)
        )


class ProblemReports:
    """Makes the problems of jobs; findings are made once for each trial."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._cache = ReportCache()
        self._readings: OrderedDict[str, _Reading] = OrderedDict()

    async def job(self, engine: Engine, job: Job) -> Report:
        """Return the problems of a job, told apart from those of the last job of its benchmark."""
        deadline = time.monotonic() + READING_SECONDS
        is_whole = await self._read(engine, job, deadline)
        earlier, previous = await self._previous(engine, job, deadline)
        if earlier is None or previous is None:
            return await self._view(engine, job, is_complete=is_whole)
        if not previous.is_complete:
            return await self._view(engine, job, is_complete=False)
        return await self._view(engine, job, (earlier, previous), is_complete=is_whole)

    async def benchmark(self, engine: Engine, given: str, limit: int) -> BenchmarkProblemsView:
        """Return the prevalence of problems over the last jobs of a benchmark, given by its id or name."""
        deadline = time.monotonic() + READING_SECONDS
        records = engine.benchmarks.records
        benchmark = await records.find_named(given) or await records.get(given)
        jobs = await engine.reported_jobs.newest(benchmark.id, limit)
        views = [await self._alone(engine, job, deadline) for job in jobs]
        return _over_jobs(benchmark.id, views)

    async def tell_new(self, engine: Engine) -> None:
        """Tell webhooks of the new problems of jobs that ended lately; read only where one wants that."""
        if not engine.webhooks.is_awaited("problem.new"):
            return
        ends = engine.webhooks.recent_ends
        for id in await ends.ids():
            job = await engine.jobs.records.find(id)
            if job is not None and not is_settled(job):
                continue
            if job is None or await self._tell(engine, job):
                ends.forget(id)

    async def _tell(self, engine: Engine, job: Job) -> bool:
        """Tell webhooks of the new problems of a job; return False if there is more to read before."""
        try:
            view = await _parsed(await self.job(engine, job))
        except BenchyardError as error:
            _log.warning("problems of job %s cannot be told to webhooks: %s", job.id, error.message)
            return True
        if view.is_complete:
            await engine.webhooks.new_problems(job, [each.signal for each in view.problems if each.is_new])
        return view.is_complete

    async def _previous(
        self, engine: Engine, job: Job, deadline: float
    ) -> tuple[Job, ProblemsView] | tuple[None, None]:
        """Return the last job of the same benchmark that was created before and has ended, with its problems.

        One without a trial that ended tells nothing, and is passed over.
        """
        for earlier in await engine.reported_jobs.before(job, _MOST_EARLIER):
            view = await self._alone(engine, earlier, deadline)
            if view.n_read or not view.is_complete:
                return earlier, view
        return None, None

    async def _alone(self, engine: Engine, job: Job, deadline: float) -> ProblemsView:
        """Return the problems of a job, compared with no other."""
        is_whole = await self._read(engine, job, deadline)
        return await _parsed(await self._view(engine, job, is_complete=is_whole))

    async def _view(
        self, engine: Engine, job: Job, earlier: tuple[Job, ProblemsView] | None = None, *, is_complete: bool
    ) -> Report:
        """Return the problems of the trials that were read; while there are more, it may be a moment old."""

        async def make() -> Report:
            async with _records(engine, job) as (descriptor, size):
                parameters = {
                    "size": size,
                    "job": job.model_dump(mode="json"),
                    "previous": None if earlier is None else earlier[1].model_dump(mode="json"),
                    "is_complete": is_complete,
                }
                return Report(await self._workers.call(_REPORT, descriptor, parameters, _COUNTING))

        compared = earlier and (earlier[0].id, _results_version(earlier[0]))
        key = (job.id, _results_version(job), job.name, compared, is_complete)
        return await self._cache.get(key, make, is_settled=is_complete and is_settled(job))

    async def _read(self, engine: Engine, job: Job, deadline: float) -> bool:
        """Make the findings of trials that have none; return whether that was possible in time."""
        async with self._lock(job.id):
            while True:
                reading = self._readings.get(job.id)
                if reading is None or reading.must_list(job):
                    reading = await self._listed(engine, job)
                while reading.missing and time.monotonic() < deadline:
                    async with self._turns:
                        count = await self._read_batch(engine, job, reading.missing)
                    reading.missing = reading.missing[count:]
                if reading.missing or not reading.is_cut:
                    return not reading.missing
                if time.monotonic() >= deadline:
                    return False

    async def _listed(self, engine: Engine, job: Job) -> _Reading:
        """List the trials that have no findings."""
        begin, settled = time.monotonic(), is_settled(job)
        async with _records(engine, job) as (descriptor, size):
            parameters = {"size": size, "most": _LISTED_AT_ONCE}
            listed = await self._workers.call(f"{_DIGESTS}:unread_trials", descriptor, parameters, _COUNTING)
        missing: Missing = await asyncio.to_thread(json.loads, listed)
        now = time.monotonic()
        reading = _Reading(
            version=_results_version(job),
            is_settled=settled,
            missing=missing,
            is_cut=len(missing) >= _LISTED_AT_ONCE,
            stale_after=now + max(_LEAST_PAUSE, _LISTING_PAUSE * (now - begin)),
        )
        self._readings[job.id] = reading
        self._readings.move_to_end(job.id)
        kept = sum(len(each.missing) for each in self._readings.values())
        while len(self._readings) > 1 and (len(self._readings) > _MOST_READINGS or kept > _MOST_LISTED):
            _, dropped = self._readings.popitem(last=False)
            kept -= len(dropped.missing)
        return reading

    async def _read_batch(self, engine: Engine, job: Job, missing: Missing) -> int:
        descriptor = os.memfd_create("evidence", os.MFD_CLOEXEC)
        batch = EvidenceBatch(descriptor)
        try:
            count = await engine.evidence.write(job.id, missing, batch)
            if batch.items:
                await engine.evidence.append(job.id, await self._findings(batch))
        except WorkerFailed as error:
            if count > 1:
                # One of them took too much; the others are read alone.
                for one in missing[:count]:
                    await self._read_batch(engine, job, [one])
            else:
                await engine.evidence.append(job.id, await self._unread(batch, error))
        finally:
            os.close(descriptor)
        return count

    async def _findings(self, batch: EvidenceBatch) -> bytes:
        found: bytes = await self._workers.call(
            f"{_DIGESTS}:make_findings", batch.descriptor, {"items": batch.items}, _READING
        )
        return found

    async def _unread(self, batch: EvidenceBatch, error: WorkerFailed) -> bytes:
        """Return the findings of a trial whose trajectory and calls cannot be read."""
        items = [
            {**each, "trajectory": None, "calls": None, "unread": error.message[:200]} for each in batch.items
        ]
        return await self._findings(EvidenceBatch(batch.descriptor, items))

    @asynccontextmanager
    async def _lock(self, job_id: str) -> AsyncIterator[None]:
        lock = self._locks.setdefault(job_id, asyncio.Lock())
        async with lock:
            yield


@asynccontextmanager
async def _records(engine: Engine, job: Job) -> AsyncIterator[tuple[int, int]]:
    """Yield a file with the trials of a job and then its findings, and the size of the trials."""
    descriptor = os.memfd_create("trials", os.MFD_CLOEXEC)
    try:
        await engine.reported_jobs.write_trials(job.id, descriptor)
        size = os.fstat(descriptor).st_size
        os.lseek(descriptor, 0, os.SEEK_END)
        await engine.evidence.copy(job.id, descriptor)
        yield descriptor, size
    finally:
        os.close(descriptor)


def _results_version(job: Job) -> object:
    """Return a value that changes when the results of an ended job do."""
    return (
        job.state,
        job.end_time_ms,
        len(job.pauses),
        job.rescoring_state,
        job.rescoring and job.rescoring.number,
    )


async def _parsed(report: Report) -> ProblemsView:
    return await asyncio.to_thread(lambda: ProblemsView.model_validate_json(report.text))


def _over_jobs(benchmark_id: str, views: Sequence[ProblemsView]) -> BenchmarkProblemsView:
    counts = {view.job_id: {each.signal: each for each in view.problems} for view in views}
    told = {each.signal: each for view in reversed(views) for each in view.problems}
    trends = []
    for signal, latest in told.items():
        points = [
            ProblemPoint(
                job_id=view.job_id,
                n_found=found.n_found if (found := counts[view.job_id].get(signal)) else 0,
                n_known=view.known[signal],
            )
            for view in views
            if signal in view.known
        ]
        trends.append(ProblemTrend(signal=signal, summary=latest.summary, helps=latest.helps, jobs=points))
    return BenchmarkProblemsView(
        benchmark_id=benchmark_id,
        jobs=[ProblemJob.model_validate(view, from_attributes=True) for view in views],
        problems=sorted(trends, key=lambda each: -sum(point.n_found for point in each.jobs)),
    )
