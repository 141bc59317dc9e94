"""Results over many jobs and runs (extensions): trends, histories of scenarios, insights of benchmarks."""

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi import Query as Parameter
from fastapi.responses import Response

from benchyard.api import history_reports
from benchyard.api.deps import ServicesDep
from benchyard.api.lazy_route import LazyRoute
from benchyard.models.base import ShortText
from benchyard.models.trends import InsightsView, ScenarioHistoryView, TrendsView

router = APIRouter(prefix="/v1", tags=["trends"], route_class=LazyRoute)


@router.get("/trends", response_model=TrendsView)
async def trends(
    request: Request,
    services: ServicesDep,
    benchmark: Annotated[ShortText, Parameter(description="id of the benchmark")],
    agent: Annotated[
        ShortText | None, Parameter(description="only this agent: its name, or name:model")
    ] = None,
) -> Response:
    """Return a benchmark's agents over time: scores, costs and times, each tested against the pooled past."""
    return (await history_reports.trends(services, benchmark, agent)).respond(request)


@router.get("/scenarios/{id}/history", response_model=ScenarioHistoryView)
async def scenario_history(id: str, request: Request, services: ServicesDep) -> Response:
    """Return the results at a scenario over all jobs and revisions, its flakiness, and its scorers' noise."""
    return (await history_reports.history(services, id)).respond(request)


@router.get("/benchmarks/{id}/insights", response_model=InsightsView)
async def benchmark_insights(id: str, request: Request, services: ServicesDep) -> Response:
    """Return a leader board with ranks, what each scenario tells of agents, and the power of comparisons."""
    return (await history_reports.insights(services, id)).respond(request)
