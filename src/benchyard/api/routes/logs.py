"""A devbox's log."""

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from benchyard.api.deps import ServicesDep
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.responses import event_stream
from benchyard.models.executions import LogsView

router = APIRouter(prefix="/v1/devboxes/{devbox_id}/logs", tags=["logs"], route_class=LazyRoute)


@router.get("", response_model_exclude_none=True)
async def list_logs(
    devbox_id: str, services: ServicesDep, execution_id: str | None = None, shell_name: str | None = None
) -> LogsView:
    """Get the log, oldest first, of all or of one execution or shell."""
    return LogsView(logs=await services.engine.logs.lines(devbox_id, execution_id, shell_name))


@router.get("/tail", response_class=StreamingResponse)
async def tail(devbox_id: str, services: ServicesDep) -> StreamingResponse:
    """Stream lines as server-sent events as they come, until the devbox has ended."""
    return event_stream(services, await services.engine.logs.follow(devbox_id))
