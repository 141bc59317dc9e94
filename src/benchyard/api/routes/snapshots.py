"""Disk snapshots: take, look up, list, change, delete, export and import."""

from dataclasses import replace

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from benchyard.api.deps import ServicesDep
from benchyard.api.idempotency import RequestIdentity
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.metadata_routes import add_metadata_routes
from benchyard.api.pages import MetadataFilters, PageQuery
from benchyard.api.responses import archive_response, wait_for_answer
from benchyard.models.pages import Where
from benchyard.models.snapshots import (
    SnapshotImportRequest,
    SnapshotListView,
    SnapshotRequest,
    SnapshotStatus,
    SnapshotStatusView,
    SnapshotView,
)

router = APIRouter(prefix="/v1/devboxes", tags=["disk_snapshots"], route_class=LazyRoute)

SNAPSHOT_PREFIX = "snp_"
_PRESENT: Where = {"status": [each.value for each in SnapshotStatus if each is not SnapshotStatus.DELETED]}


@router.post("/{devbox_id}/snapshot_disk")
async def snapshot_disk(
    devbox_id: str,
    services: ServicesDep,
    identity: RequestIdentity,
    body: SnapshotRequest | None = None,
) -> SnapshotView:
    """Take a snapshot of a devbox's disk and answer when it is complete."""
    asked = identity.caller(SNAPSHOT_PREFIX)
    taken = services.engine.snapshots.take(devbox_id, asked, body or SnapshotRequest())
    return (await wait_for_answer(services, taken)).view()


@router.post("/{devbox_id}/snapshot_disk_async")
async def snapshot_disk_async(
    devbox_id: str,
    services: ServicesDep,
    identity: RequestIdentity,
    body: SnapshotRequest | None = None,
) -> SnapshotView:
    """Begin a snapshot of a devbox's disk and answer at once."""
    asked = identity.caller(SNAPSHOT_PREFIX)
    return (await services.engine.snapshots.start(devbox_id, asked, body or SnapshotRequest())).view()


@router.get("/disk_snapshots")
async def list_snapshots(
    services: ServicesDep,
    query: PageQuery,
    filters: MetadataFilters,
    devbox_id: str | None = None,
    source_blueprint_id: str | None = None,
) -> SnapshotListView:
    """List snapshots, newest first."""
    asked = {"parent": devbox_id, "source_blueprint_id": source_blueprint_id}
    where = {**_PRESENT, **filters, **{key: value for key, value in asked.items() if value}}
    page = await services.engine.snapshots.records.page(replace(query, where=where))
    snapshots = [snapshot.view() for snapshot in page.items]
    return SnapshotListView(snapshots=snapshots, has_more=page.has_more, total_count=page.total_count)


@router.get("/disk_snapshots/list_public")
async def list_public(query: PageQuery) -> SnapshotListView:
    """List public snapshots; this server has none."""
    return SnapshotListView(
        snapshots=[], has_more=False, total_count=0 if query.include_total_count else None
    )


add_metadata_routes(
    router, lambda services: services.engine.snapshots.records, _PRESENT, path="/disk_snapshots"
)


@router.get("/disk_snapshots/{id}/status")
async def status(id: str, services: ServicesDep) -> SnapshotStatusView:
    """Tell how far a snapshot is."""
    snapshot = await services.engine.snapshots.records.get(id)
    return SnapshotStatusView(
        status=snapshot.status, error_message=snapshot.error_message, snapshot=snapshot.view()
    )


@router.get("/disk_snapshots/{id}/export", response_class=StreamingResponse)
async def export(id: str, services: ServicesDep) -> Response:
    """Send a snapshot as an OCI archive (an extension)."""
    return await archive_response(services, services.engine.transfers.export_snapshot(id))


@router.post("/disk_snapshots/import")
async def import_snapshot(
    request: Request, services: ServicesDep, identity: RequestIdentity, body: SnapshotImportRequest
) -> SnapshotView:
    """Make a snapshot of an archive, an object or a path of the server's machine (an extension)."""
    asked = identity.caller(SNAPSHOT_PREFIX)
    return (
        await wait_for_answer(services, services.engine.transfers.import_snapshot(asked, body), request)
    ).view()


@router.post("/disk_snapshots/{id}")
async def update(id: str, services: ServicesDep, body: SnapshotRequest) -> SnapshotView:
    """Change a snapshot's name, message or metadata."""
    return (await services.engine.snapshots.update(id, body)).view()


@router.post("/disk_snapshots/{id}/delete")
async def delete(id: str, services: ServicesDep) -> dict[str, str]:
    """Delete a snapshot."""
    await services.engine.snapshots.delete(id)
    return {}
