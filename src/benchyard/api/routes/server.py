"""The server itself (an extension): what it takes on its disk, and the removal of old results."""

from fastapi import APIRouter

from benchyard.api.deps import ServicesDep
from benchyard.api.holding import held
from benchyard.api.routing import LateRoute
from benchyard.models.disk import DiskView
from benchyard.models.removals import CollectedResultsView, CollectResultsRequest

router = APIRouter(prefix="/v1/server", tags=["server"], route_class=LateRoute)


@router.get("/disk", response_model_exclude_none=True)
async def disk(services: ServicesDep) -> DiskView:
    """Tell what the server takes on its disk, by kind."""
    return await held(services, services.engine.disk_use.view())


@router.post("/collect", response_model_exclude_none=True)
async def collect(services: ServicesDep, body: CollectResultsRequest | None = None) -> CollectedResultsView:
    """Remove jobs and runs that ended longer ago than results are kept, or tell which would go."""
    asked = body or CollectResultsRequest()
    return await held(services, services.engine.retention.collect(asked.keep_days, dry_run=asked.dry_run))
