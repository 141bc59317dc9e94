"""Objects: create, upload, complete, download, list, delete."""

import re
from dataclasses import replace
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request
from fastapi import Query as Parameter
from fastapi.responses import Response, StreamingResponse

from benchyard.api.deps import ServicesDep
from benchyard.api.errors import RangeNotThere, error_response
from benchyard.api.idempotency import RequestIdentity
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.links import UPLOAD_SECONDS, DownloadId, UploadId, signed_link
from benchyard.api.metadata_routes import add_metadata_routes
from benchyard.api.pages import PageQuery
from benchyard.engine.objects import OBJECT_PREFIX
from benchyard.models.base import RenameRequest
from benchyard.models.objects import (
    ContentType,
    ObjectDownloadView,
    ObjectListView,
    ObjectRequest,
    ObjectState,
    ObjectView,
    StoredObject,
)
from benchyard.models.pages import Query, Where
from benchyard.models.runs import RUN_KEY

router = APIRouter(tags=["objects"], route_class=LazyRoute)

_PRESENT: Where = {"status": [state for state in ObjectState if state != ObjectState.DELETED]}
_RANGE = re.compile(r"bytes=(?P<first>\d{1,18})-(?P<to>\d{1,18})?|bytes=-(?P<last>\d{1,18})", re.ASCII)
_WEEK_SECONDS = 7 * 24 * 3600


async def _object_query(
    query: PageQuery,
    name: str | None = None,
    search: str | None = None,
    content_type: ContentType | None = None,
    state: ObjectState | None = None,
    origin: Literal["users", "runs"] | None = None,
) -> Query:
    # `origin` is an extension: objects that users uploaded, or those kept with runs.
    filters = {"name": name, "content_type": content_type, "status": state}
    where = {**_PRESENT, **{key: value for key, value in filters.items() if value}}
    if origin is not None:
        where[f"labelled.{RUN_KEY}"] = "yes" if origin == "runs" else "no"
    return replace(query, search=search, where=where)


ObjectQuery = Annotated[Query, Depends(_object_query)]


@router.post("/v1/objects")
async def create(
    body: ObjectRequest, request: Request, services: ServicesDep, identity: RequestIdentity
) -> ObjectView:
    """Make an object; its content goes to the answer's `upload_url`."""
    stored = await services.objects.create(identity.new_id(OBJECT_PREFIX), body, identity.body_hash)
    return _view(request, stored)


@router.get("/v1/objects")
async def list_objects(request: Request, services: ServicesDep, query: ObjectQuery) -> ObjectListView:
    """List objects, newest first; deleted ones only when asked for by `state`."""
    page = await services.objects.page(query)
    objects = [_view(request, record) for record in page.items]
    return ObjectListView(objects=objects, has_more=page.has_more, total_count=page.total_count)


@router.get("/v1/objects/list_public")
async def list_public(query: ObjectQuery) -> ObjectListView:
    """List public objects; this server has none."""
    return ObjectListView(objects=[], has_more=False, total_count=0 if query.include_total_count else None)


add_metadata_routes(router, lambda services: services.objects.records, _PRESENT, path="/v1/objects")


@router.get("/v1/objects/{id}")
async def retrieve(id: str, request: Request, services: ServicesDep) -> ObjectView:
    """Look an object up."""
    return _view(request, await services.objects.get(id))


@router.post("/v1/objects/{id}/complete")
async def complete(id: str, request: Request, services: ServicesDep) -> ObjectView:
    """Close an upload."""
    return _view(request, await services.objects.complete(id))


@router.post("/v1/objects/{id}/rename")
async def rename(id: str, request: Request, services: ServicesDep, body: RenameRequest) -> ObjectView:
    """Give an object another name (an extension)."""
    return _view(request, await services.objects.rename(id, body.name))


@router.post("/v1/objects/{id}/delete")
async def delete(id: str, request: Request, services: ServicesDep) -> ObjectView:
    """Delete an object and its content."""
    return _view(request, await services.objects.delete(id))


@router.get("/v1/objects/{id}/download")
async def download(
    id: str,
    request: Request,
    services: ServicesDep,
    duration_seconds: Annotated[int, Parameter(ge=1, le=_WEEK_SECONDS)] = 3600,
) -> ObjectDownloadView:
    """Get a signed link to an object's content."""
    await services.objects.content(id)
    return ObjectDownloadView(download_url=signed_link(request, "download", id, duration_seconds))


@router.put("/objects/upload/{id}")
async def upload(id: UploadId, request: Request, services: ServicesDep) -> dict[str, str]:
    """Take an object's content; the link's signature stands for a key."""
    await services.objects.upload(id, request.stream())
    return {}


@router.get("/objects/download/{id}", response_class=StreamingResponse)
async def download_content(id: DownloadId, request: Request, services: ServicesDep) -> Response:
    """Send an object's content, or the part that `Range` names."""
    record, _ = await services.objects.content(id)
    size = record.size_bytes or 0
    headers = {
        "accept-ranges": "bytes",
        "cache-control": "private, no-store",
        "content-disposition": "attachment",
        "x-content-type-options": "nosniff",
    }
    try:
        part = _part(request.headers.get("range", ""), size)
    except RangeNotThere as error:
        response = error_response(error)
        response.headers["content-range"] = f"bytes */{size}"
        return response
    start, end = part or (0, size)
    if part:
        headers["content-range"] = f"bytes {start}-{end - 1}/{size}"
    headers["content-length"] = str(end - start)
    _, content = await services.objects.content(id, start, end)
    return StreamingResponse(content, 206 if part else 200, headers, "application/octet-stream")


def _part(header: str, size: int) -> tuple[int, int] | None:
    """Return the byte range that a header asks for, None for all bytes; raises RangeNotThere."""
    match = _RANGE.fullmatch(header)
    if match is None or (match["to"] and int(match["to"]) < int(match["first"])):
        return None
    start = int(match["first"]) if match["first"] else max(0, size - int(match["last"]))
    if start >= size:
        raise RangeNotThere(f"the object has {size} bytes; none of them is in {header}", size_bytes=size)
    return start, min(size, int(match["to"]) + 1) if match["to"] else size


def _view(request: Request, record: StoredObject) -> ObjectView:
    url = None
    if record.state == ObjectState.UPLOADING:
        url = signed_link(request, "upload", record.id, UPLOAD_SECONDS)
    return ObjectView.model_validate({**record.model_dump(), "upload_url": url})
