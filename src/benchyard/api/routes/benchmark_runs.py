"""Benchmark runs: start, look up, list, complete, cancel; also at the paths that older clients know."""

from dataclasses import replace

from fastapi import APIRouter
from fastapi.responses import Response, StreamingResponse

from benchyard.api.deps import Services, ServicesDep
from benchyard.api.idempotency import RequestIdentity
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.pages import OF_A_JOB, NamedQuery, PageQuery, narrow
from benchyard.api.responses import ZIP, archive_response, wait_for_answer
from benchyard.engine.runs.benchmark_runs import BENCHMARK_RUN_PREFIX
from benchyard.models.base import RenameRequest
from benchyard.models.pages import Query
from benchyard.models.removals import RemovalView
from benchyard.models.results.annotations import AnnotationRequest
from benchyard.models.runs import (
    BenchmarkRun,
    BenchmarkRunListView,
    BenchmarkRunRequest,
    BenchmarkRunState,
    BenchmarkRunView,
    RunListView,
    RunState,
)

router = APIRouter(tags=["benchmark runs"], route_class=LazyRoute)

_NOW, _BEFORE = "/v1/benchmark_runs", "/v1/benchmarks/runs"


@router.post("/v1/benchmarks/start_run", response_model_exclude_none=True)
async def start(
    services: ServicesDep, identity: RequestIdentity, body: BenchmarkRunRequest
) -> BenchmarkRunView:
    """Start a run; its scenarios are started one by one with its id."""
    asked = identity.caller(BENCHMARK_RUN_PREFIX)
    return await _view(services, await services.engine.benchmark_runs.start(asked, body))


@router.get(_NOW, response_model_exclude_none=True)
@router.get(_BEFORE, response_model_exclude_none=True, include_in_schema=False)
async def list_runs(
    services: ServicesDep,
    query: NamedQuery,
    benchmark_id: str | None = None,
    state: BenchmarkRunState | None = None,
    tag: str | None = None,
    *,
    own: bool = False,
) -> BenchmarkRunListView:
    """List benchmark runs, newest first; `own` and `tag` are extensions: `own` leaves out those of jobs."""
    wanted = narrow(query, parent=benchmark_id, status=state, tagged=tag)
    return await _page(services, replace(wanted, without=(OF_A_JOB,)) if own else wanted)


@router.get("/v1/benchmarks/{id}/runs", response_model_exclude_none=True)
async def list_runs_of(id: str, services: ServicesDep, query: PageQuery) -> BenchmarkRunListView:
    """List the runs of a benchmark, newest first."""
    await services.engine.benchmarks.get(id)
    return await _page(services, replace(query, where={"parent": id}))


@router.get(_NOW + "/{id}", response_model_exclude_none=True)
@router.get(_BEFORE + "/{id}", response_model_exclude_none=True, include_in_schema=False)
async def retrieve(id: str, services: ServicesDep) -> BenchmarkRunView:
    """Look a run up."""
    return await _view(services, await services.engine.benchmark_runs.get(id))


@router.post(_NOW + "/{id}/complete", response_model_exclude_none=True)
@router.post(_BEFORE + "/{id}/complete", response_model_exclude_none=True, include_in_schema=False)
async def complete(id: str, services: ServicesDep) -> BenchmarkRunView:
    """End a run: what was scored counts, what was not is canceled and counts 0."""
    return await _view(services, await wait_for_answer(services, services.engine.benchmark_runs.complete(id)))


@router.post(_NOW + "/{id}/cancel", response_model_exclude_none=True)
@router.post(_BEFORE + "/{id}/cancel", response_model_exclude_none=True, include_in_schema=False)
async def cancel(id: str, services: ServicesDep) -> BenchmarkRunView:
    """End a run early and cancel what still runs."""
    return await _view(services, await wait_for_answer(services, services.engine.benchmark_runs.cancel(id)))


@router.post(_NOW + "/{id}/rename", response_model_exclude_none=True)
async def rename(id: str, services: ServicesDep, body: RenameRequest) -> BenchmarkRunView:
    """Give a run that belongs to no job another name (an extension)."""
    return await _view(services, await services.engine.benchmark_runs.rename(id, body.name))


@router.post(_NOW + "/{id}/annotate", response_model_exclude_none=True)
async def annotate(id: str, services: ServicesDep, body: AnnotationRequest) -> BenchmarkRunView:
    """Add or remove tags of a run that belongs to no job, or write a note on it (an extension)."""
    engine = services.engine
    run = await engine.benchmark_runs.get(id)
    return run.view(
        await engine.benchmark_runs.pending(run), await engine.trial_annotations.annotate_run(run, body)
    )


@router.post(_NOW + "/{id}/delete", response_model_exclude_none=True)
async def delete(id: str, services: ServicesDep, identity: RequestIdentity) -> RemovalView:
    """Delete a run that has ended and belongs to no job, with its scenario runs (an extension)."""
    return await services.engine.removals.benchmark_run(id, identity.seed.hex() if identity.seed else None)


@router.get(_NOW + "/{id}/scenario_runs", response_model_exclude_none=True)
@router.get(_BEFORE + "/{id}/scenario_runs", response_model_exclude_none=True, include_in_schema=False)
async def list_scenario_runs(
    id: str, services: ServicesDep, query: NamedQuery, state: RunState | None = None
) -> RunListView:
    """List the scenario runs of a benchmark run, newest first."""
    wanted = narrow(query, parent=id, status=state)
    page = await services.engine.benchmark_runs.scenario_runs(id, wanted)
    noted = await services.engine.trial_annotations.of([run.id for run in page.items])
    runs = [run.view(annotation=noted.get(run.id)) for run in page.items]
    return RunListView(runs=runs, has_more=page.has_more, total_count=page.total_count)


@router.post(_NOW + "/{id}/download_logs", response_class=StreamingResponse)
@router.post(_BEFORE + "/{id}/download_logs", response_class=StreamingResponse, include_in_schema=False)
async def download_logs(id: str, services: ServicesDep) -> Response:
    """Get the logs of all scenario runs of a benchmark run as a zip without folders."""
    runs = await services.engine.benchmark_runs.children(id)
    return await archive_response(services, services.engine.run_logs.pack(runs), ZIP)


async def _view(services: Services, run: BenchmarkRun) -> BenchmarkRunView:
    noted = await services.engine.trial_annotations.of([run.id])
    return run.view(await services.engine.benchmark_runs.pending(run), noted.get(run.id))


async def _page(services: Services, query: Query) -> BenchmarkRunListView:
    page = await services.engine.benchmark_runs.records.page(query)
    noted = await services.engine.trial_annotations.of([run.id for run in page.items])
    runs = [run.view(annotation=noted.get(run.id)) for run in page.items]
    return BenchmarkRunListView(runs=runs, has_more=page.has_more, total_count=page.total_count)
