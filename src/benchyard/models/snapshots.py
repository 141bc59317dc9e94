"""A disk snapshot: a devbox's disk, kept so that others can start from it."""

from enum import StrEnum

from pydantic import Field

from benchyard.models.base import Columns, Metadata, Model, Record, ShortText


class SnapshotStatus(StrEnum):
    """The stage of a snapshot's life."""

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
    """The name, in place of that in the archive."""
    object_id: str | None = None
    path: str | None = None
    """Below a folder that the server imports from (`serve --import-from`)."""
    detach: bool = False
    """Answer once the archive is at hand, and go on; without it, the import ends if its client leaves."""


class Snapshot(Record):
    """A snapshot as it is stored; its image has the same id."""

    status: SnapshotStatus = SnapshotStatus.IN_PROGRESS
    source_devbox_id: str
    """Empty for a snapshot imported from an archive that does not name the devbox."""
    source_blueprint_id: str | None = None
    source_snapshot_id: str | None = None
    """The snapshot that the devbox had started from."""
    name: str | None = None
    commit_message: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    size_bytes: int | None = None
    error_message: str | None = None
    has_image: bool = False
    """False before its image is made and after it is removed."""

    def columns(self) -> Columns:
        """Index by name, status, and source devbox."""
        return Columns(name=self.name, status=self.status, parent=self.source_devbox_id)

    def view(self) -> "SnapshotView":
        """Return the snapshot as the wire shows it."""
        return SnapshotView.model_validate(self, from_attributes=True)


class SnapshotView(Model):
    """A snapshot as the wire shows it."""

    id: str
    create_time_ms: int
    metadata: dict[str, str]
    source_devbox_id: str
    source_blueprint_id: str | None = None
    source_snapshot_id: str | None = None
    """An extension: the snapshot that the devbox had started from."""
    name: str | None = None
    commit_message: str | None = None
    size_bytes: int | None = None
    """Disk space it adds to its devbox's origin: hard links count once, holes not at all."""


class SnapshotStatusView(Model):
    """The progress of a snapshot."""

    status: SnapshotStatus
    error_message: str | None = None
    snapshot: SnapshotView | None = None


class SnapshotListView(Model):
    """A page of snapshots."""

    snapshots: list[SnapshotView]
    has_more: bool
    total_count: int | None = None
