"""Jobs, and benchmark runs of the SDK as jobs with one agent, for reports, comparisons and baselines."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from sqlalchemy import Connection, select

from benchyard.engine.jobs.service import Jobs
from benchyard.engine.runs.benchmark_runs import BenchmarkRuns
from benchyard.engine.scenarios.benchmarks import Benchmarks
from benchyard.errors import Conflict
from benchyard.models.jobs import ENDED_JOBS, JOB_KEY, Job
from benchyard.models.pages import Query
from benchyard.models.reports.baselines import is_run
from benchyard.models.results.run_trials import RunTrials, job_of_run
from benchyard.models.runs import BenchmarkRun
from benchyard.models.trials import Trial
from benchyard.store.body_values import BodyPath
from benchyard.store.database import Store
from benchyard.store.tables import TABLES
from benchyard.workers.workers import WorkerLimits, Workers

_MODULE = "benchyard.reports.run_trials"
_LIMITS = WorkerLimits(seconds=300.0, memory_bytes=16 * 1024**3, output_bytes=1024**3)
_IDS_AT_ONCE = 500
_OF_A_JOB = f"metadata.{JOB_KEY}"
_ENDED_RUNS = ["completed", "canceled", "failed"]
_COUNTED_TRIALS = ("completed", "failed", "timeout")
_COUNTED_RUNS = ("scored", "completed", "timeout")
"""States of trials and of scenario runs that may count in a mean."""
_LOOKED_AT = 200
"""Attempts that are read at once in search of one with a score."""
_PIECE_BYTES = 1024**2


class TrialSource(Protocol):
    """Writes what is stored of a job's trials to a file."""

    async def write_trials(self, job_id: str, descriptor: int) -> None:
        """Append all trials of a job, a line of JSON each."""

    async def write_rows(
        self, job_id: str, paths: Sequence[BodyPath], descriptor: int, share: float = 1.0
    ) -> None:
        """Append some values of a job's trials, or of a share of them, as JSON."""


class ReportedJobs:
    """Jobs and benchmark runs by their ids, alike."""

    def __init__(
        self, store: Store, jobs: Jobs, runs: BenchmarkRuns, benchmarks: Benchmarks, workers: Workers
    ) -> None:
        self._store = store
        self._jobs = jobs
        self._runs = runs
        self._benchmarks = benchmarks
        self._workers = workers

    async def get(self, id: str) -> Job:
        """Return the job, or the benchmark run as a job; raises NotFound, or Conflict for a run of a job."""
        return await self._as_job(await self._runs.get(id)) if is_run(id) else await self._jobs.get(id)

    async def exists(self, id: str) -> bool:
        """Tell whether there is such a job or benchmark run."""
        return await (self._runs.records if is_run(id) else self._jobs.records).find(id) is not None

    @contextlib.asynccontextmanager
    async def at_rest(self, id: str) -> AsyncIterator[Job]:
        """Hold what has ended, so that no other request changes or deletes it; raises Conflict."""
        if not is_run(id):
            async with self._jobs.at_rest(id) as job:
                yield job
            return
        async with self._runs.at_rest(id) as run:
            yield await self._as_job(run)

    async def write_trials(self, job_id: str, descriptor: int) -> None:
        """Append all trials to a file, a line of JSON each."""
        if is_run(job_id):
            await self._write_made("make_run_trials", job_id, descriptor, {})
        else:
            await self._jobs.write_trials(job_id, descriptor)

    async def write_rows(
        self, job_id: str, paths: Sequence[BodyPath], descriptor: int, share: float = 1.0
    ) -> None:
        """Append some values of the trials, or of a share of those of a job, to a file as JSON."""
        if is_run(job_id):
            await self._write_made("make_run_rows", job_id, descriptor, {"paths": [list(p) for p in paths]})
        else:
            await self._jobs.write_rows(job_id, paths, descriptor, share)

    async def trials_of(self, job_id: str, ids: Sequence[str]) -> list[Trial]:
        """Return a few trials by their ids; the number of an attempt is not known of those of a run."""
        if not is_run(job_id):
            where = {"parent": job_id, "id": list(ids)}
            query = Query(where=where, limit=max(1, len(ids)), include_total_count=False)
            return (await self._jobs.page(job_id, query)).items
        job = await self.get(job_id)
        made = RunTrials(job, await self._names(job.spec.scenario_ids))
        found = [made.trial(run) for run in await self._runs.scenario_runs_of(job_id, ids)]
        return [each for each in found if each is not None]

    async def newest(self, benchmark_id: str, limit: int) -> list[Job]:
        """Return the last jobs and benchmark runs of a benchmark, newest first."""
        query = Query(limit=limit, where={"parent": benchmark_id}, include_total_count=False)
        jobs = (await self._jobs.records.page(query)).items
        own = Query(
            limit=limit,
            where={"parent": benchmark_id},
            without=(_OF_A_JOB,),
            include_total_count=False,
        )
        runs = [await self._as_job(each) for each in (await self._runs.records.page(own)).items]
        return sorted([*jobs, *runs], key=lambda job: -job.create_time_ms)[:limit]

    async def before(self, job: Job, limit: int) -> list[Job]:
        """Return the last things of the same kind and benchmark that ended and were made before."""
        if job.source.benchmark_id is None:
            return []
        if not is_run(job.id):
            states = [each.value for each in ENDED_JOBS]
            return (await self._jobs.records.page(_last(job, states, limit))).items
        runs = await self._runs.records.page(_last(job, _ENDED_RUNS, limit, without=(_OF_A_JOB,)))
        return [await self._as_job(each) for each in runs.items]

    async def is_scored(self, job: Job, agent: int) -> bool:
        """Tell whether an agent has an attempt that counts in a mean."""
        made = RunTrials(job, {}) if is_run(job.id) else None
        if made is None:
            where = {"parent": job.id, "agent": str(agent), "status": _COUNTED_TRIALS}
        else:
            where = {"parent": job.id, "status": _COUNTED_RUNS}
        query = Query(limit=_LOOKED_AT, where=where, include_total_count=False)
        while True:
            trials: Sequence[Trial | None]
            if made is None:
                of_job = await self._jobs.page(job.id, query)
                trials, ids, has_more = of_job.items, [each.id for each in of_job.items], of_job.has_more
            else:
                runs = await self._runs.scenario_runs(job.id, query)
                trials, ids = [made.trial(each) for each in runs.items], [each.id for each in runs.items]
                has_more = runs.has_more
            if any(each and each.counted_score is not None and not each.is_superseded for each in trials):
                return True
            if not has_more or not ids:
                return False
            query = replace(query, starting_after=ids[-1])

    async def _as_job(self, run: BenchmarkRun) -> Job:
        if job_id := run.metadata.get(JOB_KEY):
            raise Conflict(
                f"benchmark run {run.id} belongs to job {job_id}, whose trials have its results: "
                f"`benchyard job summary {job_id}`"
            )
        benchmark = await self._benchmarks.records.find(run.benchmark_id)
        return job_of_run(run, benchmark.name if benchmark else None)

    async def _write_made(
        self, function: str, id: str, descriptor: int, parameters: Mapping[str, object]
    ) -> None:
        """Append what a worker makes of the scenario runs of a benchmark run to a file."""
        job = await self.get(id)
        runs = os.memfd_create("runs", os.MFD_CLOEXEC)
        try:
            await self._runs.write_bodies(id, runs)
            given = {
                "job": job.model_dump(mode="json"),
                "names": await self._names(job.spec.scenario_ids),
                **parameters,
            }
            made = await self._workers.make_file(f"{_MODULE}:{function}", runs, given, _LIMITS)
        finally:
            os.close(runs)
        try:
            await asyncio.to_thread(_copy, made, descriptor)
        finally:
            os.close(made)

    async def _names(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the names of scenarios that are still there."""
        own = TABLES["scenarios"].c

        def read(connection: Connection) -> dict[str, str]:
            names: dict[str, str] = {}
            for start in range(0, len(ids), _IDS_AT_ONCE):
                query = select(own.id, own.name).where(own.id.in_(ids[start : start + _IDS_AT_ONCE]))
                names |= dict(connection.execute(query).tuples().all())
            return names

        return await self._store.read(read)


def _last(job: Job, states: Sequence[str], limit: int, without: Sequence[str] = ()) -> Query:
    where = {"parent": job.source.benchmark_id or "", "status": states}
    return Query(limit=limit, starting_after=job.id, where=where, without=without, include_total_count=False)


def _copy(source: int, target: int) -> None:
    """Append a file to another."""
    os.lseek(target, 0, os.SEEK_END)
    with open(source, "rb", closefd=False) as file:
        while piece := file.read(_PIECE_BYTES):
            view = memoryview(piece)
            while view:
                view = view[os.write(target, view) :]
