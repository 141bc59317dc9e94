"""Results over many jobs and runs (extensions): trends, histories of scenarios, insights of benchmarks."""

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi import Query as Parameter
from fastapi.responses import Response

from benchyard.api import history_reports
from benchyard.api.deps import ServicesDep
from benchyard.api.lazy_route import LazyRoute
from benchyard.models.base import ShortText
from benchyard.models.reports.trends import InsightsView, ScenarioHistoryView, ScorerNoiseView, TrendsView
from benchyard.reports.trends import noise_of_scores

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
    report = await history_reports.trends(services, benchmark, agent)
    return await report.answer(request)


@router.get("/scenarios/{id}/history", response_model=ScenarioHistoryView)
async def scenario_history(id: str, request: Request, services: ServicesDep) -> Response:
    """Return the results at a scenario over all jobs and revisions, its flakiness, and its scorers' noise."""
    report = await history_reports.history(services, id)
    return await report.answer(request)


@router.get("/trials/{id}/scorer_noise", response_model_exclude_none=True)
async def scorer_noise(id: str, services: ServicesDep) -> ScorerNoiseView:
    """Return how often scoring what a trial left again changed its score, by the same revision of scorers."""
    trial = await services.engine.jobs.trial(id)
    return noise_of_scores([trial.scores_of_revision()])


@router.get("/benchmarks/{id}/insights", response_model=InsightsView)
async def benchmark_insights(id: str, request: Request, services: ServicesDep) -> Response:
    """Return a leader board with ranks, what each scenario tells of agents, and the power of comparisons."""
    report = await history_reports.insights(services, id)
    return await report.answer(request)
