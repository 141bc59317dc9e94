"""Stored objects: uploaded from files, folders, text and bytes, and fetched again."""

import io
import tarfile
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Unpack

from benchyard.client.bodies import Source
from benchyard.client.listings import ListingSpec, all_items
from benchyard.client.methods import S, VerbGroup, call
from benchyard.client.operations import Steps
from benchyard.client.request_fields import ObjectFields, ObjectPageFields, request_of
from benchyard.client.resources import objects
from benchyard.errors import UsageError
from benchyard.models.objects import ContentType, ObjectDownloadView, ObjectRequest, ObjectView

TarFilter = Callable[[tarfile.TarInfo], tarfile.TarInfo | None]
"""Is shown each member of an archive, and returns what goes into it, or None."""

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


class StorageObject(VerbGroup[S]):
    """A stored file."""

    def __init__(self, session: S, id: str, upload_url: str | None = None) -> None:
        super().__init__(session)
        self.id = id
        self.upload_url = upload_url
        """Where its bytes go; None once it is complete."""

    def __repr__(self) -> str:
        return f"<StorageObject {self.id}>"

    @call
    def refresh(self) -> Steps[ObjectView]:
        """As it is now."""
        return (yield from objects.get(self.id))

    @call
    def upload_content(self, content: str | bytes | Iterable[bytes]) -> Steps[None]:
        """Put its bytes in place; `complete` says that they are all there."""
        view = yield from objects.get(self.id)
        if view.upload_url is None:
            raise UsageError(f"object {self.id} is complete: make another one with `storage_object.create`")
        yield from objects.put(view, _bytes(content))

    @call
    def complete(self) -> Steps[ObjectView]:
        """Say that all its bytes are there; it never changes after that."""
        view = yield from objects.complete(self.id)
        self.upload_url = None
        return view

    @call
    def get_download_url(self, *, duration_seconds: int | None = None) -> Steps[ObjectDownloadView]:
        """A link that opens it for a while, to anybody who has it."""
        return (yield from objects.download_link(self.id, duration_seconds))

    @call
    def download_as_bytes(self, *, duration_seconds: int | None = None) -> Steps[bytes]:
        """Its bytes; `api.objects.download` takes those that are larger than memory."""
        return (yield from _content(self.id, duration_seconds))

    @call
    def download_as_text(self, *, duration_seconds: int | None = None) -> Steps[str]:
        """Its content as text."""
        return (yield from _content(self.id, duration_seconds)).decode(errors="replace")

    @call
    def delete(self) -> Steps[ObjectView]:
        """Remove it."""
        return (yield from objects.delete(self.id))

    def as_build_context(self) -> dict[str, str]:
        """What a blueprint takes as its `build_context`."""
        return {"type": "object", "object_id": self.id}


class StorageObjectOps(VerbGroup[S]):
    """Stores and finds objects."""

    @call
    def create(self, **fields: Unpack[ObjectFields]) -> Steps[StorageObject[S]]:
        """Make one; its bytes follow by `upload_content` and `complete`."""
        view = yield from objects.create(request_of(ObjectRequest, fields))
        return StorageObject(self.session, view.id, view.upload_url)

    def from_id(self, object_id: str) -> StorageObject[S]:
        """The object of that id; nothing is asked of the server yet."""
        return StorageObject(self.session, object_id)

    @call
    def list(self, **query: Unpack[ObjectPageFields]) -> Steps[list[StorageObject[S]]]:
        """Newest first; all, or at most `limit`."""
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
        return (yield from self._stored(path, name or path.name, content_type or kind, metadata, ttl))

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
        """Store a local folder as a tgz; `ignore` returns None for what is left out."""
        folder = Path(dir_path)
        if not folder.is_dir():
            raise UsageError(f"there is no folder {folder}")
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for path in sorted(folder.iterdir()):
                tar.add(path, arcname=path.name, filter=ignore)
        called = name or f"{folder.resolve().name}.tar.gz"
        return (yield from self._stored(packed.getvalue(), called, "tgz", metadata, ttl))

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
        return (yield from self._stored(text.encode(), name, "text", metadata, ttl))

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
        return (yield from self._stored(data, name, content_type, metadata, ttl))

    def _stored(
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
        view = yield from objects.upload(source, request_of(ObjectRequest, fields))
        return StorageObject(self.session, view.id)


def _content(id: str, duration_seconds: int | None) -> Steps[bytes]:
    held = io.BytesIO()
    yield from objects.fetch_content(id, held, duration_seconds)
    return held.getvalue()


def _bytes(content: str | bytes | Iterable[bytes]) -> bytes:
    if isinstance(content, str):
        return content.encode()
    return content if isinstance(content, bytes) else b"".join(content)
