"""Scenarios: make, look up, list, change, archive."""

from dataclasses import replace

from fastapi import APIRouter

from benchyard.api.deps import Services, ServicesDep
from benchyard.api.idempotency import RequestIdentity
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.metadata_routes import add_metadata_routes
from benchyard.api.pages import NamedQuery, PageQuery, narrow
from benchyard.engine.scenarios.scenarios import SCENARIO_PREFIX
from benchyard.models.pages import Query
from benchyard.models.removals import DeletedView
from benchyard.models.runs import RunListView
from benchyard.models.scenarios import (
    ScenarioChange,
    ScenarioListView,
    ScenarioRequest,
    ScenarioView,
    ValidationType,
)

router = APIRouter(prefix="/v1/scenarios", tags=["scenarios"], route_class=LazyRoute)

OWN = {"parent": "own", "status": "active"}
PUBLIC = {"parent": "public", "status": "active"}


@router.post("", response_model_exclude_none=True)
async def create(services: ServicesDep, identity: RequestIdentity, body: ScenarioRequest) -> ScenarioView:
    """Make a scenario."""
    return (await services.engine.scenarios.create(identity.caller(SCENARIO_PREFIX), body)).view()


@router.get("", response_model_exclude_none=True)
async def list_scenarios(
    services: ServicesDep,
    query: NamedQuery,
    benchmark_id: str | None = None,
    validation_type: ValidationType | None = None,
) -> ScenarioListView:
    """List this server's own scenarios, newest first; with `benchmark_id`, those of a benchmark."""
    wanted = narrow(query, validation_type=validation_type)
    if benchmark_id is None:
        return await _page(services, narrow(wanted, **OWN))
    benchmark = await services.engine.benchmarks.get(benchmark_id)
    where = {**wanted.where, "id": benchmark.scenario_ids, "status": "active"}
    return await _page(services, replace(wanted, where=where))


@router.get("/list_public", response_model_exclude_none=True)
async def list_public(services: ServicesDep, query: NamedQuery) -> ScenarioListView:
    """List public scenarios, newest first."""
    return await _page(services, narrow(query, **PUBLIC))


add_metadata_routes(
    router, lambda services: services.engine.scenarios.records, OWN, public=("scenarios", PUBLIC)
)


@router.get("/{id}", response_model_exclude_none=True)
async def retrieve(id: str, services: ServicesDep) -> ScenarioView:
    """Look a scenario up; an archived one too."""
    return (await services.engine.scenarios.get(id)).view()


@router.post("/{id}", response_model_exclude_none=True)
async def update(id: str, services: ServicesDep, body: ScenarioChange) -> ScenarioView:
    """Change a scenario; what is not given stays, what is empty is cleared."""
    return (await services.engine.scenarios.update(id, body)).view()


@router.post("/{id}/archive", response_model_exclude_none=True)
async def archive(id: str, services: ServicesDep) -> ScenarioView:
    """Hide a scenario from lists; it cannot be run or changed until it is unarchived."""
    return (await services.engine.scenarios.archive(id, is_archived=True)).view()


@router.post("/{id}/unarchive", response_model_exclude_none=True)
async def unarchive(id: str, services: ServicesDep) -> ScenarioView:
    """Show an archived scenario again."""
    return (await services.engine.scenarios.archive(id, is_archived=False)).view()


@router.post("/{id}/delete", response_model_exclude_none=True)
async def delete(id: str, services: ServicesDep) -> DeletedView:
    """Delete a scenario that no benchmark has (an extension); runs keep the revision they began with."""
    return await services.engine.deletions.scenario(id)


@router.get("/{id}/runs", response_model_exclude_none=True)
async def list_runs(id: str, services: ServicesDep, query: PageQuery) -> RunListView:
    """List the runs of a scenario, newest first."""
    await services.engine.scenarios.get(id)
    page = await services.engine.scenario_runs.records.page(replace(query, where={"scenario_id": id}))
    runs = [run.view() for run in page.items]
    return RunListView(runs=runs, has_more=page.has_more, total_count=page.total_count)


async def _page(services: Services, query: Query) -> ScenarioListView:
    page = await services.engine.scenarios.records.page(query)
    scenarios = [scenario.view() for scenario in page.items]
    return ScenarioListView(scenarios=scenarios, has_more=page.has_more, total_count=page.total_count)
