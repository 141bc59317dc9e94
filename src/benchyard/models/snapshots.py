"""A disk snapshot: a devbox's disk, kept so that others can start from it."""

from enum import StrEnum

from pydantic import Field

from benchyard.models.base import Columns, Metadata, Model, Record, ShortText


class SnapshotStatus(StrEnum):
    """Where a snapshot is in its life."""

    IN_PROGRESS = "in_progress"
    ERROR = "error"
    COMPLETE = "complete"
    DELETED = "deleted"


class SnapshotRequest(Model):
    """The body of a snapshot call, and of an update (where None leaves a field as it is)."""

    name: ShortText | None = None
    commit_message: str | None = Field(default=None, max_length=1000)
    metadata: Metadata | None = None


class SnapshotImportRequest(Model):
    """An archive to make a snapshot of: a stored object, or a path on the server's machine."""

    name: ShortText | None = None
    """Instead of the name that the archive tells."""
    object_id: str | None = None
    path: str | None = None
    """Below a folder that the server imports from (`serve --import-from`)."""
    detach: bool = False
    """Answer once the archive is at hand, and go on; without it, an import ends when its client leaves."""


class Snapshot(Record):
    """A snapshot as it is kept; its id is also its image's."""

    status: SnapshotStatus = SnapshotStatus.IN_PROGRESS
    source_devbox_id: str
    """Empty for one that was imported from an archive which does not tell."""
    source_blueprint_id: str | None = None
    source_snapshot_id: str | None = None
    """What the devbox had started from."""
    name: str | None = None
    commit_message: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    size_bytes: int | None = None
    error_message: str | None = None
    has_image: bool = False
    """False before its image is made and after it was removed."""

    def columns(self) -> Columns:
        """Found by name, status, and the devbox it is of."""
        return Columns(name=self.name, status=self.status, parent=self.source_devbox_id)

    def view(self) -> "SnapshotView":
        """As the wire shows it."""
        return SnapshotView.model_validate(self, from_attributes=True)


class SnapshotView(Model):
    """A snapshot as the wire shows it."""

    id: str
    create_time_ms: int
    metadata: dict[str, str]
    source_devbox_id: str
    source_blueprint_id: str | None = None
    source_snapshot_id: str | None = None
    """An extension: what the devbox had started from, itself a snapshot."""
    name: str | None = None
    commit_message: str | None = None
    size_bytes: int | None = None
    """On disk, of what it adds to what its devbox started from: hard links once, holes not at all."""


class SnapshotStatusView(Model):
    """How far a snapshot is."""

    status: SnapshotStatus
    error_message: str | None = None
    snapshot: SnapshotView | None = None


class SnapshotListView(Model):
    """One page of snapshots."""

    snapshots: list[SnapshotView]
    has_more: bool
    total_count: int | None = None
