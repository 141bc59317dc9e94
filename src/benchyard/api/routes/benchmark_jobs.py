"""Jobs: create, look up, list, follow, cancel, resume, retry, score again."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Request
from fastapi import Query as Parameter
from fastapi.responses import Response, StreamingResponse

from benchyard.api.deps import Services, ServicesDep
from benchyard.api.idempotency import RequestIdentity
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.pages import NamedQuery, PageQuery, narrow
from benchyard.api.responses import event_stream
from benchyard.engine.jobs.service import JOB_PREFIX
from benchyard.errors import UsageError
from benchyard.models.base import MAX_INT, RenameRequest
from benchyard.models.job_plans import JobPlanRequest, JobPlanView
from benchyard.models.jobs import (
    MOST_AGENTS,
    Artifact,
    ArtifactListView,
    BenchmarkJobListView,
    BenchmarkJobView,
    Job,
    JobRequest,
    JobRescoreRequest,
    JobState,
    RetryRequest,
)
from benchyard.models.pages import Query
from benchyard.models.removals import RemovalView
from benchyard.models.results.annotations import AnnotationRequest
from benchyard.models.trials import SuspectRule, TrialListView, TrialState
from benchyard.reports.estimates import with_costs
from benchyard.reports.outcomes import job_view

_LOOKED_AT = 50
"""Number of earlier jobs that are used to estimate the cost of trials."""

router = APIRouter(prefix="/v1/benchmark_jobs", tags=["benchmark jobs"], route_class=LazyRoute)


@router.post("", response_model_exclude_none=True)
async def create(services: ServicesDep, identity: RequestIdentity, body: JobRequest) -> BenchmarkJobView:
    """Begin a job: every agent tries every scenario, as often as is asked."""
    return await _view(services, await services.engine.jobs.create(identity.caller(JOB_PREFIX), body))


@router.post("/plan", response_model_exclude_none=True)
async def plan(services: ServicesDep, body: JobPlanRequest) -> JobPlanView:
    """Describe a job before it starts (an extension): its size, missing parts, and similar jobs' costs."""
    engine = services.engine
    found = await engine.jobs.plan(body)
    if not any(each.asks_models for each in found.agents):
        return found
    page = await engine.jobs.records.page(Query(limit=_LOOKED_AT))
    return with_costs(found, [await services.job_reports.short(engine.jobs, each) for each in page.items])


@router.get("", response_model_exclude_none=True)
async def list_jobs(
    services: ServicesDep, query: NamedQuery, status: str | None = None, tag: str | None = None
) -> BenchmarkJobListView:
    """List jobs, newest first; their outcomes leave the scenarios out.

    `status` and `tag` are extensions: `status=a,b` are several states.
    """
    where = {**query.where, "status": _states(status)} if status else query.where
    page = await services.engine.jobs.records.page(narrow(replace(query, where=where), tagged=tag))
    jobs = [await services.job_reports.short(services.engine.jobs, each) for each in page.items]
    return BenchmarkJobListView(jobs=jobs, has_more=page.has_more, total_count=page.total_count)


@router.get("/{id}", response_model=BenchmarkJobView)
async def retrieve(
    id: str,
    request: Request,
    services: ServicesDep,
    suspect: SuspectRule | None = None,
    scenarios: bool = True,
) -> Response:
    """Look a job up, with the outcome of each scenario.

    Extensions: `suspect` counts by another rule, `scenarios=false` leaves the scenarios out.
    """
    jobs = services.engine.jobs
    job = await jobs.get(id)
    report = await services.job_reports.view(jobs, job, with_scenarios=scenarios, suspect=suspect)
    return report.respond(request)


@router.post("/{id}/cancel", response_model_exclude_none=True)
async def cancel(id: str, services: ServicesDep, identity: RequestIdentity) -> BenchmarkJobView:
    """End a job early (an extension): what runs is stopped, and nothing more begins."""
    return await _view(services, await services.engine.jobs.cancel(id, _once(identity)))


@router.post("/{id}/resume", response_model_exclude_none=True)
async def resume(id: str, services: ServicesDep, identity: RequestIdentity) -> BenchmarkJobView:
    """Go on with the unfinished trials of a cancelled job (an extension)."""
    return await _view(services, await services.engine.jobs.resume(id, _once(identity)))


@router.post("/{id}/retry", response_model_exclude_none=True)
async def retry(
    id: str, services: ServicesDep, identity: RequestIdentity, body: RetryRequest | None = None
) -> BenchmarkJobView:
    """Try again what did not pass, crashed or has no score (an extension); the old trials are kept."""
    request = body or RetryRequest()
    return await _view(services, await services.engine.jobs.retry(id, request, _once(identity)))


@router.post("/{id}/rescore", response_model_exclude_none=True)
async def rescore(
    id: str, services: ServicesDep, identity: RequestIdentity, body: JobRescoreRequest | None = None
) -> BenchmarkJobView:
    """Score again from what is kept of the trials (an extension), with the scorers as they are now."""
    request = body or JobRescoreRequest()
    return await _view(services, await services.engine.jobs.rescore(id, request, _once(identity)))


@router.post("/{id}/rename", response_model_exclude_none=True)
async def rename(id: str, services: ServicesDep, body: RenameRequest) -> BenchmarkJobView:
    """Give a job another name (an extension)."""
    return await _view(services, await services.engine.jobs.rename(id, body.name))


@router.post("/{id}/annotate", response_model_exclude_none=True)
async def annotate(id: str, services: ServicesDep, body: AnnotationRequest) -> BenchmarkJobView:
    """Add or remove tags of a job, or write a note on it (an extension)."""
    return await _view(services, await services.engine.jobs.annotate(id, body))


@router.post("/{id}/pin", response_model_exclude_none=True)
async def pin(id: str, services: ServicesDep) -> BenchmarkJobView:
    """Keep a job however old its results are (an extension)."""
    return await _view(services, await services.engine.jobs.pin(id, pinned=True))


@router.post("/{id}/unpin", response_model_exclude_none=True)
async def unpin(id: str, services: ServicesDep) -> BenchmarkJobView:
    """Let a job expire like others again (an extension)."""
    return await _view(services, await services.engine.jobs.pin(id, pinned=False))


@router.post("/{id}/delete", response_model_exclude_none=True)
async def delete(id: str, services: ServicesDep, identity: RequestIdentity) -> RemovalView:
    """Delete a job that has ended, with its trials, runs and files (an extension); 409 while it runs."""
    return await services.engine.removals.job(id, _once(identity))


@router.get("/{id}/events", response_class=StreamingResponse)
async def events(
    id: str, services: ServicesDep, after: Annotated[int, Parameter(ge=0, le=MAX_INT)] = 0
) -> StreamingResponse:
    """Stream what happens in a job as server-sent events (an extension), until it has ended."""
    await services.engine.jobs.get(id)
    return event_stream(services, services.engine.jobs.follow(id, after))


@router.get("/{id}/trials", response_model_exclude_none=True)
async def list_trials(
    id: str,
    services: ServicesDep,
    query: PageQuery,
    status: TrialState | None = None,
    agent: Annotated[int | None, Parameter(ge=0, le=MOST_AGENTS)] = None,
    scenario_id: str | None = None,
    scenario_name: str | None = None,
) -> TrialListView:
    """List the trials of a job (an extension), newest first; `agent` counts from 0."""
    wanted = narrow(
        query,
        parent=id,
        status=status,
        agent=None if agent is None else str(agent),
        scenario_id=scenario_id,
        name=scenario_name,
    )
    page = await services.engine.jobs.page(id, wanted)
    trials = await services.engine.trial_annotations.views(page.items)
    return TrialListView(trials=trials, has_more=page.has_more, total_count=page.total_count)


@router.get("/{id}/artifacts", response_model_exclude_none=True)
async def list_artifacts(id: str, services: ServicesDep, query: PageQuery) -> ArtifactListView:
    """List the files that are kept with the trials of a job (an extension), a page of trials at a time."""
    engine = services.engine
    page = await engine.jobs.page(id, narrow(query, parent=id))
    ids = [each.scenario_run_id for each in page.items if each.scenario_run_id]
    runs = {each.id: each for each in await engine.scenario_runs.records.all({"id": ids})}
    found = [
        Artifact(trial_id=trial.id, scenario_run_id=run.id, **trace.model_dump())
        for trial in page.items
        if (run := runs.get(trial.scenario_run_id or "")) is not None
        for trace in run.traces
    ]
    last = page.items[-1].id if page.items else None
    return ArtifactListView(artifacts=found, has_more=page.has_more, last_trial_id=last)


async def _view(services: Services, job: Job) -> BenchmarkJobView:
    return job_view(job, await services.engine.jobs.trials(job), with_scenarios=True)


def _once(identity: RequestIdentity) -> str | None:
    return identity.seed.hex() if identity.seed else None


def _states(status: str) -> list[str]:
    known = [each.value for each in JobState]
    wanted = [each.strip().lower() for each in status.split(",") if each.strip()]
    for each in wanted:
        if each not in known:
            raise UsageError(f"unknown state {each[:50]!r}; known are: {', '.join(known)}", field="status")
    return wanted
