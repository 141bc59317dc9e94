"""Results of many jobs and runs, written for the reports that are made of them in workers."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Select, func, or_, select

from benchyard.models.base import Record
from benchyard.models.jobs import ENDED_JOBS, JOB_KEY, Job
from benchyard.models.pages import Where
from benchyard.models.reports.past_rows import GROUP_PATHS, JOB_PATHS, RUN_PATHS, TRIAL_PATHS
from benchyard.models.runs import BenchmarkRun, ScenarioRun
from benchyard.models.trials import Trial
from benchyard.store.body_values import BodyPath
from benchyard.store.collection import Collection
from benchyard.store.database import Store
from benchyard.store.json_columns import body_field, metadata_value
from benchyard.store.tables import TABLES, TRIAL_FACTS

MOST_JOBS = 500
MOST_ATTEMPTS = 200_000
"""Attempts that one report reads; older jobs are left out beyond it."""
_ENDED = [ended_job.value for ended_job in ENDED_JOBS]
_ENDED_GROUPS = ["completed", "canceled", "failed"]
_ENDED_RUNS = ["scored", "completed", "canceled", "timeout", "failed"]
_IDS_AT_ONCE = 5_000

R = TypeVar("R", bound=Record)


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

    async def write_scenario(self, scenario_id: str, descriptor: int) -> int:
        """Write what has ended at a scenario; returns the number of older attempts left out."""
        own = TRIAL_FACTS.c
        ended = (own.scenario_id == scenario_id, own.outcome.is_not(None))
        newest = select(own.id, own.job_id).where(*ended).order_by(own.seq.desc()).limit(MOST_ATTEMPTS)
        rows = await self._store.read(lambda connection: list(connection.execute(newest)))
        n_trials = await self._number(select(func.count()).select_from(TRIAL_FACTS).where(*ended))
        runs, groups = await self._sdk_runs(scenario_id)
        jobs = list(dict.fromkeys(job_id for _, job_id in rows))
        await _write_parts(self._jobs, jobs, JOB_PATHS, descriptor, {"status": _ENDED})
        await _write_parts(self._groups, groups, GROUP_PATHS, descriptor, {"status": _ENDED_GROUPS})
        await _write_parts(self._trials, [id for id, _ in rows], TRIAL_PATHS, descriptor)
        await _write_parts(self._runs, runs, RUN_PATHS, descriptor)
        return n_trials - len(rows)

    async def _sdk_runs(self, scenario_id: str) -> tuple[list[str], list[str]]:
        """Return the newest runs of a scenario that no job made, and their benchmark runs."""
        own, group = TABLES["scenario_runs"].c, TABLES["benchmark_runs"].c
        of_jobs = select(group.id).where(metadata_value(group.body, JOB_KEY).is_not(None))
        chosen = (
            select(own.id, own.parent)
            .where(
                own.status.in_(_ENDED_RUNS),
                or_(own.parent.is_(None), own.parent.not_in(of_jobs)),
                body_field(own.body, "scenario_id") == scenario_id,
            )
            .order_by(own.seq.desc())
            .limit(MOST_ATTEMPTS)
        )
        rows = await self._store.read(lambda connection: list(connection.execute(chosen)))
        return [id for id, _ in rows], list(dict.fromkeys(parent for _, parent in rows if parent))

    async def version(self, benchmark_id: str) -> object:
        """Return a value that changes when a job or a run on a benchmark ends: no record is read for it."""
        job, group = TABLES["benchmark_jobs"].c, TABLES["benchmark_runs"].c
        jobs = select(func.count()).where(job.parent == benchmark_id, job.status.in_(_ENDED))
        groups = select(func.count()).where(group.parent == benchmark_id, group.status.in_(_ENDED_GROUPS))
        return await self._number(jobs), await self._number(groups)

    async def _number(self, query: Select[int]) -> int:
        return await self._store.read(lambda connection: connection.execute(query).scalar_one())

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
            lambda connection: {row[0]: row[1] for row in connection.execute(count)}
        )
        chosen: list[str] = []
        total = 0
        for id in newest:
            total += sizes.get(id, 0)
            if total > MOST_ATTEMPTS and chosen:
                break
            chosen.append(id)
        return _Chosen(chosen, len(ids) - len(chosen))


async def _write_parts(
    records: Collection[R],
    ids: Sequence[str],
    paths: Sequence[BodyPath],
    descriptor: int,
    where: Where | None = None,
) -> None:
    """Append values of many records as one line: a statement takes only so many ids."""
    part = os.memfd_create("part", os.MFD_CLOEXEC)
    try:
        for start in range(0, len(ids), _IDS_AT_ONCE):
            chosen = {**(where or {}), "id": ids[start : start + _IDS_AT_ONCE]}
            await records.write_rows(chosen, paths, part)
        await asyncio.to_thread(_join_lines, part, descriptor)
    finally:
        os.close(part)


def _join_lines(source: int, target: int) -> None:
    """Append JSON arrays, a line each, to a file as a single one."""
    with open(os.dup(source), "rb") as read, open(os.dup(target), "ab") as written:  # noqa: PTH123  (descriptors)
        read.seek(0)
        written.write(b"[")
        comma = b""
        for line in read:
            if inner := line.strip()[1:-1]:
                written.write(comma + inner)
                comma = b","
        written.write(b"]\n")
