"""Benchmarks: make, look up, list, change, archive."""

from fastapi import APIRouter

from benchyard.api.deps import ServicesDep
from benchyard.api.idempotency import RequestIdentity
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.metadata_routes import add_metadata_routes
from benchyard.api.pages import NamedQuery, PageQuery, narrow
from benchyard.api.routes.scenarios import OWN, PUBLIC
from benchyard.engine.scenarios.benchmarks import BENCHMARK_PREFIX
from benchyard.engine.scenarios.public import PublicBenchmarks
from benchyard.models.benchmarks import (
    BenchmarkChange,
    BenchmarkListView,
    BenchmarkRequest,
    BenchmarkScenariosChange,
    BenchmarkView,
)
from benchyard.models.removals import BenchmarkDeleteRequest, DeletedView
from benchyard.models.scenarios import ScenarioListView

router = APIRouter(prefix="/v1/benchmarks", tags=["benchmarks"], route_class=LazyRoute)


@router.post("", response_model_exclude_none=True)
async def create(services: ServicesDep, identity: RequestIdentity, body: BenchmarkRequest) -> BenchmarkView:
    """Make a benchmark of scenarios."""
    return (await services.engine.benchmarks.create(identity.caller(BENCHMARK_PREFIX), body)).view()


@router.get("", response_model_exclude_none=True)
async def list_benchmarks(services: ServicesDep, query: NamedQuery) -> BenchmarkListView:
    """List this server's own benchmarks, newest first."""
    page = await PublicBenchmarks(services.engine.benchmarks).own_page(narrow(query, **OWN))
    return BenchmarkListView(benchmarks=page.items, has_more=page.has_more, total_count=page.total_count)


@router.get("/list_public", response_model_exclude_none=True)
async def list_public(services: ServicesDep, query: NamedQuery) -> BenchmarkListView:
    """List public benchmarks: those that are here first, then those that can be imported."""
    page = await PublicBenchmarks(services.engine.benchmarks).page(query)
    return BenchmarkListView(benchmarks=page.items, has_more=page.has_more, total_count=page.total_count)


add_metadata_routes(
    router, lambda services: services.engine.benchmarks.records, OWN, public=("benchmarks", PUBLIC)
)


@router.get("/{id}", response_model_exclude_none=True)
async def retrieve(id: str, services: ServicesDep) -> BenchmarkView:
    """Look a benchmark up; an archived one too, and a public one that is not imported yet."""
    return await PublicBenchmarks(services.engine.benchmarks).get(id)


@router.post("/{id}", response_model_exclude_none=True)
async def update(id: str, services: ServicesDep, body: BenchmarkChange) -> BenchmarkView:
    """Change a benchmark; what is not given stays, what is empty is cleared."""
    return (await services.engine.benchmarks.update(id, body)).view()


@router.get("/{id}/definitions", response_model_exclude_none=True)
async def definitions(id: str, services: ServicesDep, query: PageQuery) -> ScenarioListView:
    """List the scenarios of a benchmark, in its own order."""
    page = await PublicBenchmarks(services.engine.benchmarks).definitions(id, query)
    scenarios = [scenario.view() for scenario in page.items]
    return ScenarioListView(scenarios=scenarios, has_more=page.has_more, total_count=page.total_count)


@router.post("/{id}/scenarios", response_model_exclude_none=True)
async def change_scenarios(id: str, services: ServicesDep, body: BenchmarkScenariosChange) -> BenchmarkView:
    """Add scenarios to a benchmark, or take them out."""
    return (await services.engine.benchmarks.change_scenarios(id, body)).view()


@router.post("/{id}/archive", response_model_exclude_none=True)
async def archive(id: str, services: ServicesDep) -> BenchmarkView:
    """Hide a benchmark from lists; it cannot be run until it is unarchived."""
    return (await services.engine.benchmarks.archive(id, is_archived=True)).view()


@router.post("/{id}/unarchive", response_model_exclude_none=True)
async def unarchive(id: str, services: ServicesDep) -> BenchmarkView:
    """Show an archived benchmark again."""
    return (await services.engine.benchmarks.archive(id, is_archived=False)).view()


@router.post("/{id}/delete", response_model_exclude_none=True)
async def delete(id: str, services: ServicesDep, body: BenchmarkDeleteRequest | None = None) -> DeletedView:
    """Delete a benchmark (an extension); what was run with it stays readable. 409 while it is being run."""
    request = body or BenchmarkDeleteRequest()
    return await services.engine.deletions.benchmark(id, with_scenarios=request.with_scenarios)
