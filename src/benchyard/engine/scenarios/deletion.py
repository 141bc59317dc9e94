"""Deletes benchmarks and scenarios; their runs stay readable."""

import logging
from collections.abc import Iterable, Sequence

from benchyard.engine.objects import Objects
from benchyard.engine.scenarios.benchmarks import Benchmarks
from benchyard.engine.scenarios.scenarios import Scenarios
from benchyard.errors import Conflict, Forbidden
from benchyard.models.benchmarks import Benchmark
from benchyard.models.jobs import ENDED_JOBS, Job, JobState
from benchyard.models.removals import DeletedView
from benchyard.models.runs import ENDED_RUNS, BenchmarkRun, RunState, ScenarioRun
from benchyard.store.collection import Collection

_CHUNK = 500
_JOBS = [state.value for state in JobState if state not in ENDED_JOBS]
_RUNS = [state.value for state in RunState if state not in ENDED_RUNS]

_log = logging.getLogger(__name__)


class Deletions:
    """Deletes definitions that are not in use."""

    def __init__(
        self,
        benchmarks: Benchmarks,
        scenarios: Scenarios,
        jobs: Collection[Job],
        benchmark_runs: Collection[BenchmarkRun],
        runs: Collection[ScenarioRun],
        objects: Objects,
    ) -> None:
        self._benchmarks = benchmarks
        self._scenarios = scenarios
        self._jobs = jobs
        self._benchmark_runs = benchmark_runs
        self._runs = runs
        self._objects = objects

    async def benchmark(self, id: str, *, with_scenarios: bool) -> DeletedView:
        """Delete a benchmark, with its scenarios if requested; raises Conflict while it is being run."""
        benchmark = await self._benchmarks.get(id)
        for job in await self._jobs.all({"parent": id, "status": _JOBS}):
            raise _in_use_conflict(f"benchmark {benchmark.name!r}", job)
        for run in await self._benchmark_runs.all({"parent": id, "status": ["running"]}):
            raise Conflict(
                f"benchmark run {run.id} of {benchmark.name!r} is running; complete or cancel it first"
            )
        own = await self._own_scenarios(benchmark) if with_scenarios else []
        await self._require_unused(own)
        benchmark = await self._benchmarks.delete(id)
        for each in own:
            await self._scenarios.delete(each)
        await self.sweep(own)
        return DeletedView(id=id, name=benchmark.name, scenario_ids=own)

    async def scenario(self, id: str) -> DeletedView:
        """Delete a scenario that is in no benchmark; raises Conflict while it is being run."""
        scenario = await self._scenarios.get(id)
        if scenario.is_public:
            raise Forbidden(f"scenario {id} is public and cannot be deleted; it came with the server")
        for benchmark in await self._benchmarks.with_scenario(id):
            raise Conflict(
                f"benchmark {benchmark.name!r} has scenario {scenario.name!r}: take it out of that first, or "
                f"delete the benchmark with it: `benchyard benchmark delete {benchmark.id} --with-scenarios`"
            )
        await self._require_unused([id])
        await self._scenarios.delete(id)
        await self.sweep([id])
        return DeletedView(id=id, name=scenario.name)

    async def sweep(self, scenario_ids: Iterable[str]) -> None:
        """Remove revisions and attachments of deleted scenarios that no run or job needs any more."""
        for id in scenario_ids:
            if await self._scenarios.records.find(id) is not None or await self._is_needed(id):
                continue
            for object_id in await self._scenarios.own_attachments(id):
                await self._objects.remove(object_id)
            await self._scenarios.forget_revisions(id)

    async def sweep_all(self) -> None:
        """Sweep all deleted scenarios, among them those whose deletion was interrupted."""
        await self.sweep(await self._scenarios.deleted())

    async def _own_scenarios(self, benchmark: Benchmark) -> list[str]:
        """Return the scenarios that are only in this benchmark and can be deleted."""
        known = []
        for at in range(0, len(benchmark.scenario_ids), _CHUNK):
            known += await self._scenarios.records.all({"id": benchmark.scenario_ids[at : at + _CHUNK]})
        others = [record for record in await self._benchmarks.records.all({}) if record.id != benchmark.id]
        elsewhere = {id for other in others for id in other.scenario_ids}
        return [each.id for each in known if not each.is_public and each.id not in elsewhere]

    async def _require_unused(self, ids: Sequence[str]) -> None:
        for at in range(0, len(ids), _CHUNK):
            part = ids[at : at + _CHUNK]
            for run in await self._runs.all({"scenario_id": part, "status": _RUNS}):
                raise Conflict(
                    f"run {run.id} of scenario {run.scenario_id} is {run.state}; "
                    f"end it first: `benchyard run cancel {run.id}`"
                )
        wanted = set(ids)
        for job in await self._jobs.all({"status": _JOBS}) if ids else []:
            if used := wanted.intersection(job.spec.scenario_ids):
                raise _in_use_conflict(f"scenario {min(used)}", job)

    async def _is_needed(self, id: str) -> bool:
        if await self._runs.ids({"scenario_id": id}):
            return True
        return any(id in each.spec.scenario_ids for each in await self._jobs.containing(id))


def _in_use_conflict(what: str, job: Job) -> Conflict:
    return Conflict(
        f"job {job.name!r} is {job.state} and uses {what}; "
        f"wait for it, or end it: `benchyard job cancel {job.id}`"
    )
