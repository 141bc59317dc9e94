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
from benchyard.api.responses import event_stream, list_answer
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

_LOOKED_AT = 50
"""Number of earlier jobs that are used to estimate the cost of trials."""

router = APIRouter(prefix="/v1/benchmark_jobs", tags=["benchmark jobs"], route_class=LazyRoute)


@router.post("", response_model=BenchmarkJobView)
async def create(
    request: Request, services: ServicesDep, identity: RequestIdentity, body: JobRequest
) -> Response:
    """Begin a job: every agent tries every scenario, as often as is asked."""
    job = await services.engine.jobs.create(identity.caller(JOB_PREFIX), body)
    return await _answer(request, services, job)


@router.post("/plan", response_model_exclude_none=True)
async def plan(services: ServicesDep, body: JobPlanRequest) -> JobPlanView:
    """Describe a job before it starts (an extension): its size, missing parts, and similar jobs' costs."""
    engine = services.engine
    found = await engine.jobs.plan(body)
    if not any(each.asks_models for each in found.agents):
        return found
    page = await engine.jobs.records.page(Query(limit=_LOOKED_AT))
    return with_costs(found, [await services.job_reports.short(engine.jobs, each) for each in page.items])


@router.get("", response_model=BenchmarkJobListView)
async def list_jobs(
    services: ServicesDep, query: NamedQuery, status: str | None = None, tag: str | None = None
) -> Response:
    """List jobs, newest first; their outcomes leave the scenarios out.

    `status` and `tag` are extensions: `status=a,b` are several states.
    """
    where = {**query.where, "status": _states(status)} if status else query.where
    jobs = services.engine.jobs
    page = await jobs.records.page(narrow(replace(query, where=where), tagged=tag))
    views = [await services.job_reports.view(jobs, each, with_scenarios=False) for each in page.items]
    return await list_answer("jobs", views, page)


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
    return await report.answer(request)


@router.post("/{id}/cancel", response_model=BenchmarkJobView)
async def cancel(
    id: str, request: Request, services: ServicesDep, identity: RequestIdentity, scenarios: bool = True
) -> Response:
    """End a job early (an extension): what runs is stopped, and nothing more begins."""
    job = await services.engine.jobs.cancel(id, _once(identity))
    return await _answer(request, services, job, scenarios=scenarios)


@router.post("/{id}/resume", response_model=BenchmarkJobView)
async def resume(
    id: str, request: Request, services: ServicesDep, identity: RequestIdentity, scenarios: bool = True
) -> Response:
    """Go on with the unfinished trials of a cancelled job (an extension)."""
    job = await services.engine.jobs.resume(id, _once(identity))
    return await _answer(request, services, job, scenarios=scenarios)


@router.post("/{id}/retry", response_model=BenchmarkJobView)
async def retry(
    id: str,
    request: Request,
    services: ServicesDep,
    identity: RequestIdentity,
    body: RetryRequest | None = None,
    scenarios: bool = True,
) -> Response:
    """Try again what did not pass, crashed or has no score (an extension); the old trials are kept."""
    job = await services.engine.jobs.retry(id, body or RetryRequest(), _once(identity))
    return await _answer(request, services, job, scenarios=scenarios)


@router.post("/{id}/rescore", response_model=BenchmarkJobView)
async def rescore(
    id: str,
    request: Request,
    services: ServicesDep,
    identity: RequestIdentity,
    body: JobRescoreRequest | None = None,
    scenarios: bool = True,
) -> Response:
    """Score again from what is kept of the trials (an extension), with the scorers as they are now."""
    job = await services.engine.jobs.rescore(id, body or JobRescoreRequest(), _once(identity))
    return await _answer(request, services, job, scenarios=scenarios)


@router.post("/{id}/rename", response_model=BenchmarkJobView)
async def rename(
    id: str, request: Request, services: ServicesDep, body: RenameRequest, scenarios: bool = True
) -> Response:
    """Give a job another name (an extension)."""
    job = await services.engine.jobs.rename(id, body.name)
    return await _answer(request, services, job, scenarios=scenarios)


@router.post("/{id}/annotate", response_model=BenchmarkJobView)
async def annotate(
    id: str, request: Request, services: ServicesDep, body: AnnotationRequest, scenarios: bool = True
) -> Response:
    """Add or remove tags of a job, or write a note on it (an extension)."""
    job = await services.engine.jobs.annotate(id, body)
    return await _answer(request, services, job, scenarios=scenarios)


@router.post("/{id}/pin", response_model=BenchmarkJobView)
async def pin(id: str, request: Request, services: ServicesDep, scenarios: bool = True) -> Response:
    """Keep a job however old its results are (an extension)."""
    job = await services.engine.jobs.pin(id, pinned=True)
    return await _answer(request, services, job, scenarios=scenarios)


@router.post("/{id}/unpin", response_model=BenchmarkJobView)
async def unpin(id: str, request: Request, services: ServicesDep, scenarios: bool = True) -> Response:
    """Let a job expire like others again (an extension)."""
    job = await services.engine.jobs.pin(id, pinned=False)
    return await _answer(request, services, job, scenarios=scenarios)


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


@router.get("/{id}/trials", response_model=TrialListView)
async def list_trials(
    id: str,
    services: ServicesDep,
    query: PageQuery,
    status: TrialState | None = None,
    agent: Annotated[int | None, Parameter(ge=0, le=MOST_AGENTS)] = None,
    scenario_id: str | None = None,
    scenario_name: str | None = None,
) -> Response:
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
    return await list_answer("trials", trials, page)


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


async def _answer(request: Request, services: Services, job: Job, *, scenarios: bool = True) -> Response:
    """Return a job as an answer to a change of it; `scenarios=false` leaves its scenarios out."""
    report = await services.job_reports.view(services.engine.jobs, job, with_scenarios=scenarios)
    return await report.answer(request)


def _once(identity: RequestIdentity) -> str | None:
    return identity.seed.hex() if identity.seed else None


def _states(status: str) -> list[str]:
    known = [each.value for each in JobState]
    wanted = [each.strip().lower() for each in status.split(",") if each.strip()]
    for each in wanted:
        if each not in known:
            raise UsageError(f"unknown state {each[:50]!r}; known are: {', '.join(known)}", field="status")
    return wanted
