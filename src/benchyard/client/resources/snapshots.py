"""Disk snapshots: make, find and remove them."""

import time

from benchyard.client.bodies import Progress, Sized, Source, Target, no_progress
from benchyard.client.listings import items_of_pages
from benchyard.client.methods import S, VerbGroup, call, items
from benchyard.client.operations import Flow, Request, Steps, at, fetch, pause, send
from benchyard.client.resources.files import download
from benchyard.client.resources.objects import through_object
from benchyard.errors import DevboxError, StillWaiting
from benchyard.models.snapshots import (
    SnapshotImportRequest,
    SnapshotRequest,
    SnapshotStatus,
    SnapshotStatusView,
    SnapshotView,
)

FIRST_LOOK_SECONDS = 0.05
LATER_LOOKS_SECONDS = 1.0
LONG = 3600.0


class Snapshots(VerbGroup[S]):
    """The disk snapshots of a server."""

    @call
    def create(self, devbox_id: str, request: SnapshotRequest | None = None) -> Steps[SnapshotView]:
        """Snapshot a devbox's disk and wait until the snapshot is safe on the server's disk."""
        return (yield from create(devbox_id, request or SnapshotRequest()))

    @call
    def status(self, id: str) -> Steps[SnapshotStatusView]:
        """Return the status of a snapshot; raises NotFound."""
        return (yield from status(id))

    @items
    def list(self, devbox_id: str | None = None, limit: int | None = None) -> Flow[SnapshotView]:
        """Yield snapshots, newest first; all, or those of one devbox."""
        request = Request("GET", "/v1/devboxes/disk_snapshots", {"devbox_id": devbox_id})
        yield from items_of_pages(request, "snapshots", SnapshotView, limit)

    @call
    def update(self, id: str, change: SnapshotRequest) -> Steps[SnapshotView]:
        """Change a snapshot's name, message or metadata."""
        return (yield from update(id, change))

    @call
    def export(
        self, id: str, target: Target, progress: Progress = no_progress, sized: Sized = no_progress
    ) -> Steps[int]:
        """Fetch a snapshot as an OCI archive; a path appears only when it is complete. Returns the size."""
        request = Request("GET", at("/v1/devboxes/disk_snapshots/{}/export", id), timeout=LONG)
        return (yield from download(request, target, progress, sized))

    @call
    def import_archive(
        self,
        source: Source,
        name: str | None = None,
        progress: Progress = no_progress,
        *,
        detach: bool = False,
    ) -> Steps[SnapshotView]:
        """Upload an archive and make a snapshot of it; the upload is removed again."""

        def use(object_id: str) -> Steps[SnapshotView]:
            request = SnapshotImportRequest(name=name, object_id=object_id, detach=detach)
            return (yield from _import(request))

        return (yield from through_object(source, name or "snapshot", use, progress))

    @call
    def import_path(self, path: str, name: str | None = None, *, detach: bool = False) -> Steps[SnapshotView]:
        """Make a snapshot of an archive on the server's machine; the server must run with `--import-from`.

        With `detach` it goes on without this client; `status` returns its progress.
        """
        return (yield from _import(SnapshotImportRequest(name=name, path=path, detach=detach)))

    @call
    def delete(self, id: str) -> Steps[None]:
        """Remove a snapshot; raises Conflict while it is being made."""
        yield from delete(id)


def begin(devbox_id: str, request: SnapshotRequest) -> Steps[SnapshotView]:
    """Begin a snapshot."""
    path = at("/v1/devboxes/{}/snapshot_disk_async", devbox_id)
    return (yield from fetch(Request("POST", path, json=request), SnapshotView))


def create(devbox_id: str, request: SnapshotRequest) -> Steps[SnapshotView]:
    """Begin a snapshot and poll until it is complete."""
    view = yield from begin(devbox_id, request)
    return (yield from await_complete(view.id))


def update(id: str, change: SnapshotRequest) -> Steps[SnapshotView]:
    """Change a snapshot's name, message or metadata."""
    path = at("/v1/devboxes/disk_snapshots/{}", id)
    return (yield from fetch(Request("POST", path, json=change), SnapshotView))


def delete(id: str) -> Steps[None]:
    """Remove a snapshot."""
    yield from send(Request("POST", at("/v1/devboxes/disk_snapshots/{}/delete", id)))


def _import(request: SnapshotImportRequest) -> Steps[SnapshotView]:
    path = "/v1/devboxes/disk_snapshots/import"
    return (yield from fetch(Request("POST", path, json=request, timeout=LONG), SnapshotView))


def status(id: str) -> Steps[SnapshotStatusView]:
    """Return the status of a snapshot."""
    return (
        yield from fetch(Request("GET", at("/v1/devboxes/disk_snapshots/{}/status", id)), SnapshotStatusView)
    )


def await_complete(id: str, timeout: float | None = None) -> Steps[SnapshotView]:
    """Poll until a snapshot is complete; raises StillWaiting after the timeout."""
    deadline = None if timeout is None else time.monotonic() + timeout
    delay = FIRST_LOOK_SECONDS
    while True:
        view = yield from status(id)
        if view.status == SnapshotStatus.COMPLETE and view.snapshot is not None:
            return view.snapshot
        if view.status != SnapshotStatus.IN_PROGRESS:
            raise DevboxError(f"snapshot {id} was not made: {view.error_message or view.status.value}")
        if deadline is not None and time.monotonic() >= deadline:
            raise StillWaiting(f"snapshot {id} is still being made")
        yield from pause(delay)
        delay = min(delay * 2, LATER_LOOKS_SECONDS)
