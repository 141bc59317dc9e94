"""Reports of jobs and benchmark runs, and the trials of a job as columns (extensions)."""

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi import Query as Parameter
from fastapi.responses import Response

from benchyard.api.deps import Services, ServicesDep
from benchyard.api.job_reports import ScenarioGroups
from benchyard.api.lazy_route import LazyRoute
from benchyard.errors import UsageError
from benchyard.models.base import ShortText
from benchyard.models.reports.job_report import ReportView, TableView
from benchyard.models.trials import SuspectRule
from benchyard.reports.trial_table import columns_of

ClusterKey = Annotated[ShortText | None, Parameter(description="metadata key that scenarios are grouped by")]
ColumnNames = Annotated[str | None, Parameter(max_length=2000, description="names of columns: a,b,c")]

_IDS_AT_ONCE = 500

router = APIRouter(tags=["reports"], route_class=LazyRoute)


@router.get("/v1/benchmark_jobs/{id}/report", response_model=ReportView)
async def report_job(
    id: str,
    request: Request,
    services: ServicesDep,
    suspect: SuspectRule | None = None,
    cluster: ClusterKey = None,
) -> Response:
    """Report on a job (an extension): means with intervals, pass@k and pass^k, ranks, costs, power.

    Each figure has the number of scenarios that it rests on. Of a job that is running, the report may be a
    moment old.
    """
    jobs = services.engine.jobs
    job = await jobs.get(id)
    groups = await _groups(services, job.spec.scenario_ids, cluster)
    report = await services.job_reports.report(jobs, job, suspect, groups)
    return await report.answer(request)


@router.get("/v1/benchmark_jobs/{id}/table", response_model=TableView)
async def tabulate_job(
    id: str,
    request: Request,
    services: ServicesDep,
    columns: ColumnNames = None,
    suspect: SuspectRule | None = None,
) -> Response:
    """Get the trials of a job as columns (an extension), in the order of its plan.

    Texts that repeat come as a dictionary and codes into it.
    """
    jobs = services.engine.jobs
    job = await jobs.get(id)
    report = await services.job_reports.table(jobs, job, columns_of(columns), suspect)
    return await report.answer(request)


@router.get("/v1/benchmark_runs/{id}/table", response_model=TableView)
async def tabulate_run(
    id: str, request: Request, services: ServicesDep, columns: ColumnNames = None
) -> Response:
    """Get the scenario runs of a benchmark run as columns (an extension), named as those of trials.

    Several runs of a scenario are its attempts, in the order in which they were begun.
    """
    jobs = services.engine.reported_jobs
    job = await jobs.get(id)
    return await (await services.job_reports.table(jobs, job, columns_of(columns), None)).answer(request)


@router.get("/v1/benchmark_runs/{id}/report", response_model=ReportView)
@router.get("/v1/benchmarks/runs/{id}/report", response_model=ReportView, include_in_schema=False)
async def report_run(
    id: str, request: Request, services: ServicesDep, cluster: ClusterKey = None
) -> Response:
    """Report on a benchmark run (an extension) as on a job with one agent.

    Scenario runs that timed out count 0; those that were cancelled or failed are unscored.
    """
    engine = services.engine
    run = await engine.benchmark_runs.get(id)
    benchmark = await engine.benchmarks.records.find(run.benchmark_id)
    names = await _names(services, run.scenario_ids)
    groups = await _groups(services, run.scenario_ids, cluster)
    name = run.benchmark_id if benchmark is None else benchmark.name
    report = await services.job_reports.run_report(engine.benchmark_runs, run, name, names, groups)
    return await report.answer(request)


async def _names(services: Services, ids: list[str]) -> dict[str, str]:
    """Return the names of scenarios that are still there."""
    names: dict[str, str] = {}
    for start in range(0, len(ids), _IDS_AT_ONCE):
        scenarios = await services.engine.scenarios.records.all({"id": ids[start : start + _IDS_AT_ONCE]})
        names |= {each.id: each.name for each in scenarios}
    return names


async def _groups(services: Services, ids: list[str], key: str | None) -> ScenarioGroups | None:
    """Return the groups of scenarios by a metadata key; raises UsageError if none of them has it."""
    if key is None:
        return None
    groups: dict[str, str] = {}
    for start in range(0, len(ids), _IDS_AT_ONCE):
        scenarios = await services.engine.scenarios.records.all({"id": ids[start : start + _IDS_AT_ONCE]})
        groups |= {each.id: each.metadata[key] for each in scenarios if key in each.metadata}
    if ids and not groups:
        raise UsageError(f"none of its scenarios has {key!r} in its metadata", field="cluster")
    return ScenarioGroups(key, groups)
