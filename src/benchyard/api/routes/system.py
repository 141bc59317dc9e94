"""The server itself: its health, doctor, metrics, disk, old results, and the reference of this API."""

import asyncio
import logging
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from benchyard.api.deps import ServicesDep
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.metrics import host_families, job_families
from benchyard.api.reference_page import POLICY, reference_page
from benchyard.api.responses import wait_for_answer
from benchyard.errors import StoreError
from benchyard.hosts import dependencies
from benchyard.models.base import Model
from benchyard.models.removals import CollectedResultsView, CollectResultsRequest
from benchyard.models.server import DependencyView, DiskView, DoctorView, FailedMode, MissingCapability

router = APIRouter(route_class=LazyRoute)


class HealthView(Model):
    """A sign of life."""

    status: Literal["ok"] = "ok"
    version: str


@router.get("/healthz", tags=["health"])
@router.head("/healthz", tags=["health"], include_in_schema=False)
async def health(request: Request) -> HealthView:
    """Say that the server is up."""
    return HealthView(version=request.app.version)


@router.get("/v1/doctor", tags=["doctor"])
async def doctor(services: ServicesDep) -> DoctorView:
    """Tell what devboxes can do here, and what to do about the rest."""
    capabilities, report = services.host.report()
    return DoctorView(
        driver=services.settings.driver,
        mode=report.mode,
        capabilities=sorted(capabilities),
        missing=[MissingCapability(capability=name, remedy=text) for name, text in report.missing.items()],
        tried=[FailedMode(mode=name, reason=text) for name, text in report.tried.items()],
        builder=services.builder.about,
        builder_remedy=services.builder.remedy,
        dependencies=await asyncio.to_thread(_dependencies),
        stand_ins=[image.stands_for for image in await services.engine.library.list() if image.stands_for],
    )


def _dependencies() -> list[DependencyView]:
    return [
        DependencyView(
            name=dependency.name,
            needed_for=dependency.needed_for,
            is_here=dependency.is_here,
            remedy=dependency.remedy,
        )
        for dependency in dependencies.ALL
    ]


_log = logging.getLogger(__name__)


@router.get("/metrics", tags=["metrics"], response_class=PlainTextResponse)
async def metrics(services: ServicesDep) -> PlainTextResponse:
    """Tell what the server does, in the text format of Prometheus."""
    leaks = await services.leakage.counts()
    families = [*host_families(services.live_devboxes.live(), services.host.activity(), leaks)]
    try:
        families += job_families(*await services.engine.jobs.counts())
    except StoreError as error:
        # Report the rest even while the database is away.
        _log.warning("jobs are not counted: %s", error.message)
    return PlainTextResponse(services.metrics.page(families), media_type=CONTENT_TYPE_PLAIN_0_0_4)


@router.get("/v1/server/disk", tags=["server"], response_model_exclude_none=True)
async def disk(services: ServicesDep) -> DiskView:
    """Tell what the server takes on its disk, by kind."""
    return await wait_for_answer(services, services.engine.disk_use.view())


@router.post("/v1/server/collect", tags=["server"], response_model_exclude_none=True)
async def collect(services: ServicesDep, body: CollectResultsRequest | None = None) -> CollectedResultsView:
    """Remove jobs and runs that ended longer ago than results are kept, or tell which would go."""
    request = body or CollectResultsRequest()
    return await wait_for_answer(
        services, services.engine.retention.collect(request.keep_days, dry_run=request.dry_run)
    )


_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
}


@router.get("/docs", include_in_schema=False, response_class=HTMLResponse)
async def reference(request: Request) -> HTMLResponse:
    """Show every route and model."""
    app = request.app
    if not hasattr(app.state, "reference_page"):
        # Build the schema here, not in the thread: it builds routes, as requests do at the same time.
        schema = app.openapi()
        app.state.reference_page = await asyncio.to_thread(reference_page, schema)
    return HTMLResponse(app.state.reference_page, headers=_HEADERS)
