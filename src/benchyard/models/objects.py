"""Objects: contents of any size, uploaded and downloaded through signed links."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from benchyard.models.base import Columns, Metadata, Model, Record, ShortText, WireInt

ContentType = Literal["unspecified", "text", "binary", "gzip", "tar", "tgz"]

_YEAR_MS = 366 * 24 * 3600 * 1000


class ObjectState(StrEnum):
    """The stage of an object's life."""

    UPLOADING = "UPLOADING"
    READ_ONLY = "READ_ONLY"
    DELETED = "DELETED"
    ERROR = "ERROR"


class ObjectRequest(Model):
    """The body of a create call."""

    name: ShortText
    content_type: ContentType
    metadata: Metadata | None = None
    ttl_ms: WireInt | None = Field(default=None, gt=0, le=100 * _YEAR_MS)


class StoredObject(Record):
    """An object as it is stored; its content lies under `path` in the object store."""

    name: str
    content_type: ContentType
    state: ObjectState = ObjectState.UPLOADING
    metadata: dict[str, str] = Field(default_factory=dict)
    delete_after_time_ms: int | None = None
    size_bytes: int | None = None
    path: str | None = None
    """None before the upload and after deletion."""

    def columns(self) -> Columns:
        return Columns(name=self.name, status=self.state)


class ObjectView(Model):
    """An object as the wire shows it."""

    id: str
    name: str
    content_type: ContentType
    state: ObjectState
    create_time_ms: int
    metadata: dict[str, str] = Field(default_factory=dict)
    delete_after_time_ms: int | None = None
    size_bytes: int | None = None
    upload_url: str | None = None
    """The URL to PUT the content to; only until the upload is complete."""


class ObjectListView(Model):
    """A page of objects."""

    objects: list[ObjectView]
    has_more: bool
    total_count: int | None = None


class ObjectDownloadView(Model):
    """The URL to GET the content from."""

    download_url: str
