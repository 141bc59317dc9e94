"""Disk snapshots: make, find and remove them."""

import time

from benchyard.client.bodies import Progress, Sized, Source, Target, no_progress
from benchyard.client.listings import items_of_pages
from benchyard.client.methods import S, VerbGroup, call, items
from benchyard.client.operations import Flow, Request, Steps, at, fetch, pause, send
from benchyard.client.resources.files import download
from benchyard.client.resources.objects import Objects
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
    def begin(self, devbox_id: str, request: SnapshotRequest | None = None) -> Steps[SnapshotView]:
        """Begin a snapshot of a devbox's disk, and return at once."""
        path = at("/v1/devboxes/{}/snapshot_disk_async", devbox_id)
        return (yield from fetch(Request("POST", path, json=request or SnapshotRequest()), SnapshotView))

    @call
    def create(self, devbox_id: str, request: SnapshotRequest | None = None) -> Steps[SnapshotView]:
        """Snapshot a devbox's disk and wait until the snapshot is safe on the server's disk."""
        view = yield from self.begin.steps(devbox_id, request)
        return (yield from self.wait.steps(view.id))

    @call
    def wait(self, id: str, timeout: float | None = None) -> Steps[SnapshotView]:
        """Wait until a snapshot is complete; raises DevboxError if it fails, StillWaiting if it is late."""
        deadline = None if timeout is None else time.monotonic() + timeout
        delay = FIRST_LOOK_SECONDS
        while True:
            view = yield from self.status.steps(id)
            if view.status == SnapshotStatus.COMPLETE and view.snapshot is not None:
                return view.snapshot
            if view.status != SnapshotStatus.IN_PROGRESS:
                raise DevboxError(f"snapshot {id} was not made: {view.error_message or view.status.value}")
            if deadline is not None and time.monotonic() >= deadline:
                raise StillWaiting(f"snapshot {id} is still being made")
            yield from pause(delay)
            delay = min(delay * 2, LATER_LOOKS_SECONDS)

    @call
    def status(self, id: str) -> Steps[SnapshotStatusView]:
        """Return the status of a snapshot; raises NotFound."""
        path = at("/v1/devboxes/disk_snapshots/{}/status", id)
        return (yield from fetch(Request("GET", path), SnapshotStatusView))

    @items
    def list(self, devbox_id: str | None = None, limit: int | None = None) -> Flow[SnapshotView]:
        """Yield snapshots, newest first; all, or those of one devbox."""
        request = Request("GET", "/v1/devboxes/disk_snapshots", {"devbox_id": devbox_id})
        yield from items_of_pages(request, "snapshots", SnapshotView, limit)

    @call
    def update(self, id: str, change: SnapshotRequest) -> Steps[SnapshotView]:
        """Change a snapshot's name, message or metadata."""
        path = at("/v1/devboxes/disk_snapshots/{}", id)
        return (yield from fetch(Request("POST", path, json=change), SnapshotView))

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

        return (yield from Objects(self.session).through(source, name or "snapshot", use, progress))

    @call
    def import_path(self, path: str, name: str | None = None, *, detach: bool = False) -> Steps[SnapshotView]:
        """Make a snapshot of an archive on the server's machine; the server must run with `--import-from`.

        With `detach` it goes on without this client; `status` returns its progress.
        """
        return (yield from _import(SnapshotImportRequest(name=name, path=path, detach=detach)))

    @call
    def delete(self, id: str) -> Steps[None]:
        """Remove a snapshot; raises Conflict while it is being made."""
        yield from send(Request("POST", at("/v1/devboxes/disk_snapshots/{}/delete", id)))


def _import(request: SnapshotImportRequest) -> Steps[SnapshotView]:
    path = "/v1/devboxes/disk_snapshots/import"
    return (yield from fetch(Request("POST", path, json=request, timeout=LONG), SnapshotView))
