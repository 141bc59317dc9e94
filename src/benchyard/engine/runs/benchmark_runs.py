"""Benchmark runs for the API: the scenario runs of one agent over one benchmark."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from functools import partial
from weakref import WeakValueDictionary

from benchyard.engine.background import benchmark_run_key, retry_store
from benchyard.engine.clock import now_ms
from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.runs.scenario_runs import HOLD_SECONDS, ScenarioRuns, require_no_job
from benchyard.engine.runs.start import check_required_values, seal_profile
from benchyard.engine.scenarios import public
from benchyard.engine.scenarios.benchmarks import Benchmarks
from benchyard.errors import Conflict, UsageError
from benchyard.hosts.cancellation import run_to_end, wait_at_most
from benchyard.models.pages import Page, Query
from benchyard.models.runs import (
    ENDED_RUNS,
    BenchmarkRun,
    BenchmarkRunRequest,
    BenchmarkRunState,
    RunProfile,
    RunState,
    ScenarioRun,
)
from benchyard.store.body_values import BodyPath
from benchyard.store.collection import Collection

BENCHMARK_RUN_PREFIX = "bmr_"
_AT_ONCE = 50


class BenchmarkRuns:
    """All benchmark runs of this server."""

    def __init__(
        self,
        tools: EngineContext,
        records: Collection[BenchmarkRun],
        benchmarks: Benchmarks,
        runs: ScenarioRuns,
    ) -> None:
        self.records = records
        self._tools = tools
        self._benchmarks = benchmarks
        self._runs = runs
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def open(self) -> None:
        """Resume the interrupted ends of benchmark runs."""
        for run in await self.records.all({"status": ["completed", "canceled"]}):
            if run.is_closing:
                self._settle(run.id)

    async def start(self, caller: Caller, request: BenchmarkRunRequest) -> BenchmarkRun:
        """Begin a run; its scenario runs are started one by one by the caller."""
        existing = await self.records.find(caller.id)
        benchmark = await public.find_benchmark(self._benchmarks, request.benchmark_id)
        profile = request.run_profile or RunProfile()
        if existing is None:
            if benchmark.status == "archived":
                raise UsageError(f"benchmark {benchmark.id} is archived; unarchive it to run it")
            needed = benchmark.required_environment_variables, benchmark.required_secret_names
            check_required_values(*needed, profile, f"benchmark {benchmark.name!r}")
        run = BenchmarkRun(
            id=caller.id,
            create_time_ms=now_ms(),
            request_hash=caller.request_hash,
            benchmark_id=benchmark.id,
            benchmark_revision=benchmark.revision,
            scenario_ids=benchmark.scenario_ids,
            name=request.run_name or benchmark.name,
            purpose=profile.purpose,
            metadata=request.metadata or {},
            profile=seal_profile(profile, self._tools.vault),
        )
        kept, _ = await self.records.insert_once(run)
        return kept

    async def get(self, id: str) -> BenchmarkRun:
        """Return the run with this id; raises NotFound."""
        return await self.records.get(id)

    async def pending(self, run: BenchmarkRun) -> list[str]:
        """Return the scenarios of its benchmark without a run."""
        begun = {each.scenario_id for each in await self._children(run.id)}
        return [each for each in run.scenario_ids if each not in begun]

    async def children(self, id: str) -> list[ScenarioRun]:
        """Return all its scenario runs, newest first; raises NotFound."""
        await self.records.get(id)
        return await self._children(id)

    async def write_rows(self, id: str, paths: Sequence[BodyPath], descriptor: int) -> None:
        """Append some values of all its scenario runs to a file as JSON."""
        await self._runs.records.write_rows({"parent": id}, paths, descriptor)

    async def write_bodies(self, id: str, descriptor: int) -> None:
        """Append all its scenario runs to a file as they are stored, newest first, a line of JSON each."""
        await self._runs.records.write_bodies({"parent": id}, descriptor)

    async def scenario_runs_of(self, id: str, wanted: Sequence[str]) -> list[ScenarioRun]:
        """Return some of its scenario runs by their ids."""
        return await self._runs.records.all({"parent": id, "id": wanted}) if wanted else []

    @contextlib.asynccontextmanager
    async def at_rest(self, id: str) -> AsyncIterator[BenchmarkRun]:
        """Hold an ended run so that no other request deletes it within this context; raises Conflict."""
        async with self._locks.setdefault(id, asyncio.Lock()):
            run = await self.records.get(id)
            if run.state == "running" or run.is_closing:
                raise Conflict(
                    f"benchmark run {id} is running; complete it, or end it: `benchyard run cancel {id}`"
                )
            yield run

    async def scenario_runs(self, id: str, query: Query) -> Page[ScenarioRun]:
        """Return a page of its scenario runs, newest first."""
        await self.records.get(id)
        return await self._runs.records.page(query)

    async def complete(self, id: str) -> BenchmarkRun:
        """End a run: scored scenario runs are completed, others canceled, and its score is computed."""
        return await self._end(id, "completed")

    async def cancel(self, id: str) -> BenchmarkRun:
        """End a run early: unfinished scenario runs are canceled; the score is that of the scored ones."""
        return await self._end(id, "canceled")

    async def rename(self, id: str, name: str) -> BenchmarkRun:
        """Rename a run; raises Conflict for a run of a job."""

        def apply(run: BenchmarkRun) -> BenchmarkRun:
            require_no_job(run)
            return run.model_copy(update={"name": name})

        return await self.records.change(id, apply)

    async def conclude(
        self, id: str, state: BenchmarkRunState, score: float | None, n_suspect: int = 0
    ) -> BenchmarkRun:
        """End a run whose scenario runs a job has ended, with the score from the job."""

        def apply(run: BenchmarkRun) -> BenchmarkRun:
            ended = run.end_time_ms or now_ms()
            result = {"score": score, "n_suspect": n_suspect}
            return run.model_copy(update={"state": state, "end_time_ms": ended, **result})

        return await self.records.change(id, apply)

    async def reopen(self, id: str) -> BenchmarkRun:
        """Reopen a run whose job is resumed."""
        again = {"state": "running", "end_time_ms": None, "score": None, "n_suspect": 0}
        return await self.records.change(id, lambda run: run.model_copy(update=again))

    async def _end(self, id: str, state: BenchmarkRunState) -> BenchmarkRun:
        def apply(run: BenchmarkRun) -> BenchmarkRun:
            if run.state == "running":
                return run.model_copy(update={"state": state, "end_time_ms": now_ms(), "is_closing": True})
            if run.state != state and state == "completed":
                raise Conflict(f"benchmark run {id} is {run.state} and cannot be completed")
            return run

        run = await run_to_end(self.records.change(id, apply))
        if run.is_closing:
            self._settle(id)
            # A long end goes on after the answer; the score can be read later.
            await wait_at_most(HOLD_SECONDS, self._tools.work.settle(benchmark_run_key(id)))
        return await self.records.get(id)

    def _settle(self, id: str) -> None:
        if not self._tools.work.under_way(benchmark_run_key(id)):
            self._tools.work.start(benchmark_run_key(id), partial(self._close, id))

    async def _close(self, id: str) -> None:
        """End every scenario run of an ended benchmark run, and compute its score."""
        run = await retry_store(self.records.get, id)
        children = await retry_store(self._children, id)
        turns = asyncio.Semaphore(_AT_ONCE)
        keeps = run.state == "completed"

        async def close(child: ScenarioRun) -> None:
            async with turns:
                if keeps and child.state is RunState.SCORING:
                    child = await self._runs.wait_until_settled(child.id)
                if child.state is RunState.SCORED:
                    await retry_store(self._runs.complete, child.id)
                elif child.state not in ENDED_RUNS:
                    await retry_store(self._runs.cancel, child.id)

        await asyncio.gather(*map(close, children))
        scored = await retry_store(self._children, id)

        def apply(run: BenchmarkRun) -> BenchmarkRun:
            n_suspect = sum(child.result is not None and child.result.is_suspect for child in scored)
            result = {"score": score_of(scored), "n_suspect": n_suspect}
            return run.model_copy(update={**result, "is_closing": False})

        await retry_store(self.records.change, id, apply)

    async def _children(self, id: str) -> list[ScenarioRun]:
        return await self._runs.records.all({"parent": id})


def score_of(runs: list[ScenarioRun]) -> float | None:
    """Return the mean over all started runs; those without a score count 0. None if there are no runs."""
    if not runs:
        return None
    return round(sum(run.result.score if run.result else 0.0 for run in runs) / len(runs), 9)
