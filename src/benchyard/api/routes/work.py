"""Work of runs and trials (an extension): changed files, the diff, contents, a devbox on it."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi import Query as Parameter
from fastapi.responses import Response

from benchyard.api.deps import ServicesDep, services_of
from benchyard.api.idempotency import RequestIdentity
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.responses import wait_for_answer
from benchyard.api.routes.devboxes import DEVBOX_PREFIX
from benchyard.engine.runs.work_changes import MOST_CONTENT_BYTES, MOST_FILES, WorkWish
from benchyard.errors import Conflict
from benchyard.models.base import MAX_INT
from benchyard.models.devboxes import DevboxView
from benchyard.models.results.work import OpenRequest, WorkFilesView, WorkScope, WorkSide

router = APIRouter(tags=["scenario runs"], route_class=LazyRoute)

_TRIAL = "/v1/trials/{id}"
_RUN = "/v1/scenarios/runs/{id}"
_SIZE = "x-benchyard-size"
"""Header with the size of the whole file."""


async def _run_id(id: str, request: Request) -> str:
    """Return the scenario run that a path names, itself or by its trial; raises Conflict if there is none."""
    if not request.url.path.startswith("/v1/trials/"):
        return id
    trial = await services_of(request).engine.jobs.trial(id)
    if trial.scenario_run_id is None:
        raise Conflict(f"trial {trial.id} is {trial.state}, and nothing was worked on in it")
    return trial.scenario_run_id


RunOfPath = Annotated[str, Depends(_run_id)]


async def _wish(scope: WorkScope = "work", path: str | None = None) -> WorkWish:
    return WorkWish(scope, path or None)


Wish = Annotated[WorkWish, Depends(_wish)]


@router.get(_TRIAL + "/files", response_model=WorkFilesView)
@router.get(_RUN + "/files", response_model=WorkFilesView)
async def list_files(
    run_id: RunOfPath,
    services: ServicesDep,
    wish: Wish,
    limit: Annotated[int, Parameter(ge=1, le=MOST_FILES)] = 1000,
    starting_after: str | None = None,
) -> Response:
    """List the paths that the work changed, by path; the cursor is the last path of a page.

    `scope=all` also has what lies beside the work; with `path` only this and what is below it is listed.
    """
    found = services.engine.work_changes.files(run_id, wish, limit, starting_after)
    return Response(await wait_for_answer(services, found), media_type="application/json")


@router.get(_TRIAL + "/files/content", response_class=Response)
@router.get(_RUN + "/files/content", response_class=Response)
async def read_file(
    run_id: RunOfPath,
    services: ServicesDep,
    path: str,
    side: WorkSide = "after",
    offset: Annotated[int, Parameter(ge=0, le=MAX_INT)] = 0,
    limit: Annotated[int, Parameter(ge=1, le=MOST_CONTENT_BYTES)] = 1024**2,
) -> Response:
    """Get a part of a file as the work left it, or as it was before; links are not followed.

    `x-benchyard-size` is the size of the whole. Values of secrets are hidden.
    """
    reading = services.engine.work_changes.content(run_id, path, side, offset, limit)
    content = await wait_for_answer(services, reading)
    headers = {_SIZE: str(content.size), "x-content-type-options": "nosniff"}
    return Response(content.data, media_type="application/octet-stream", headers=headers)


@router.get(_TRIAL + "/diff", response_class=Response)
@router.get(_RUN + "/diff", response_class=Response)
async def read_diff(run_id: RunOfPath, services: ServicesDep, wish: Wish) -> Response:
    """Get the work as a unified diff against the start, at most 4 MiB; lines with # say what is left out.

    Values of secrets are hidden, so a diff with some cannot be applied.
    """
    diff = await wait_for_answer(services, services.engine.work_changes.diff(run_id, wish))
    headers = {"x-content-type-options": "nosniff"}
    return Response(diff, media_type="text/x-diff; charset=utf-8", headers=headers)


@router.post(_TRIAL + "/open")
@router.post(_RUN + "/open")
async def open_devbox(
    run_id: RunOfPath, services: ServicesDep, identity: RequestIdentity, body: OpenRequest | None = None
) -> DevboxView:
    """Start a devbox on what the work left, and answer at once; it has no secrets of the agent."""
    asked = identity.caller(DEVBOX_PREFIX)
    devbox = await services.engine.work_changes.open(run_id, asked, body.name if body else None)
    return services.engine.tunnels.view(devbox)
