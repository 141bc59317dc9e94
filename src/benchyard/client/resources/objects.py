"""Stored objects: upload, download, list and remove them."""

from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

from benchyard.client.bodies import Progress, Source, Target, body_from, no_progress
from benchyard.client.listings import items_of_pages
from benchyard.client.methods import S, VerbGroup, call, items
from benchyard.client.operations import TRANSFER_TIMEOUT, Flow, Request, Steps, at, fetch, send
from benchyard.client.resources.files import download
from benchyard.errors import BenchyardError
from benchyard.models.base import RenameRequest
from benchyard.models.objects import (
    ContentType,
    ObjectDownloadView,
    ObjectListView,
    ObjectRequest,
    ObjectView,
)

T = TypeVar("T")
Origin = Literal["users", "runs"]
TYPES: Mapping[str, ContentType] = {
    ".tar.gz": "tgz",
    ".tgz": "tgz",
    ".tar": "tar",
    ".gz": "gzip",
    ".txt": "text",
    ".md": "text",
    ".json": "text",
    ".yaml": "text",
}


def content_type(name: str) -> ContentType:
    """Return the type of a file's content, guessed from its ending."""
    for suffix, kind in TYPES.items():
        if name.endswith(suffix):
            return kind
    return "binary"


class Objects(VerbGroup[S]):
    """The stored objects of a server."""

    @call
    def create(self, request: ObjectRequest) -> Steps[ObjectView]:
        """Make an object; its bytes follow by `put` and `complete`."""
        return (yield from fetch(Request("POST", "/v1/objects", json=request), ObjectView))

    @call
    def put(self, made: ObjectView, source: Source, progress: Progress = no_progress) -> Steps[None]:
        """Put the bytes of a new object behind its signed link."""
        if made.upload_url is None:
            raise BenchyardError(f"the server gave no link to upload object {made.id} to")
        body = body_from(source, progress)
        yield from send(Request("PUT", made.upload_url, body=body, timeout=TRANSFER_TIMEOUT))

    @call
    def complete(self, id: str) -> Steps[ObjectView]:
        """Mark an object as completely uploaded; it never changes after that."""
        return (yield from fetch(Request("POST", at("/v1/objects/{}/complete", id)), ObjectView))

    @call
    def upload(
        self, source: Source, request: ObjectRequest, progress: Progress = no_progress
    ) -> Steps[ObjectView]:
        """Store a file, bytes, or the rest of an open file."""
        made = yield from self.create.steps(request)
        yield from self.put.steps(made, source, progress)
        return (yield from self.complete.steps(made.id))

    @call
    def link(self, id: str, duration_seconds: int | None = None) -> Steps[ObjectDownloadView]:
        """Return a link to an object that works for a while, for anybody who has the link."""
        query = {"duration_seconds": duration_seconds}
        return (
            yield from fetch(Request("GET", at("/v1/objects/{}/download", id), query), ObjectDownloadView)
        )

    @call
    def download(
        self,
        id: str,
        target: Target,
        progress: Progress = no_progress,
        *,
        duration_seconds: int | None = None,
    ) -> Steps[int]:
        """Fetch an object; a path appears only when it is complete. Returns the size."""
        link = yield from self.link.steps(id, duration_seconds)
        request = Request("GET", link.download_url, timeout=TRANSFER_TIMEOUT)
        return (yield from download(request, target, progress))

    @call
    def get(self, id: str) -> Steps[ObjectView]:
        """Look an object up; raises NotFound."""
        return (yield from fetch(Request("GET", at("/v1/objects/{}", id)), ObjectView))

    @items
    def list(
        self, name: str | None = None, limit: int | None = None, origin: Origin | None = None
    ) -> Flow[ObjectView]:
        """Yield objects, newest first; all, or those of one name or origin (uploads, files of runs)."""
        query = {"name": name, "origin": origin}
        yield from items_of_pages(Request("GET", "/v1/objects", query), "objects", ObjectView, limit)

    @call
    def count(self, name: str | None = None, origin: Origin | None = None) -> Steps[int]:
        """Return the number of objects."""
        query = {"name": name, "origin": origin, "limit": 1, "include_total_count": True}
        found = yield from fetch(Request("GET", "/v1/objects", query), ObjectListView)
        return found.total_count or 0

    @call
    def rename(self, id: str, name: str) -> Steps[ObjectView]:
        """Give an object another name."""
        body = RenameRequest(name=name)
        return (yield from fetch(Request("POST", at("/v1/objects/{}/rename", id), json=body), ObjectView))

    @call
    def delete(self, id: str) -> Steps[ObjectView]:
        """Remove an object."""
        return (yield from fetch(Request("POST", at("/v1/objects/{}/delete", id)), ObjectView))

    def through(
        self, source: Source, name: str, use: Callable[[str], Steps[T]], progress: Progress = no_progress
    ) -> Steps[T]:
        """Upload a source for one use, and remove the object again whether or not the use succeeds."""
        request = ObjectRequest(name=name, content_type="binary")
        stored = yield from self.upload.steps(source, request, progress)
        try:
            result = yield from use(stored.id)
        except BenchyardError:
            yield from self.delete.steps(stored.id)
            raise
        yield from self.delete.steps(stored.id)
        return result
