"""Numbers for Prometheus (an extension)."""

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

from benchyard.api.deps import ServicesDep
from benchyard.api.exposition import CONTENT_TYPE, written

router = APIRouter(tags=["metrics"])


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(services: ServicesDep) -> PlainTextResponse:
    """Tell what the server does, in the text format of Prometheus."""
    families = services.metrics.families(services.roster.live(), services.host.activity())
    return PlainTextResponse(written(families), media_type=CONTENT_TYPE)
