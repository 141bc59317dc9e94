"""Removes results that are older than the server keeps them: jobs, and runs without a job."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Container

from benchyard.engine.baselines import Baselines
from benchyard.engine.clock import now_ms
from benchyard.engine.context import EngineContext
from benchyard.engine.jobs.service import Jobs
from benchyard.engine.removals import Removals
from benchyard.engine.runs.benchmark_runs import BenchmarkRuns
from benchyard.engine.runs.scenario_runs import ScenarioRuns
from benchyard.engine.scenarios.deletion import Deletions
from benchyard.errors import Conflict, NotFound, UsageError
from benchyard.models.jobs import ENDED_JOBS, JOB_KEY, TRIAL_KEY, Job
from benchyard.models.removals import CollectedResultsView, RemovalView
from benchyard.models.runs import ENDED_RUNS

_FIRST_SECONDS = 60.0
_PASS_SECONDS = 3600.0
_DAY_MS = 24 * 3600 * 1000
_MOST_LISTED = 1000

_log = logging.getLogger(__name__)

Sized = Callable[[], Awaitable[RemovalView]]


class Retention:
    """Removes old results every hour if the server has a limit, and on request with any limit."""

    def __init__(
        self,
        tools: EngineContext,
        removals: Removals,
        deletions: Deletions,
        jobs: Jobs,
        benchmark_runs: BenchmarkRuns,
        runs: ScenarioRuns,
        baselines: Baselines,
    ) -> None:
        self._tools = tools
        self._removals = removals
        self._deletions = deletions
        self._jobs = jobs
        self._benchmark_runs = benchmark_runs
        self._runs = runs
        self._baselines = baselines
        self._passing = asyncio.Lock()

    def open(self) -> None:
        """Start the hourly pass."""
        self._tools.work.start("retention/pass", self._begin_passes)

    async def collect(self, keep_days: float | None, *, dry_run: bool) -> CollectedResultsView:
        """Remove results that ended longer ago; raises UsageError if there is no limit.

        Pinned jobs stay, and jobs and benchmark runs that a baseline names.
        """
        days = self._tools.settings.keep_results_days if keep_days is None else keep_days
        if days is None:
            raise UsageError(
                "this server keeps results for ever; say how old they may be: "
                "`benchyard server gc --keep-results 90d`",
                field="keep_days",
            )
        before_ms = now_ms() - int(days * _DAY_MS)
        found: list[RemovalView] = []
        count = size = 0
        async with self._passing:
            states = [state.value for state in ENDED_JOBS]
            jobs = [
                job
                for job in await self._jobs.records.before(before_ms, {"status": states})
                if (job.end_time_ms or before_ms) < before_ms and job.rescoring_state != "running"
            ]
            named = await self._baselines.of_jobs()
            pinned = sum(job.is_pinned for job in jobs)
            old = [job for job in jobs if not job.is_pinned and job.id not in named]
            async for measure, remove in self._old(old, before_ms, named):
                try:
                    view = await (measure() if dry_run else remove())
                except (Conflict, NotFound) as error:
                    # The result has just come into use, or was deleted.
                    _log.info("an old result is left alone: %s", error.message)
                    continue
                count, size = count + 1, size + view.size_bytes
                if len(found) < _MOST_LISTED:
                    found.append(view)
        return CollectedResultsView(
            keep_days=days,
            dry_run=dry_run,
            removed=found,
            n_removed=count,
            size_bytes=size,
            n_pinned=pinned,
            n_baselines=len(jobs) - pinned - len(old),
        )

    async def _old(
        self, jobs: list[Job], before_ms: int, named: Container[str]
    ) -> AsyncIterator[tuple[Sized, Sized]]:
        """Yield, for each old result, a call that measures and one that removes it: jobs first, then runs."""
        removals = self._removals
        for job in jobs:
            yield _call(removals.job_size, job.id), _call(removals.job, job.id)
        ended = ["completed", "canceled", "failed"]
        for group in await self._benchmark_runs.records.before(before_ms, {"status": ended}):
            is_old = (group.end_time_ms or before_ms) < before_ms and group.id not in named
            if is_old and not await self._is_of_job(group.metadata):
                yield _call(removals.benchmark_run_size, group), _call(removals.benchmark_run, group.id)
        states = [ended_run.value for ended_run in ENDED_RUNS]
        for run in await self._runs.records.before(before_ms, {"status": states}, without_parent=True):
            if (run.end_time_ms or before_ms) < before_ms and TRIAL_KEY not in run.metadata:
                yield _call(removals.scenario_run_size, run), _call(removals.scenario_run, run.id)

    async def _is_of_job(self, metadata: dict[str, str]) -> bool:
        job_id = metadata.get(JOB_KEY)
        return job_id is not None and await self._jobs.records.find(job_id) is not None

    async def _begin_passes(self) -> None:
        # Not at once: a starting server has more urgent work.
        await asyncio.sleep(_FIRST_SECONDS)
        self._tools.work.repeat("retention/passes", self._pass, _PASS_SECONDS, "removing old results")

    async def _pass(self) -> None:
        await self._removals.open()
        await self._deletions.sweep_all()
        if self._tools.settings.keep_results_days is not None:
            done = await self.collect(None, dry_run=False)
            if done.n_removed:
                _log.info("%d old results were removed, %d bytes", done.n_removed, done.size_bytes)


def _call(method: Callable[..., Awaitable[RemovalView]], subject: object) -> Sized:
    return lambda: method(subject)
