"""Numbers for Prometheus (an extension)."""

import logging

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

from benchyard.api.deps import ServicesDep
from benchyard.api.exposition import CONTENT_TYPE, written
from benchyard.api.metrics import of_jobs
from benchyard.api.routing import LateRoute
from benchyard.errors import StoreError

router = APIRouter(tags=["metrics"], route_class=LateRoute)
_log = logging.getLogger(__name__)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(services: ServicesDep) -> PlainTextResponse:
    """Tell what the server does, in the text format of Prometheus."""
    leaks = await services.leakage.counts()
    families = [*services.metrics.families(services.live_devboxes.live(), services.host.activity(), leaks)]
    try:
        families += of_jobs(*await services.engine.jobs.counts())
    except StoreError as error:
        # While the database is away, the rest is all the more worth knowing.
        _log.warning("jobs are not counted: %s", error.message)
    return PlainTextResponse(written(families), media_type=CONTENT_TYPE)
