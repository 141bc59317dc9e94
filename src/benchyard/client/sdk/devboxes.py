"""Devboxes and snapshots as objects: made, found by id, listed."""

from collections.abc import Mapping
from typing import Any, Unpack

from benchyard.client.listings import ListingSpec, all_items
from benchyard.client.methods import S, VerbGroup, call
from benchyard.client.operations import Steps
from benchyard.client.request_fields import (
    DevboxExtras,
    DevboxFields,
    DevboxPageFields,
    SnapshotPageFields,
    request_of,
)
from benchyard.client.resources.devboxes import Devbox, Devboxes, Snapshot
from benchyard.client.sessions import AsyncSession, SyncSession
from benchyard.models.devboxes import DevboxRequest, DevboxView
from benchyard.models.snapshots import SnapshotView


class DevboxOps(VerbGroup[S]):
    """Makes and finds devboxes."""

    @call
    def create(self, *, timeout: float | None = None, **fields: Unpack[DevboxFields]) -> Steps[Devbox[S]]:
        """Make a devbox and wait until it runs; raises StartFailed if it never will."""
        return (yield from self._create_running(fields, timeout))

    @call
    def create_from_blueprint_id(
        self, blueprint_id: str, *, timeout: float | None = None, **fields: Unpack[DevboxExtras]
    ) -> Steps[Devbox[S]]:
        """Make a devbox from a blueprint."""
        return (yield from self._create_running({**fields, "blueprint_id": blueprint_id}, timeout))

    @call
    def create_from_blueprint_name(
        self, blueprint_name: str, *, timeout: float | None = None, **fields: Unpack[DevboxExtras]
    ) -> Steps[Devbox[S]]:
        """Make a devbox from the newest blueprint of a name."""
        return (yield from self._create_running({**fields, "blueprint_name": blueprint_name}, timeout))

    @call
    def create_from_snapshot(
        self, snapshot_id: str, *, timeout: float | None = None, **fields: Unpack[DevboxExtras]
    ) -> Steps[Devbox[S]]:
        """Make a devbox from a snapshot."""
        return (yield from self._create_running({**fields, "snapshot_id": snapshot_id}, timeout))

    @call
    def list(self, **query: Unpack[DevboxPageFields]) -> Steps[list[Devbox[S]]]:
        """List devboxes, newest first; all, or at most `limit`."""
        views = yield from all_items(ListingSpec("/v1/devboxes", "devboxes", DevboxView, query))
        return [Devbox(self.session, view.id) for view in views]

    def _create_running(self, fields: Mapping[str, Any], timeout: float | None) -> Steps[Devbox[S]]:
        request = request_of(DevboxRequest, fields)
        view = yield from Devboxes(self.session).create_and_await_running.steps(request, timeout)
        return Devbox(self.session, view.id)


class SyncDevboxOps(DevboxOps[SyncSession]):
    """Makes and finds devboxes, blocking."""

    def from_id(self, devbox_id: str, timeout: float | None = None) -> Devbox[SyncSession]:
        """Return the devbox of that id, once it runs; raises StartFailed if it never will."""
        found = Devbox(self.session, devbox_id)
        found.await_running(timeout)
        return found


class AsyncDevboxOps(DevboxOps[AsyncSession]):
    """Makes and finds devboxes on an event loop."""

    def from_id(self, devbox_id: str) -> Devbox[AsyncSession]:
        """Return the devbox of that id, without a request; `await devbox.await_running()` waits for it."""
        return Devbox(self.session, devbox_id)


ON_WIRE = {"metadata_key": "metadata[key]", "metadata_key_in": "metadata[key][in]"}


class SnapshotOps(VerbGroup[S]):
    """Finds snapshots."""

    def from_id(self, snapshot_id: str) -> Snapshot[S]:
        """Return the snapshot of that id, without a request to the server."""
        return Snapshot(self.session, snapshot_id)

    @call
    def list(self, **query: Unpack[SnapshotPageFields]) -> Steps[list[Snapshot[S]]]:
        """List snapshots, newest first; all, or at most `limit`."""
        path = "/v1/devboxes/disk_snapshots"
        wanted = {ON_WIRE.get(name, name): value for name, value in query.items()}
        views = yield from all_items(ListingSpec(path, "snapshots", SnapshotView, wanted))
        return [Snapshot(self.session, view.id) for view in views]
