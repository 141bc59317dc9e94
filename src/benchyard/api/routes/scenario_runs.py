"""Scenario runs: start, look up, list, score, complete, cancel, read the logs, add traces."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Request
from fastapi import Query as Parameter
from fastapi.responses import Response, StreamingResponse

from benchyard.api.deps import Services, ServicesDep
from benchyard.api.idempotency import RequestIdentity
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.links import outside_url
from benchyard.api.pages import OF_A_JOB, NamedQuery, narrow
from benchyard.api.responses import ZIP, archive_response, bytes_stream, wait_for_answer
from benchyard.engine.objects import OBJECT_PREFIX
from benchyard.engine.runs.start import RUN_PREFIX
from benchyard.models.base import RenameRequest
from benchyard.models.model_access import RunGatewayRequest, RunGatewayView
from benchyard.models.removals import RemovalView
from benchyard.models.results.annotations import AnnotationRequest, LabelRequest
from benchyard.models.runs import (
    RunExecutionListView,
    RunListView,
    RunRescoreRequest,
    RunState,
    RunWaitRequest,
    ScenarioRun,
    ScenarioRunRequest,
    ScenarioRunView,
    TraceRequest,
)

router = APIRouter(prefix="/v1/scenarios", tags=["scenario runs"], route_class=LazyRoute)


@router.post("/start_run", response_model_exclude_none=True)
async def start(
    services: ServicesDep, identity: RequestIdentity, body: ScenarioRunRequest
) -> ScenarioRunView:
    """Start a run and answer at once; its devbox comes up in the background."""
    return await _view(services, await services.engine.scenario_runs.start(identity.caller(RUN_PREFIX), body))


@router.get("/runs", response_model_exclude_none=True)
async def list_runs(
    services: ServicesDep,
    query: NamedQuery,
    benchmark_run_id: str | None = None,
    scenario_id: str | None = None,
    state: RunState | None = None,
    tag: str | None = None,
    *,
    own: bool = False,
) -> RunListView:
    """List scenario runs, newest first; those of jobs too, whose trials `/v1/trials` lists.

    Extensions: `own` leaves out those of jobs and benchmark runs; `tag` has those with a tag.
    """
    wanted = narrow(query, parent=benchmark_run_id, scenario_id=scenario_id, status=state, tagged=tag)
    wanted = replace(wanted, without=(OF_A_JOB, "parent")) if own else wanted
    page = await services.engine.scenario_runs.records.page(wanted)
    noted = await services.engine.trial_annotations.of([run.id for run in page.items])
    runs = [run.view(annotation=noted.get(run.id)) for run in page.items]
    return RunListView(runs=runs, has_more=page.has_more, total_count=page.total_count)


@router.get("/runs/{id}", response_model_exclude_none=True)
async def retrieve(id: str, services: ServicesDep) -> ScenarioRunView:
    """Look a run up."""
    return await _view(services, await services.engine.scenario_runs.get(id))


@router.post("/runs/{id}/score", response_model_exclude_none=True)
async def score(id: str, services: ServicesDep, identity: RequestIdentity) -> ScenarioRunView:
    """Begin to score a run and answer at once."""
    run = await services.engine.scenario_runs.score(id, identity.new_id("score_"))
    return await _view(services, run)


@router.post("/runs/{id}/rescore", response_model_exclude_none=True)
async def rescore(
    id: str, services: ServicesDep, identity: RequestIdentity, body: RunRescoreRequest | None = None
) -> ScenarioRunView:
    """Begin to score a run again from what it left (an extension), and answer at once; 409 says why not."""
    newest = (body or RunRescoreRequest()).newest
    run = await services.engine.scenario_runs.rescore(id, identity.new_id("rescore_"), newest=newest)
    return await _view(services, run)


@router.post("/runs/{id}/wait_for_state", response_model_exclude_none=True)
async def wait(id: str, services: ServicesDep, body: RunWaitRequest) -> ScenarioRunView:
    """Wait until a run has one of the states (an extension); 408 when that takes too long."""
    return await _view(
        services, await wait_for_answer(services, services.engine.scenario_runs.wait(id, body))
    )


@router.post("/runs/{id}/complete", response_model_exclude_none=True)
async def complete(id: str, services: ServicesDep) -> ScenarioRunView:
    """End a run and shut its devbox down."""
    return await _view(services, await wait_for_answer(services, services.engine.scenario_runs.complete(id)))


@router.post("/runs/{id}/cancel", response_model_exclude_none=True)
async def cancel(id: str, services: ServicesDep) -> ScenarioRunView:
    """End a run without a score and shut its devbox down."""
    return await _view(services, await services.engine.scenario_runs.cancel(id))


@router.post("/runs/{id}/rename", response_model_exclude_none=True)
async def rename(id: str, services: ServicesDep, body: RenameRequest) -> ScenarioRunView:
    """Give a run that belongs to no job another name (an extension)."""
    return await _view(services, await services.engine.scenario_runs.rename(id, body.name))


@router.post("/runs/{id}/annotate", response_model_exclude_none=True)
async def annotate(id: str, services: ServicesDep, body: AnnotationRequest) -> ScenarioRunView:
    """Add or remove tags of a run that belongs to no job, or write a note on it (an extension)."""
    engine = services.engine
    run = await engine.scenario_runs.get(id)
    noted = await engine.trial_annotations.annotate_run(run, body)
    return run.view(await engine.scenario_runs.scenario(run), noted)


@router.post("/runs/{id}/label", response_model_exclude_none=True)
async def label(
    id: str, services: ServicesDep, identity: RequestIdentity, body: LabelRequest
) -> ScenarioRunView:
    """Give a verdict on a run that belongs to no job, under the name of your key (an extension).

    One without a value takes it back. Verdicts on trials are given at `/v1/trials`.
    """
    engine, key_id = services.engine, identity.key_id or ""
    run = await engine.scenario_runs.get(id)
    noted = await engine.trial_annotations.label_run(run, body, key_id, services.keys.name_of(key_id))
    return run.view(await engine.scenario_runs.scenario(run), noted)


@router.post("/runs/{id}/delete", response_model_exclude_none=True)
async def delete(id: str, services: ServicesDep, identity: RequestIdentity) -> RemovalView:
    """Delete a run that has ended and belongs to no job, with its files (an extension)."""
    return await services.engine.removals.scenario_run(id, identity.seed.hex() if identity.seed else None)


@router.post("/runs/{id}/download_logs", response_class=StreamingResponse)
async def download_logs(id: str, services: ServicesDep) -> Response:
    """Get the logs of a run as a zip without folders."""
    run = await services.engine.scenario_runs.get(id)
    return await archive_response(services, services.engine.run_logs.pack([run]), ZIP)


@router.get("/runs/{id}/executions", response_model_exclude_none=True)
async def list_executions(
    id: str,
    services: ServicesDep,
    lines: Annotated[int, Parameter(ge=0, le=1000)] = 40,
    limit: Annotated[int, Parameter(ge=1, le=100)] = 10,
    *,
    of_agent: bool = False,
) -> RunExecutionListView:
    """List the last commands of a run and the end of what they printed (an extension), without secrets.

    With `of_agent` only those that are the agent of a trial at work, one for each round.
    """
    run = await services.engine.scenario_runs.get(id)
    return await services.engine.run_logs.executions(run, lines=lines, limit=limit, of_agent=of_agent)


@router.post("/runs/{id}/open_gateway", response_model_exclude_none=True)
async def open_gateway(
    id: str, request: Request, services: ServicesDep, body: RunGatewayRequest
) -> RunGatewayView:
    """Let your own code call a model, metered and recorded with the run (an extension)."""
    opened = await services.engine.run_gateways.open(id, body)
    return RunGatewayView(
        url=opened.url,
        outside_url=outside_url(request, id, opened.choice.provider),
        token=opened.token,
        provider=opened.choice.provider,
        model=opened.choice.model or None,
    )


@router.post("/runs/{id}/traces", response_model_exclude_none=True)
async def add_trace(
    id: str, services: ServicesDep, identity: RequestIdentity, body: TraceRequest
) -> ScenarioRunView:
    """Keep a file or a trajectory with a run (an extension)."""
    return await _view(services, await services.engine.traces.add(id, identity.caller(OBJECT_PREFIX), body))


@router.get("/runs/{id}/traces/{name}", response_class=StreamingResponse)
async def read_trace(id: str, name: str, services: ServicesDep) -> Response:
    """Get a trace of a run (an extension)."""
    return bytes_stream(services, await services.engine.traces.content(id, name))


async def _view(services: Services, run: ScenarioRun) -> ScenarioRunView:
    noted = await services.engine.trial_annotations.of([run.id])
    return run.view(await services.engine.scenario_runs.scenario(run), noted.get(run.id))
