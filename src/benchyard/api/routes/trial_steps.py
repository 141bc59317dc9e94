"""Steps of trials' trajectories (extensions): index, ranges, single steps, searches, steps as they come."""

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from benchyard.api.deps import Services, ServicesDep
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.step_responses import (
    USUAL_FOUND,
    Cursor,
    First,
    FoundLimit,
    Last,
    LastEventId,
    SearchText,
    TraceName,
    find_answer,
    index_answer,
    live_answer,
    range_answer,
    step_answer,
)
from benchyard.errors import NotFound
from benchyard.models.runs import ScenarioRun
from benchyard.models.trajectories.steps import FoundStepsView, StepIndexView, StepRangeView

router = APIRouter(prefix="/v1/trials/{id}/steps", tags=["trajectories"], route_class=LazyRoute)


@router.get("/index", response_model=StepIndexView)
async def index(id: str, request: Request, services: ServicesDep, trace: TraceName = None) -> Response:
    """Get the index of a trial's steps: facts about each as columns, and its first 80 characters."""
    return await index_answer(services, request, await _run(services, id), trace)


@router.get("", response_model=StepRangeView)
async def list_steps(
    id: str,
    request: Request,
    services: ServicesDep,
    first: First = 1,
    last: Last = None,
    trace: TraceName = None,
) -> Response:
    """Get steps of a trial by their numbers; `next` says where to go on if there are too many for one answer.

    The texts of a giant step are cut; its own address has it whole.
    """
    return await range_answer(services, request, await _run(services, id), trace, (first, last))


@router.get("/find", response_model=FoundStepsView)
async def find(
    id: str,
    request: Request,
    services: ServicesDep,
    q: SearchText,
    limit: FoundLimit = USUAL_FOUND,
    trace: TraceName = None,
) -> Response:
    """Find the steps of a trial that contain a text, in upper or lower case."""
    return await find_answer(services, request, await _run(services, id), trace, q, limit)


@router.get("/live", response_class=StreamingResponse)
async def live(
    id: str, services: ServicesDep, after: Cursor = None, last_event_id: LastEventId = None
) -> StreamingResponse:
    """Stream the steps of a trial's agent as server-sent events, from its calls of models, until it ends.

    `after`, or the header Last-Event-ID, is the cursor of the last event that was received.
    """
    return live_answer(services, await services.engine.trial_steps.follow(id, last_event_id or after))


@router.get("/{number}")
async def step(id: str, number: int, services: ServicesDep, trace: TraceName = None) -> Response:
    """Get one step of a trial whole, as its author wrote it."""
    return await step_answer(services, await _run(services, id), trace, number)


async def _run(services: Services, trial_id: str) -> ScenarioRun:
    trial = await services.engine.jobs.trial(trial_id)
    if trial.scenario_run_id is None:
        raise NotFound(
            f"trial {trial.id} has not begun, so that it has no trajectory; wait until it has ended"
        )
    return await services.engine.scenario_runs.get(trial.scenario_run_id)
