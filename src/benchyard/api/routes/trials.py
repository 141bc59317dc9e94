"""Trials by their own ids and over all jobs (an extension); a job lists its own trials too.

Runs of the SDK are no trials: `/v1/scenarios/runs` lists them.
"""

from fastapi import APIRouter
from fastapi.responses import Response

from benchyard.api.deps import ServicesDep
from benchyard.api.idempotency import RequestIdentity
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.pages import PageQuery, narrow
from benchyard.api.responses import list_answer
from benchyard.models.results.annotations import AnnotationRequest, LabelRequest
from benchyard.models.trials import AttemptKind, FailureKind, TrialListView, TrialState, TrialView

router = APIRouter(prefix="/v1/trials", tags=["benchmark jobs"], route_class=LazyRoute)


@router.get("", response_model=TrialListView)
async def list_trials(
    services: ServicesDep,
    query: PageQuery,
    job_id: str | None = None,
    scenario_id: str | None = None,
    benchmark_id: str | None = None,
    agent: str | None = None,
    state: TrialState | None = None,
    outcome: AttemptKind | None = None,
    kind: FailureKind | None = None,
    tag: str | None = None,
) -> Response:
    """List the trials of all jobs, newest first; scenario runs of the SDK are at `/v1/scenarios/runs`.

    `agent` is a name, or `agent@version:model`; `kind` is the party at fault of a failure.
    """
    wanted = narrow(
        query,
        job_id=job_id,
        scenario_id=scenario_id,
        benchmark_id=benchmark_id,
        agent=agent,
        state=state,
        outcome=outcome,
        failure_kind=kind,
        tag=tag,
    )
    page = await services.engine.jobs.trials_over_jobs(wanted)
    trials = await services.engine.trial_annotations.views(page.items)
    return await list_answer("trials", trials, page)


@router.get("/{id}", response_model_exclude_none=True)
async def retrieve(id: str, services: ServicesDep) -> TrialView:
    """Look a trial up, with what people noted."""
    trial = await services.engine.jobs.trial(id)
    (view,) = await services.engine.trial_annotations.views([trial])
    return view


@router.post("/{id}/annotate", response_model_exclude_none=True)
async def annotate(id: str, services: ServicesDep, body: AnnotationRequest) -> TrialView:
    """Add or remove tags of a trial, or write a note on it."""
    trial = await services.engine.jobs.trial(id)
    return await services.engine.trial_annotations.annotate(trial, body)


@router.post("/{id}/label", response_model_exclude_none=True)
async def label(id: str, services: ServicesDep, identity: RequestIdentity, body: LabelRequest) -> TrialView:
    """Give a verdict on a trial under the name of your key, or take it back; judges are compared with it."""
    trial = await services.engine.jobs.trial(id)
    key_id = identity.key_id or ""
    return await services.engine.trial_annotations.label(trial, body, key_id, services.keys.name_of(key_id))
