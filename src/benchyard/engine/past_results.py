"""Results of many jobs and runs, written for the reports that are made of them in workers."""

from dataclasses import dataclass

from sqlalchemy import func, select

from benchyard.models.jobs import ENDED_JOBS, Job
from benchyard.models.reports.past_rows import GROUP_PATHS, JOB_PATHS, RUN_PATHS, TRIAL_PATHS
from benchyard.models.runs import BenchmarkRun, ScenarioRun
from benchyard.models.trials import Trial
from benchyard.store.database import Store
from benchyard.store.tables import TABLES

MOST_JOBS = 500
MOST_ATTEMPTS = 200_000
"""Attempts that one report reads; older jobs are left out beyond it."""
_ENDED = [ended_job.value for ended_job in ENDED_JOBS]
_ENDED_GROUPS = ["completed", "canceled", "failed"]


@dataclass(frozen=True)
class _Chosen:
    ids: list[str]
    n_left_out: int


class PastResults:
    """Writes four lines of JSON: rows of jobs, benchmark runs, trials and scenario runs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._jobs = store.collection("benchmark_jobs", Job)
        self._groups = store.collection("benchmark_runs", BenchmarkRun)
        self._trials = store.collection("trials", Trial)
        self._runs = store.collection("scenario_runs", ScenarioRun)

    async def write_benchmark(self, benchmark_id: str, descriptor: int) -> int:
        """Write the ended results on a benchmark; returns the number of older jobs and runs left out."""
        jobs = await self._newest("benchmark_jobs", "trials", benchmark_id, _ENDED)
        groups = await self._newest("benchmark_runs", "scenario_runs", benchmark_id, _ENDED_GROUPS)
        await self._jobs.write_rows({"id": jobs.ids}, JOB_PATHS, descriptor)
        await self._groups.write_rows({"id": groups.ids}, GROUP_PATHS, descriptor)
        await self._trials.write_rows({"parent": jobs.ids}, TRIAL_PATHS, descriptor)
        await self._runs.write_rows({"parent": groups.ids}, RUN_PATHS, descriptor)
        return jobs.n_left_out

    async def write_scenario(self, scenario_id: str, descriptor: int) -> None:
        """Write the ended results at a scenario."""
        await self._jobs.write_rows({"status": _ENDED}, JOB_PATHS, descriptor)
        await self._groups.write_rows({"status": _ENDED_GROUPS}, GROUP_PATHS, descriptor)
        await self._trials.write_rows({"scenario_id": scenario_id}, TRIAL_PATHS, descriptor)
        await self._runs.write_rows({"scenario_id": scenario_id}, RUN_PATHS, descriptor)

    async def _newest(self, table: str, children: str, benchmark_id: str, states: list[str]) -> _Chosen:
        """Return the newest records of a benchmark, as many as have no more children than may be read."""
        own, child = TABLES[table].c, TABLES[children].c
        query = (
            select(own.id).where(own.parent == benchmark_id, own.status.in_(states)).order_by(own.seq.desc())
        )
        ids = await self._store.read(lambda connection: list(connection.execute(query).scalars()))
        newest = ids[:MOST_JOBS]
        count = select(child.parent, func.count()).where(child.parent.in_(newest)).group_by(child.parent)
        sizes: dict[str, int] = await self._store.read(
            lambda connection: dict(connection.execute(count).tuples().all())
        )
        chosen: list[str] = []
        total = 0
        for id in newest:
            total += sizes.get(id, 0)
            if total > MOST_ATTEMPTS and chosen:
                break
            chosen.append(id)
        return _Chosen(chosen, len(ids) - len(chosen))
