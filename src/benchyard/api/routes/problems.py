"""Problems of jobs (extensions): signals over their trials, and groups of failures."""

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi import Query as Parameter
from fastapi.responses import Response

from benchyard.api.deps import ServicesDep
from benchyard.api.lazy_route import LazyRoute
from benchyard.models.reports.problems import BenchmarkProblemsView, ProblemsView

MOST_JOBS = 20

router = APIRouter(prefix="/v1", tags=["problems"], route_class=LazyRoute)


@router.get("/benchmark_jobs/{id}/problems", response_model=ProblemsView)
async def job_problems(id: str, request: Request, services: ServicesDep) -> Response:
    """Find the problems of a job's trials that have ended (an extension).

    An answer that is not complete has those of the trials that were read in its time; ask again for the rest.
    """
    job = await services.engine.jobs.get(id)
    report = await services.problem_reports.job(services.engine, job)
    return await report.answer(request)


@router.get("/benchmark_runs/{id}/problems", response_model=ProblemsView)
async def run_problems(id: str, request: Request, services: ServicesDep) -> Response:
    """Find the problems of a benchmark run's ended scenario runs (an extension), as those of a job.

    New are those that the benchmark run before it did not have.
    """
    job = await services.engine.reported_jobs.get(id)
    return await (await services.problem_reports.job(services.engine, job)).answer(request)


@router.get("/problems", response_model_exclude_none=True)
async def benchmark_problems(
    services: ServicesDep,
    benchmark: Annotated[str, Parameter(max_length=1024, description="id or name of a benchmark")],
    limit: Annotated[int, Parameter(ge=1, le=MOST_JOBS)] = 10,
) -> BenchmarkProblemsView:
    """Show the prevalence of problems over the last jobs and runs of a benchmark (an extension).

    The newest come first. Benchmark runs of the SDK are jobs like others here.
    """
    return await services.problem_reports.benchmark(services.engine, benchmark, limit)
