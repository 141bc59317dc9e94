"""Deletes jobs and runs with all that was stored for them, even if the server is killed meanwhile.

First a record notes what is to be deleted, in the same transaction that deletes the row of the job or
benchmark run itself; this record is removed at the end. A starting server resumes every such record.
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

from sqlalchemy import Connection, delete, select

from benchyard.engine.background import devbox_key, removal_key, retry_store, run_key_prefix
from benchyard.engine.baselines import Baselines
from benchyard.engine.clock import now_ms
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.boot import FINAL_KIND, SCORING_KIND
from benchyard.engine.jobs.evidence import forget_findings
from benchyard.engine.jobs.service import Jobs
from benchyard.engine.judge.service import Judges
from benchyard.engine.network.gateway_access import Grants
from benchyard.engine.runs.benchmark_runs import BenchmarkRuns
from benchyard.engine.runs.model_access import grant_id_of
from benchyard.engine.runs.scenario_runs import ScenarioRuns
from benchyard.engine.scenarios.deletion import Deletions
from benchyard.errors import BenchyardError, Conflict, NotFound
from benchyard.hosts.cancellation import run_to_end, wait_at_most
from benchyard.models.jobs import JOB_KEY, TRIAL_KEY
from benchyard.models.objects import StoredObject
from benchyard.models.removals import Removal, RemovalKind, RemovalView, RemovedRun
from benchyard.models.runs import ENDED_RUNS, RUN_KEY, BenchmarkRun, ScenarioRun
from benchyard.store.collection import Collection
from benchyard.store.database import Store
from benchyard.store.tables import EVENTS, TABLES, TAGS, TRIAL_FACTS

REMOVAL_PREFIX = "rmv_"
HOLD_SECONDS = 25.0
_AT_ONCE = 8
_CHUNK = 200
_REMEMBERED = 1000

_log = logging.getLogger(__name__)


class Removals:
    """Deletes results."""

    def __init__(
        self,
        tools: EngineContext,
        store: Store,
        jobs: Jobs,
        benchmark_runs: BenchmarkRuns,
        runs: ScenarioRuns,
        grants: Grants,
        deletions: Deletions,
        baselines: Baselines,
        judges: Judges,
    ) -> None:
        self.records: Collection[Removal] = store.collection("removals", Removal)
        self._tools = tools
        self._store = store
        self._jobs = jobs
        self._benchmark_runs = benchmark_runs
        self._runs = runs
        self._deletions = deletions
        self._baselines = baselines
        self._judges = judges
        self._grants = grants
        self._answers: OrderedDict[str, RemovalView] = OrderedDict()

    async def open(self) -> None:
        """Resume the deletions that an earlier server had begun."""
        for removal in await self.records.all({}):
            self._start(removal)

    async def job(self, id: str, request_id: str | None = None) -> RemovalView:
        """Delete a job that has ended, its trials and its runs; raises Conflict while any of it runs."""

        async def ask() -> RemovalView:
            async with self._jobs.at_rest(id) as job:
                await self._baselines.require_none(id)
                view = await self.job_size(id)
                removal = await self._plan("job", id, job.benchmark_run_ids)
                await self._begin(removal, "benchmark_jobs")
            return view

        return await self._once(request_id, ask)

    async def benchmark_run(self, id: str, request_id: str | None = None) -> RemovalView:
        """Delete an ended benchmark run and its scenario runs; raises Conflict if it belongs to a job."""

        async def ask() -> RemovalView:
            await self._require_no_job(await self._benchmark_runs.get(id))
            async with self._benchmark_runs.at_rest(id) as run:
                await self._baselines.require_none(id)
                view = await self._view("benchmark_run", id, run.name, [id])
                await self._begin(await self._plan("benchmark_run", id, [id]), "benchmark_runs")
            return view

        return await self._once(request_id, ask)

    async def scenario_run(self, id: str, request_id: str | None = None) -> RemovalView:
        """Delete a scenario run that has ended; raises Conflict if it runs, or belongs to a job."""

        async def ask() -> RemovalView:
            run = await self._runs.get(id)
            await self._require_no_job(run)
            _require_ended(run)
            view = await self.scenario_run_size(run)
            await self._begin(self._removal("scenario_run", id, [], [run]), None)
            return view

        return await self._once(request_id, ask)

    async def job_size(self, id: str) -> RemovalView:
        """Return what deleting a job would remove."""
        job = await self._jobs.get(id)
        own = TABLES["trials"]
        query = select(own.c.id).where(own.c.parent == id)
        trials = await self._store.read(lambda connection: len(connection.execute(query).all()))
        view = await self._view("job", id, job.name, job.benchmark_run_ids)
        return view.model_copy(update={"n_trials": trials})

    async def benchmark_run_size(self, run: BenchmarkRun) -> RemovalView:
        """Return what deleting a benchmark run would remove."""
        return await self._view("benchmark_run", run.id, run.name, [run.id])

    async def scenario_run_size(self, run: ScenarioRun) -> RemovalView:
        """Return what deleting a scenario run would remove."""
        size = await self._sizes([run])
        return RemovalView(id=run.id, kind="scenario_run", name=run.name, n_scenario_runs=1, **size)

    async def _once(self, request_id: str | None, ask: Callable[[], Awaitable[RemovalView]]) -> RemovalView:
        """Delete once; the same request again, after a lost answer, gets the same answer."""
        known = self._answers.get(request_id or "")
        if known is not None:
            return known
        self._tools.make_room_to_end()
        view = await ask()
        if request_id is not None:
            self._answers[request_id] = view
            while len(self._answers) > _REMEMBERED:
                self._answers.popitem(last=False)
        # A long deletion goes on after the request has been answered.
        await wait_at_most(HOLD_SECONDS, self._tools.work.settle(removal_key(view.id)))
        return view

    async def _plan(self, kind: RemovalKind, id: str, parents: Sequence[str]) -> Removal:
        runs = await self._children(parents)
        for run in runs:
            _require_ended(run)
        return self._removal(kind, id, parents, runs)

    def _removal(
        self, kind: RemovalKind, id: str, parents: Sequence[str], runs: Sequence[ScenarioRun]
    ) -> Removal:
        own = [grant_id_of(run.id) for run in runs]
        trials = [run.metadata[TRIAL_KEY] for run in runs if TRIAL_KEY in run.metadata]
        return Removal(
            id=f"{REMOVAL_PREFIX}{id}",
            create_time_ms=now_ms(),
            kind=kind,
            subject=id,
            benchmark_run_ids=list(parents),
            runs=[RemovedRun(id=run.id, devbox_id=run.devbox_id) for run in runs],
            grant_ids=sorted({*own, *trials} & self._grants.records.ids()),
            scenario_ids=sorted({run.scenario_id for run in runs}),
        )

    async def _begin(self, removal: Removal, table: str | None) -> None:
        """Store a plan of the deletion; the row of the requested job or run goes in the same transaction."""

        def work(connection: Connection) -> None:
            self.records.rows.adding([removal])(connection)
            if table is not None:
                own = TABLES[table]
                connection.execute(delete(own).where(own.c.id == removal.subject))

        await run_to_end(self._store.write_whole(work))
        self._start(removal)

    def _start(self, removal: Removal) -> None:
        self._tools.work.start(removal_key(removal.subject), partial(self._carry_out, removal))

    async def _carry_out(self, removal: Removal) -> None:
        turns = asyncio.Semaphore(_AT_ONCE)
        try:
            await asyncio.gather(*(self._remove_run(run, turns) for run in removal.runs))
            await self._remove_images({run.id for run in removal.runs})
            for grant_id in removal.grant_ids:
                await self._grants.forget(grant_id)
            for stored in await self._objects([run.id for run in removal.runs]):
                await self._tools.objects.remove(stored.id)
            if removal.kind == "job":
                await self._judges.forget(removal.subject)
            await asyncio.to_thread(forget_findings, self._tools.settings.data, removal.subject)
            await retry_store(self._remove_rows, removal)
            await self._deletions.sweep(removal.scenario_ids)
            with contextlib.suppress(NotFound):
                await retry_store(self.records.delete, removal.id)
        except (BenchyardError, OSError) as error:
            # The record stays: the next pass, or the next server, resumes it.
            _log.warning("not everything of %s could be deleted, will try again: %s", removal.subject, error)

    async def _remove_run(self, run: RemovedRun, turns: asyncio.Semaphore) -> None:
        """Remove a run, and its devbox with its services, outputs, log and record."""
        tools, devbox_id = self._tools, run.devbox_id
        async with turns:
            await tools.work.cancel(run_key_prefix(run.id))
            with contextlib.suppress(NotFound):
                await retry_store(self._runs.records.delete, run.id)
            await self._runs.end_devbox(devbox_id)
            await tools.work.settle(devbox_key(devbox_id))
            for held in (devbox_id, *await asyncio.to_thread(tools.host.folders, f"{devbox_id}-")):
                await tools.host.forget(held)
                await asyncio.to_thread(tools.journal.forget, held)
            with contextlib.suppress(NotFound):
                await retry_store(tools.live_devboxes.records.delete, devbox_id)

    async def _remove_images(self, run_ids: set[str]) -> None:
        """Remove final states, and the images frozen for scoring."""
        for image in await self._tools.images.list():
            if image.kind in (FINAL_KIND, SCORING_KIND) and image.id.partition("-")[0] in run_ids:
                with contextlib.suppress(NotFound):
                    await self._tools.images.remove(image.id)

    async def _remove_rows(self, removal: Removal) -> None:
        trials, runs = TABLES["trials"], TABLES["benchmark_runs"]
        notes = TABLES["trial_annotations"]

        def work(connection: Connection) -> None:
            connection.execute(delete(trials).where(trials.c.parent == removal.subject))
            connection.execute(delete(notes).where(notes.c.parent == removal.subject))
            connection.execute(delete(TRIAL_FACTS).where(TRIAL_FACTS.c.job_id == removal.subject))
            connection.execute(delete(TAGS).where(TAGS.c.parent == removal.subject))
            connection.execute(delete(EVENTS).where(EVENTS.c.parent == removal.subject))
            if removal.kind == "scenario_run":
                # What was noted on it may lie with its benchmark run.
                connection.execute(delete(notes).where(notes.c.id == removal.subject))
                connection.execute(delete(TAGS).where(TAGS.c.subject == removal.subject))
            for part in _chunks(removal.benchmark_run_ids):
                connection.execute(delete(runs).where(runs.c.id.in_(part)))

        await self._store.write_whole(work)

    async def _objects(self, run_ids: Sequence[str]) -> list[StoredObject]:
        found: list[StoredObject] = []
        for part in _chunks(run_ids):
            found += await retry_store(self._tools.objects.records.all, {f"metadata.{RUN_KEY}": part})
        return found

    async def _children(self, parents: Sequence[str]) -> list[ScenarioRun]:
        if not parents:
            return []
        return await self._runs.records.all({"parent": list(parents)})

    async def _view(
        self, kind: RemovalKind, id: str, name: str | None, parents: Sequence[str]
    ) -> RemovalView:
        runs = await self._children(parents)
        size = await self._sizes(runs)
        return RemovalView(id=id, kind=kind, name=name, n_scenario_runs=len(runs), **size)

    async def _sizes(self, runs: Sequence[ScenarioRun]) -> dict[str, int]:
        objects = await self._objects([run.id for run in runs])
        size = sum(each.size_bytes or 0 for each in objects if each.path is not None)
        size += sum(run.final_state.size_bytes for run in runs if run.final_state)
        return {"n_objects": len(objects), "size_bytes": size}

    async def _require_no_job(self, run: ScenarioRun | BenchmarkRun) -> None:
        job_id = run.metadata.get(JOB_KEY)
        if job_id and await self._jobs.records.find(job_id) is not None:
            raise Conflict(
                f"run {run.id} belongs to job {job_id}, whose results need it; "
                f"delete all of the job: `benchyard job delete {job_id}`"
            )


def _require_ended(run: ScenarioRun) -> None:
    if run.state not in ENDED_RUNS:
        raise Conflict(
            f"scenario run {run.id} is {run.state}; complete it, or end it: `benchyard run cancel {run.id}`"
        )
    if run.rescoring is not None:
        raise Conflict(f"scenario run {run.id} is being scored again; delete it when that is over")


def _chunks(ids: Iterable[str]) -> list[list[str]]:
    every = list(ids)
    return [every[at : at + _CHUNK] for at in range(0, len(every), _CHUNK)]
