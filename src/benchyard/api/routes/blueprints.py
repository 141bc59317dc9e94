"""Blueprints: build, look up, list, read the log, preview, delete."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter
from fastapi import Query as Parameter
from fastapi.responses import StreamingResponse

from benchyard.api.deps import ServicesDep
from benchyard.api.idempotency import RequestIdentity
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.metadata_routes import add_metadata_routes
from benchyard.api.pages import MetadataFilters, PageQuery
from benchyard.api.responses import event_stream
from benchyard.engine.devboxes.executions import byte_offset
from benchyard.models.blueprints import (
    BlueprintListView,
    BlueprintPreviewView,
    BlueprintRequest,
    BlueprintStatus,
    BlueprintView,
    BuildLogView,
)
from benchyard.models.pages import Where

router = APIRouter(prefix="/v1/blueprints", tags=["blueprints"], route_class=LazyRoute)

BLUEPRINT_PREFIX = "bpt_"
_PRESENT: Where = {"state": "created"}


@router.post("", response_model_exclude_none=True)
async def create(services: ServicesDep, identity: RequestIdentity, body: BlueprintRequest) -> BlueprintView:
    """Make a blueprint and answer at once; it is built in the background."""
    return (await services.engine.blueprints.create(identity.caller(BLUEPRINT_PREFIX), body)).view()


@router.get("", response_model_exclude_none=True)
async def list_blueprints(
    services: ServicesDep,
    query: PageQuery,
    filters: MetadataFilters,
    name: str | None = None,
    status: BlueprintStatus | None = None,
) -> BlueprintListView:
    """List blueprints, newest first."""
    asked = {"name": name, "status": status.value if status else None}
    where = {**_PRESENT, **filters, **{key: value for key, value in asked.items() if value}}
    page = await services.engine.blueprints.records.page(replace(query, where=where))
    blueprints = [blueprint.view() for blueprint in page.items]
    return BlueprintListView(blueprints=blueprints, has_more=page.has_more, total_count=page.total_count)


@router.get("/list_public")
async def list_public(query: PageQuery) -> BlueprintListView:
    """List public blueprints; this server has none."""
    return BlueprintListView(
        blueprints=[], has_more=False, total_count=0 if query.include_total_count else None
    )


add_metadata_routes(router, lambda services: services.engine.blueprints.records, _PRESENT)


@router.post("/preview")
async def preview(services: ServicesDep, body: BlueprintRequest) -> BlueprintPreviewView:
    """Describe a build as one Dockerfile; nothing is built."""
    return BlueprintPreviewView(dockerfile=await services.engine.blueprints.preview(body))


@router.get("/{id}", response_model_exclude_none=True)
async def retrieve(id: str, services: ServicesDep) -> BlueprintView:
    """Look a blueprint up; a deleted one too."""
    return (await services.engine.blueprints.records.get(id)).view()


@router.post("/{id}/delete")
async def delete(id: str, services: ServicesDep) -> dict[str, str]:
    """Delete a blueprint; what stands on it stays."""
    await services.engine.blueprints.delete(id)
    return {}


@router.get("/{id}/logs")
async def logs(id: str, services: ServicesDep) -> BuildLogView:
    """Get the log of a build so far, oldest line first."""
    return BuildLogView(blueprint_id=id, logs=await services.engine.blueprints.logs(id))


@router.get("/{id}/logs/stream", response_class=StreamingResponse)
async def stream_logs(
    id: str, services: ServicesDep, offset: Annotated[str | None, Parameter()] = None
) -> StreamingResponse:
    """Stream the log of a build (an extension) as server-sent events, from a byte offset to its end."""
    return event_stream(services, await services.engine.blueprints.follow(id, byte_offset(offset)))
