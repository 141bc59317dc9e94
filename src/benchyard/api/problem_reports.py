"""Problems of jobs for routes: read from what is kept of trials, in workers, and remembered."""

import asyncio
import gzip
import json
import logging
import os
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar
from weakref import WeakValueDictionary

from benchyard.api.job_reports import Report
from benchyard.engine.clock import now_ms
from benchyard.engine.engine import Engine
from benchyard.engine.jobs.evidence import EvidenceBatch
from benchyard.errors import BenchyardError, WorkerFailed
from benchyard.models.jobs import ENDED_JOBS, Job
from benchyard.models.pages import Query
from benchyard.models.reports.baselines import is_run
from benchyard.models.reports.problems import (
    BenchmarkProblemsView,
    ProblemJob,
    ProblemPoint,
    ProblemsView,
    ProblemTrend,
)
from benchyard.workers.workers import WorkerLimits, Workers

_log = logging.getLogger(__name__)

T = TypeVar("T")

READING_SECONDS = 15.0
"""Time after which a request answers with what was read; a repeated one goes on with the rest."""
_AT_ONCE = 2
_REMEMBERED = 200
_SETTLED_MS = 60_000
"""Time after the end of a job during which its trials may still be ending."""
TELL_SECONDS = 20.0
"""Pause between looks for ended jobs whose new problems webhooks wait for."""
_RECENT_JOBS = 20
_RECENT_MS = 24 * 3600 * 1000
_DIGESTS = "benchyard.reports.problems.digests"
_REPORT = "benchyard.reports.problems.job_problems:make_problems"
_READING = WorkerLimits(seconds=120.0, memory_bytes=4 * 1024**3, output_bytes=256 * 1024**2)
_COUNTING = WorkerLimits(seconds=300.0, memory_bytes=16 * 1024**3, output_bytes=256 * 1024**2)

Missing = Sequence[tuple[str, str | None]]
"""Ids of trials without findings, each with the id of its run."""


class ProblemReports:
    """Makes the problems of jobs; findings are made once for each trial."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._known: OrderedDict[object, Report] = OrderedDict()
        self._whole: OrderedDict[object, bool] = OrderedDict()
        """Jobs that no longer change and whose trials were all read."""
        self._told: OrderedDict[object, bool] = OrderedDict()
        """Jobs whose new problems webhooks know."""

    async def job(self, engine: Engine, job: Job) -> Report:
        """Return the problems of a job, told apart from those of the last job of its benchmark."""
        deadline = time.monotonic() + READING_SECONDS
        earlier = await engine.reported_jobs.before(job)
        if earlier is None:
            return await self._view(engine, job, deadline, None)
        await self._read(engine, job, deadline)
        previous = _parsed(await self._view(engine, earlier, deadline, None))
        if previous.is_complete:
            return await self._view(engine, job, deadline, previous)
        view = await self._view(engine, job, deadline, None)
        partial = _parsed(view).model_copy(update={"is_complete": False})
        return Report(gzip.compress(partial.model_dump_json(exclude_none=True).encode(), 1, mtime=0))

    async def benchmark(self, engine: Engine, given: str, limit: int) -> BenchmarkProblemsView:
        """Return the prevalence of problems over the last jobs of a benchmark, given by its id or name."""
        deadline = time.monotonic() + READING_SECONDS
        records = engine.benchmarks.records
        benchmark = await records.find_named(given) or await records.get(given)
        jobs = await engine.reported_jobs.newest(benchmark.id, limit)
        views = [_parsed(await self._view(engine, job, deadline, None)) for job in jobs]
        return _over_jobs(benchmark.id, views)

    async def tell_new(self, engine: Engine) -> None:
        """Tell webhooks of the new problems of jobs that ended lately; read only where one wants that."""
        if not engine.webhooks.is_awaited("problem.new"):
            return
        where = {"status": [each.value for each in ENDED_JOBS]}
        query = Query(limit=_RECENT_JOBS, where=where, include_total_count=False)
        for job in (await engine.jobs.records.page(query)).items:
            key = job.id, _version(job)
            if key in self._told or not _is_settled(job) or now_ms() - (job.end_time_ms or 0) > _RECENT_MS:
                continue
            try:
                view = _parsed(await self.job(engine, job))
            except BenchyardError as error:
                _log.warning("problems of job %s cannot be told to webhooks: %s", job.id, error.message)
            else:
                if not view.is_complete:
                    # The next look goes on reading.
                    continue
                names = [each.signal for each in view.problems if each.is_new]
                await engine.webhooks.new_problems(job, names)
            _remember(self._told, key, value=True)

    async def _view(self, engine: Engine, job: Job, deadline: float, previous: ProblemsView | None) -> Report:
        key = (job.id, _version(job), previous and (previous.job_id, previous.n_trials))
        if (known := self._known.get(key)) is not None:
            self._known.move_to_end(key)
            return known
        is_whole = await self._read(engine, job, deadline)
        async with _records(engine, job) as (descriptor, size):
            parameters = {
                "size": size,
                "job": job.model_dump(mode="json"),
                "previous": None if previous is None else previous.model_dump(mode="json"),
            }
            report = Report(await self._workers.call(_REPORT, descriptor, parameters, _COUNTING))
        if is_whole and _is_settled(job):
            _remember(self._known, key, report)
        return report

    async def _read(self, engine: Engine, job: Job, deadline: float) -> bool:
        """Make the findings of trials that have none; return whether that was possible in time."""
        key = job.id, _version(job)
        if key in self._whole:
            return True
        async with self._lock(job.id):
            async with _records(engine, job) as (descriptor, size):
                listed = await self._workers.call(
                    f"{_DIGESTS}:unread_trials", descriptor, {"size": size}, _COUNTING
                )
            missing: Missing = await asyncio.to_thread(json.loads, listed)
            while missing and time.monotonic() < deadline:
                async with self._turns:
                    missing = missing[await self._read_batch(engine, job, missing) :]
        if not missing and _is_settled(job):
            _remember(self._whole, key, value=True)
        return not missing

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


def _version(job: Job) -> object:
    return job.state, job.end_time_ms, job.rescoring_state, job.rescoring and job.rescoring.number, job.name


def _is_settled(job: Job) -> bool:
    is_over = job.state in ENDED_JOBS and job.rescoring_state != "running" and not is_run(job.id)
    return is_over and job.end_time_ms is not None and now_ms() - job.end_time_ms > _SETTLED_MS


def _remember(known: OrderedDict[object, T], key: object, value: T) -> None:
    known[key] = value
    while len(known) > _REMEMBERED:
        known.popitem(last=False)


def _parsed(report: Report) -> ProblemsView:
    return ProblemsView.model_validate_json(report.text)


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
