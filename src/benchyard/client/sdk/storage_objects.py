"""Stored objects: uploaded from files, folders, text and bytes, and fetched again."""

import io
import tarfile
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Unpack

from benchyard.client.bodies import Source
from benchyard.client.listings import ListingSpec, all_items
from benchyard.client.methods import NounObject, S, VerbGroup, bound, call
from benchyard.client.operations import Steps
from benchyard.client.request_fields import ObjectFields, ObjectPageFields, request_of
from benchyard.client.resources.objects import Objects
from benchyard.errors import UsageError
from benchyard.models.objects import ContentType, ObjectDownloadView, ObjectRequest, ObjectView

TarFilter = Callable[[tarfile.TarInfo], tarfile.TarInfo | None]
"""Called with each member of an archive; returns the member to pack, or None to leave it out."""

BY_SUFFIX: Mapping[str, ContentType] = {
    ".csv": "text",
    ".gz": "gzip",
    ".html": "text",
    ".json": "text",
    ".md": "text",
    ".tar": "tar",
    ".tgz": "tgz",
    ".txt": "text",
    ".xml": "text",
    ".yaml": "text",
    ".yml": "text",
}


class StorageObject(NounObject[S]):
    """A stored file."""

    def __init__(self, session: S, id: str, upload_url: str | None = None) -> None:
        super().__init__(session, id)
        self.upload_url = upload_url
        """Signed link for the upload of its bytes; None once it is complete."""

    refresh = bound(Objects.get)
    delete = bound(Objects.delete)

    @call
    def upload_content(self, content: str | bytes | Iterable[bytes]) -> Steps[None]:
        """Upload its bytes; call `complete` when all are uploaded."""
        view = yield from self.refresh.steps()
        if view.upload_url is None:
            raise UsageError(f"object {self.id} is complete: make another one with `storage_object.create`")
        yield from Objects(self.session).put.steps(view, _bytes(content))

    @call
    def complete(self) -> Steps[ObjectView]:
        """Mark it as completely uploaded; it never changes after that."""
        view = yield from Objects(self.session).complete.steps(self.id)
        self.upload_url = None
        return view

    @call
    def get_download_url(self, *, duration_seconds: int | None = None) -> Steps[ObjectDownloadView]:
        """Return a link to it that works for a while, for anybody who has the link."""
        return (yield from Objects(self.session).link.steps(self.id, duration_seconds))

    @call
    def download_as_bytes(self, *, duration_seconds: int | None = None) -> Steps[bytes]:
        """Return its bytes; use `api.objects.download` for objects larger than memory."""
        held = io.BytesIO()
        group = Objects(self.session)
        yield from group.download.steps(self.id, held, duration_seconds=duration_seconds)
        return held.getvalue()

    @call
    def download_as_text(self, *, duration_seconds: int | None = None) -> Steps[str]:
        """Return its content as text."""
        content = yield from self.download_as_bytes.steps(duration_seconds=duration_seconds)
        return content.decode(errors="replace")

    def as_build_context(self) -> dict[str, str]:
        """Return it in the form of a blueprint's `build_context`."""
        return {"type": "object", "object_id": self.id}


class StorageObjectOps(VerbGroup[S]):
    """Stores and finds objects."""

    @call
    def create(self, **fields: Unpack[ObjectFields]) -> Steps[StorageObject[S]]:
        """Make an object; its bytes follow by `upload_content` and `complete`."""
        view = yield from Objects(self.session).create.steps(request_of(ObjectRequest, fields))
        return StorageObject(self.session, view.id, view.upload_url)

    def from_id(self, object_id: str) -> StorageObject[S]:
        """Return the object of that id, without a request to the server."""
        return StorageObject(self.session, object_id)

    @call
    def list(self, **query: Unpack[ObjectPageFields]) -> Steps[list[StorageObject[S]]]:
        """List objects, newest first; all, or at most `limit`."""
        views = yield from all_items(ListingSpec("/v1/objects", "objects", ObjectView, query))
        return [StorageObject(self.session, view.id, view.upload_url) for view in views]

    @call
    def upload_from_file(
        self,
        file_path: str | Path,
        name: str | None = None,
        *,
        content_type: ContentType | None = None,
        metadata: Mapping[str, str] | None = None,
        ttl: timedelta | None = None,
    ) -> Steps[StorageObject[S]]:
        """Store a local file."""
        path = Path(file_path)
        if not path.is_file():
            raise UsageError(f"there is no file {path}")
        kind: ContentType = "tgz" if path.name.endswith(".tar.gz") else BY_SUFFIX.get(path.suffix, "binary")
        return (yield from self._store(path, name or path.name, content_type or kind, metadata, ttl))

    @call
    def upload_from_dir(
        self,
        dir_path: str | Path,
        name: str | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        ttl: timedelta | None = None,
        ignore: TarFilter | None = None,
    ) -> Steps[StorageObject[S]]:
        """Store a local folder as a tgz; `ignore` returns None for members to leave out."""
        folder = Path(dir_path)
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder}")
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for path in sorted(folder.iterdir()):
                tar.add(path, arcname=path.name, filter=ignore)
        called = name or f"{folder.resolve().name}.tar.gz"
        return (yield from self._store(packed.getvalue(), called, "tgz", metadata, ttl))

    @call
    def upload_from_text(
        self,
        text: str,
        name: str,
        *,
        metadata: Mapping[str, str] | None = None,
        ttl: timedelta | None = None,
    ) -> Steps[StorageObject[S]]:
        """Store a text."""
        return (yield from self._store(text.encode(), name, "text", metadata, ttl))

    @call
    def upload_from_bytes(
        self,
        data: bytes,
        name: str,
        *,
        content_type: ContentType,
        metadata: Mapping[str, str] | None = None,
        ttl: timedelta | None = None,
    ) -> Steps[StorageObject[S]]:
        """Store bytes."""
        return (yield from self._store(data, name, content_type, metadata, ttl))

    def _store(
        self,
        source: Source,
        name: str,
        content_type: ContentType,
        metadata: Mapping[str, str] | None,
        ttl: timedelta | None,
    ) -> Steps[StorageObject[S]]:
        fields = {
            "name": name,
            "content_type": content_type,
            "metadata": metadata,
            "ttl_ms": int(ttl.total_seconds() * 1000) if ttl else None,
        }
        view = yield from Objects(self.session).upload.steps(source, request_of(ObjectRequest, fields))
        return StorageObject(self.session, view.id)


def _bytes(content: str | bytes | Iterable[bytes]) -> bytes:
    if isinstance(content, str):
        return content.encode()
    return content if isinstance(content, bytes) else b"".join(content)
