"""Disk snapshots: take, look up, list, change, delete, export and import."""

from dataclasses import replace

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from benchyard.api.deps import ServicesDep
from benchyard.api.idempotency import Identity, RequestIdentity
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.pages import MetadataFilters, PageQuery
from benchyard.api.responses import archive_response, wait_for_answer
from benchyard.engine.context import Caller
from benchyard.models.pages import MetadataKeys, MetadataValues, Where
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


def _asked(request: Request, identity: Identity) -> Caller:
    return Caller(identity.new_id(SNAPSHOT_PREFIX), identity.body_hash, request.state.key_id)


@router.post("/{devbox_id}/snapshot_disk")
async def snapshot_disk(
    devbox_id: str,
    request: Request,
    services: ServicesDep,
    identity: RequestIdentity,
    body: SnapshotRequest | None = None,
) -> SnapshotView:
    """Take a snapshot of a devbox's disk and answer when it is complete."""
    asked = _asked(request, identity)
    taken = services.engine.snapshots.take(devbox_id, asked, body or SnapshotRequest())
    return (await wait_for_answer(services, taken)).view()


@router.post("/{devbox_id}/snapshot_disk_async")
async def snapshot_disk_async(
    devbox_id: str,
    request: Request,
    services: ServicesDep,
    identity: RequestIdentity,
    body: SnapshotRequest | None = None,
) -> SnapshotView:
    """Begin a snapshot of a devbox's disk and answer at once."""
    asked = _asked(request, identity)
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


@router.get("/disk_snapshots/metadata/keys")
async def metadata_keys(services: ServicesDep) -> MetadataKeys:
    """List the metadata keys in use."""
    return MetadataKeys(keys=await services.engine.snapshots.records.metadata_keys(_PRESENT))


@router.get("/disk_snapshots/metadata/keys/{key}/values")
async def metadata_values(key: str, services: ServicesDep) -> MetadataValues:
    """List the values in use for a metadata key."""
    return MetadataValues(
        key=key, values=await services.engine.snapshots.records.metadata_values(key, _PRESENT)
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
    asked = _asked(request, identity)
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
