"""A devbox's log."""

import asyncio

from fastapi import APIRouter, Response
from fastapi.responses import StreamingResponse

from benchyard.api.deps import ServicesDep
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.responses import event_stream
from benchyard.models.executions import LogLine, LogsView

router = APIRouter(prefix="/v1/devboxes/{devbox_id}/logs", tags=["logs"], route_class=LazyRoute)


@router.get("", response_model=LogsView, response_model_exclude_none=True)
async def list_logs(
    devbox_id: str, services: ServicesDep, execution_id: str | None = None, shell_name: str | None = None
) -> Response:
    """Get the log, oldest first, of all or of one execution or shell."""
    lines = await services.engine.logs.lines(devbox_id, execution_id, shell_name)
    # There may be many lines: they are written as JSON in a thread.
    return Response(await asyncio.to_thread(_json, lines), media_type="application/json")


def _json(lines: list[LogLine]) -> str:
    return LogsView(logs=lines).model_dump_json(exclude_none=True)


@router.get("/tail", response_class=StreamingResponse)
async def tail(devbox_id: str, services: ServicesDep) -> StreamingResponse:
    """Stream lines as server-sent events as they come, until the devbox has ended."""
    return event_stream(services, await services.engine.logs.follow(devbox_id))
