"""Views, reports, tables and comparisons of jobs for routes: made in workers, of ended jobs remembered."""

import asyncio
import gzip
import hashlib
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from benchyard.api.report_cache import Report, ReportCache
from benchyard.engine.clock import now_ms
from benchyard.engine.jobs.service import Jobs
from benchyard.engine.reported_jobs import TrialSource
from benchyard.engine.runs.benchmark_runs import BenchmarkRuns
from benchyard.models.jobs import ENDED_JOBS, BenchmarkJobView, Job
from benchyard.models.reports.baselines import is_run
from benchyard.models.runs import BenchmarkRun
from benchyard.models.trials import SuspectRule
from benchyard.reports.attempt_cells import STAGE_PATHS, TRIAL_PATHS
from benchyard.reports.outcomes import job_view
from benchyard.reports.report_subjects import RUN_PATHS
from benchyard.reports.short_trials import SHORT_PATHS
from benchyard.reports.trial_table import paths_of
from benchyard.workers.workers import WorkerLimits, Workers

__all__ = ["JobReports", "Report", "ScenarioGroups"]

SMALL_JOB = 200
"""Number of trials up to which a job is counted on the event loop, within a few milliseconds."""
_LIMITS = WorkerLimits(seconds=300.0, memory_bytes=16 * 1024**3, output_bytes=1024**3)
_SETTLED_MS = 60_000
"""Time after the end of a job during which its trials may still be ending."""
_MODULE = "benchyard.reports.job_reports"
_STAGES_OF = 1_000
"""Trials of a large job on which the lengths of stages are measured."""


@dataclass(frozen=True)
class ScenarioGroups:
    """Groups of scenarios by a metadata key: those of one group may succeed and fail together."""

    key: str
    by_scenario: Mapping[str, str]


class JobReports:
    """Makes the views of jobs, and remembers those of jobs that no longer change."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._cache = ReportCache()

    async def short(self, jobs: Jobs, job: Job) -> BenchmarkJobView:
        """Return a job with its outcomes, without their scenarios."""
        report = await self.view(jobs, job, with_scenarios=False)
        return await asyncio.to_thread(lambda: BenchmarkJobView.model_validate_json(report.text))

    async def view(
        self, jobs: Jobs, job: Job, *, with_scenarios: bool, suspect: SuspectRule | None = None
    ) -> Report:
        """Return a job with its outcomes; that of a large job that is running may be a moment old."""
        key = ("view", job.id, version_of(job), with_scenarios, suspect)
        if job.n_trials <= SMALL_JOB:
            return await self._small_view(key, jobs, job, suspect, with_scenarios=with_scenarios)

        async def make() -> Report:
            parameters: dict[str, object] = {"job": job.model_dump(mode="json"), "suspect": suspect}
            with _memory_file("trials") as descriptor:
                if not with_scenarios:
                    await jobs.write_rows(job.id, SHORT_PATHS, descriptor)
                    return Report(await self._call("make_short_view", descriptor, parameters))
                await jobs.write_trials(job.id, descriptor)
                parameters["with_scenarios"] = True
                return Report(await self._call("make_job_view", descriptor, parameters))

        return await self._cache.get(key, make, is_settled=is_settled(job))

    async def _small_view(
        self, key: object, jobs: Jobs, job: Job, suspect: SuspectRule | None, *, with_scenarios: bool
    ) -> Report:
        """Return the view of a job that is counted on the event loop, always as it is now."""
        if (known := self._cache.find(key)) is not None:
            return known
        view = job_view(job, await jobs.trials(job), with_scenarios=with_scenarios, suspect=suspect)
        text = view.model_dump_json(exclude_none=True, by_alias=True).encode()
        report = Report(gzip.compress(text, 1, mtime=0))
        if is_settled(job):
            self._cache.remember(key, report)
        return report

    async def past(self, key: object, make: Callable[[], Awaitable[Report]]) -> Report:
        """Return a report over many jobs, which may be a moment old; `make` makes it."""
        return await self._cache.get(("past", key), make, is_settled=False)

    async def report(
        self, jobs: Jobs, job: Job, suspect: SuspectRule | None, groups: ScenarioGroups | None
    ) -> Report:
        """Return the report of a job."""

        async def make() -> Report:
            parameters = {"job": job.model_dump(mode="json"), "suspect": suspect, **_clusters(groups)}
            with _memory_file("trials") as descriptor:
                await jobs.write_rows(job.id, list(TRIAL_PATHS.values()), descriptor)
                share = _STAGES_OF / max(1, job.n_trials)
                await jobs.write_rows(job.id, list(STAGE_PATHS.values()), descriptor, share)
                return Report(await self._call("make_job_report", descriptor, parameters))

        key = ("report", job.id, version_of(job), suspect, await _digest(groups))
        return await self._cache.get(key, make, is_settled=is_settled(job))

    async def table(
        self, jobs: TrialSource, job: Job, columns: Sequence[str], suspect: SuspectRule | None
    ) -> Report:
        """Return the trials of a job, or the scenario runs of a benchmark run, as columns."""

        async def make() -> Report:
            parameters = {"job": job.model_dump(mode="json"), "columns": list(columns), "suspect": suspect}
            with _memory_file("trials") as descriptor:
                await jobs.write_rows(job.id, paths_of(columns), descriptor)
                return Report(await self._call("make_trial_table", descriptor, parameters))

        key = ("table", job.id, version_of(job), suspect, tuple(columns))
        return await self._cache.get(key, make, is_settled=is_settled(job))

    async def run_report(
        self,
        runs: BenchmarkRuns,
        run: BenchmarkRun,
        benchmark_name: str,
        names: Mapping[str, str],
        groups: ScenarioGroups | None,
    ) -> Report:
        """Return the report of a benchmark run."""
        parameters = {
            "run": run.model_dump(mode="json", exclude={"profile"}),
            "benchmark_name": benchmark_name,
            "names": dict(names),
            **_clusters(groups),
        }

        async def make() -> Report:
            with _memory_file("runs") as descriptor:
                await runs.write_rows(run.id, list(RUN_PATHS.values()), descriptor)
                return Report(await self._call("make_run_report", descriptor, parameters))

        key = ("run", run.id, run.state, run.score, run.name, run.is_closing, await _digest(groups))
        return await self._cache.get(key, make, is_settled=False)

    async def compare(
        self,
        jobs: TrialSource,
        sides: Sequence[tuple[Job, int]],
        suspect: SuspectRule | None,
        clusters: Mapping[str, str] | None,
        cluster_key: str | None,
        margin: float = 0.0,
    ) -> Report:
        """Compare the second of two agents with the first; while a job runs, it may be a moment old."""
        compared = {job.id: job for job, _ in sides}
        groups = None if clusters is None or cluster_key is None else ScenarioGroups(cluster_key, clusters)

        async def make() -> Report:
            parameters = {
                "jobs": [job.model_dump(mode="json") for job, _ in sides],
                "agents": [agent for _, agent in sides],
                "suspect": suspect,
                "clusters": clusters,
                "cluster_key": cluster_key,
                "margin": margin,
            }
            with _memory_file("trials") as descriptor:
                for id in compared:
                    await jobs.write_rows(id, SHORT_PATHS, descriptor)
                return Report(await self._call("make_comparison", descriptor, parameters))

        chosen = tuple((job.id, version_of(job), agent) for job, agent in sides)
        key = ("comparison", chosen, suspect, margin, await _digest(groups))
        settled = all(is_settled(job) for job in compared.values())
        return await self._cache.get(key, make, is_settled=settled)

    async def gate(
        self, comparison: Report, margin: float, rule: SuspectRule, max_unscored: str, *, with_scenarios: bool
    ) -> Report:
        """Return the verdict of a gate on a comparison; without its scenarios it is short."""

        async def make() -> Report:
            parameters: dict[str, object] = {"margin": margin, "rule": rule, "max_unscored": max_unscored}
            parameters["with_scenarios"] = with_scenarios
            return Report(await self._call("make_gate", comparison.packed, parameters))

        # It follows from nothing but these.
        key = ("gate", comparison.tag, margin, rule, max_unscored, with_scenarios)
        return await self._cache.get(key, make, is_settled=True)

    async def _call(self, function: str, content: bytes | int, parameters: Mapping[str, object]) -> bytes:
        made: bytes = await self._workers.call(f"{_MODULE}:{function}", content, parameters, _LIMITS)
        return made


@contextmanager
def _memory_file(name: str) -> Iterator[int]:
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _clusters(groups: ScenarioGroups | None) -> dict[str, object]:
    if groups is None:
        return {"clusters": None, "cluster_key": None}
    return {"clusters": dict(groups.by_scenario), "cluster_key": groups.key}


async def _digest(groups: ScenarioGroups | None) -> str | None:
    """Return a digest of the groups, since the metadata that they are made of may change."""
    return None if groups is None else await asyncio.to_thread(_digest_now, groups)


def _digest_now(groups: ScenarioGroups) -> str:
    digest = hashlib.sha256(repr(groups.key).encode())
    for pair in sorted(groups.by_scenario.items()):
        digest.update(repr(pair).encode())
    return digest.hexdigest()


def version_of(job: Job) -> object:
    """Return a value that changes when a job does: by its end, a retry, a rescoring, another name, a note."""
    scored = job.rescoring_state, job.rescoring and job.rescoring.number
    noted = job.name, job.is_pinned, tuple(job.tags), job.note
    return job.state, job.end_time_ms, len(job.pauses), scored, noted


def is_settled(job: Job) -> bool:
    """Tell whether a job has ended and its trials too, so that what is made of them stays true."""
    # The scenario runs of a benchmark run can be scored again without a trace in itself.
    is_over = job.state in ENDED_JOBS and job.rescoring_state != "running" and not is_run(job.id)
    return is_over and job.end_time_ms is not None and now_ms() - job.end_time_ms > _SETTLED_MS
