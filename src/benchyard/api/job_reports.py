"""Views, reports, tables and comparisons of jobs for routes: made in workers, of ended jobs remembered."""

import gzip
import os
from collections.abc import Mapping, Sequence
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
        return BenchmarkJobView.model_validate_json(report.text)

    async def view(
        self, jobs: Jobs, job: Job, *, with_scenarios: bool, suspect: SuspectRule | None = None
    ) -> Report:
        """Return a job with its outcomes."""
        key = (job.id, _version(job), with_scenarios, suspect)
        if (known := self._cache.find(key)) is not None:
            return known
        report = Report(await self._made(jobs, job, suspect, with_scenarios=with_scenarios))
        if _is_settled(job):
            self._cache.remember(key, report)
        return report

    async def report(
        self, jobs: Jobs, job: Job, suspect: SuspectRule | None, groups: ScenarioGroups | None
    ) -> Report:
        """Return the report of a job."""

        async def make() -> Report:
            parameters = {"job": job.model_dump(mode="json"), "suspect": suspect, **_clusters(groups)}
            descriptor = os.memfd_create("trials", os.MFD_CLOEXEC)
            try:
                await jobs.write_rows(job.id, list(TRIAL_PATHS.values()), descriptor)
                share = _STAGES_OF / max(1, job.n_trials)
                await jobs.write_rows(job.id, list(STAGE_PATHS.values()), descriptor, share)
                return Report(await self._call("make_job_report", descriptor, parameters))
            finally:
                os.close(descriptor)

        key = ("report", job.id, _version(job), suspect, groups and groups.key)
        return await self._cache.get(key, make, is_settled=_is_settled(job))

    async def table(
        self, jobs: TrialSource, job: Job, columns: Sequence[str], suspect: SuspectRule | None
    ) -> Report:
        """Return the trials of a job, or the scenario runs of a benchmark run, as columns."""

        async def make() -> Report:
            parameters = {"job": job.model_dump(mode="json"), "columns": list(columns), "suspect": suspect}
            descriptor = os.memfd_create("trials", os.MFD_CLOEXEC)
            try:
                await jobs.write_rows(job.id, paths_of(columns), descriptor)
                return Report(await self._call("make_trial_table", descriptor, parameters))
            finally:
                os.close(descriptor)

        key = ("table", job.id, _version(job), suspect, tuple(columns))
        return await self._cache.get(key, make, is_settled=_is_settled(job))

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
            descriptor = os.memfd_create("runs", os.MFD_CLOEXEC)
            try:
                await runs.write_rows(run.id, list(RUN_PATHS.values()), descriptor)
                return Report(await self._call("make_run_report", descriptor, parameters))
            finally:
                os.close(descriptor)

        key = ("run", run.id, run.state, run.score, run.name, run.is_closing, groups and groups.key)
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
        self, function: str, jobs: TrialSource, wanted: Sequence[Job], parameters: Mapping[str, object]
    ) -> bytes:
        """Have a report made in a worker, of the stored trials of some jobs."""
        descriptor = os.memfd_create("trials", os.MFD_CLOEXEC)
        try:
            for job in wanted:
                await jobs.write_trials(job.id, descriptor)
            return await self._call(function, descriptor, parameters)
        finally:
            os.close(descriptor)

    async def _call(self, function: str, descriptor: int, parameters: Mapping[str, object]) -> bytes:
        made: bytes = await self._workers.call(f"{_MODULE}:{function}", descriptor, parameters, _LIMITS)
        return made


def _clusters(groups: ScenarioGroups | None) -> dict[str, object]:
    if groups is None:
        return {"clusters": None, "cluster_key": None}
    return {"clusters": dict(groups.by_scenario), "cluster_key": groups.key}


def _version(job: Job) -> object:
    """Return a value that changes when an ended job does: by a retry, a rescoring, another name, a note."""
    scored = job.rescoring_state, job.rescoring and job.rescoring.number
    return job.state, job.end_time_ms, scored, job.name, job.is_pinned, tuple(job.tags), job.note


def _is_settled(job: Job) -> bool:
    # The scenario runs of a benchmark run can be scored again without a trace in itself.
    is_over = job.state in ENDED_JOBS and job.rescoring_state != "running" and not is_run(job.id)
    return is_over and job.end_time_ms is not None and now_ms() - job.end_time_ms > _SETTLED_MS
