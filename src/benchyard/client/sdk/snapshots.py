"""Snapshots as objects: found by id, listed; `Devbox.snapshot_disk` makes them."""

from typing import Unpack

from benchyard.client.core import Steps
from benchyard.client.devbox import Snapshot
from benchyard.client.listing import Listed
from benchyard.client.sdk.walking import everything
from benchyard.client.verbs import Group, S, call
from benchyard.client.wanted import SnapshotPageFields
from benchyard.models.snapshots import SnapshotView

ON_WIRE = {"metadata_key": "metadata[key]", "metadata_key_in": "metadata[key][in]"}


class SnapshotOps(Group[S]):
    """Finds snapshots."""

    def from_id(self, snapshot_id: str) -> Snapshot[S]:
        """The snapshot of that id; nothing is asked of the server yet."""
        return Snapshot(self.session, snapshot_id)

    @call
    def list(self, **query: Unpack[SnapshotPageFields]) -> Steps[list[Snapshot[S]]]:
        """Newest first; all, or at most `limit`."""
        path = "/v1/devboxes/disk_snapshots"
        wanted = {ON_WIRE.get(name, name): value for name, value in query.items()}
        views = yield from everything(Listed(path, "snapshots", SnapshotView, wanted))
        return [Snapshot(self.session, view.id) for view in views]
