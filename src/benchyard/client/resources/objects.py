"""Stored objects: upload, download, list and remove them."""

from collections.abc import Callable
from typing import Literal, TypeVar

from benchyard.client.bodies import Progress, Source, Target, body_from, no_progress
from benchyard.client.listings import items_of_pages
from benchyard.client.methods import S, VerbGroup, call, items
from benchyard.client.operations import TRANSFER_TIMEOUT, Flow, Request, Steps, at, fetch, send
from benchyard.client.resources.files import download
from benchyard.errors import BenchyardError
from benchyard.models.base import RenameRequest
from benchyard.models.objects import ObjectDownloadView, ObjectListView, ObjectRequest, ObjectView

T = TypeVar("T")
Origin = Literal["users", "runs"]


class Objects(VerbGroup[S]):
    """The stored objects of a server."""

    @call
    def upload(
        self, source: Source, request: ObjectRequest, progress: Progress = no_progress
    ) -> Steps[ObjectView]:
        """Store a file, bytes, or the rest of an open file."""
        return (yield from upload(source, request, progress))

    @call
    def download(self, id: str, target: Target, progress: Progress = no_progress) -> Steps[int]:
        """Fetch an object; a path appears only when it is complete. Returns the size."""
        return (yield from fetch_content(id, target, progress=progress))

    @call
    def get(self, id: str) -> Steps[ObjectView]:
        """Look an object up; raises NotFound."""
        return (yield from get(id))

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
        return (yield from delete(id))


def through_object(
    source: Source, name: str, use: Callable[[str], Steps[T]], progress: Progress = no_progress
) -> Steps[T]:
    """Upload a source for one use, and remove the object again whether or not the use succeeds."""
    stored = yield from upload(source, ObjectRequest(name=name, content_type="binary"), progress)
    remove = Request("POST", at("/v1/objects/{}/delete", stored.id))
    try:
        result = yield from use(stored.id)
    except BenchyardError:
        yield from send(remove)
        raise
    yield from send(remove)
    return result


def upload(source: Source, request: ObjectRequest, progress: Progress = no_progress) -> Steps[ObjectView]:
    """Make the object, put its bytes behind the signed link, and complete it."""
    made = yield from create(request)
    yield from put(made, source, progress)
    return (yield from complete(made.id))


def create(request: ObjectRequest) -> Steps[ObjectView]:
    """Make an object; its bytes follow."""
    return (yield from fetch(Request("POST", "/v1/objects", json=request), ObjectView))


def put(made: ObjectView, source: Source, progress: Progress = no_progress) -> Steps[None]:
    """Put the bytes of a new object behind its signed link."""
    if made.upload_url is None:
        raise BenchyardError(f"the server gave no link to upload object {made.id} to")
    body = body_from(source, progress)
    yield from send(Request("PUT", made.upload_url, body=body, timeout=TRANSFER_TIMEOUT))


def complete(id: str) -> Steps[ObjectView]:
    """Mark an object as completely uploaded."""
    return (yield from fetch(Request("POST", at("/v1/objects/{}/complete", id)), ObjectView))


def get(id: str) -> Steps[ObjectView]:
    """Look an object up."""
    return (yield from fetch(Request("GET", at("/v1/objects/{}", id)), ObjectView))


def delete(id: str) -> Steps[ObjectView]:
    """Remove an object."""
    return (yield from fetch(Request("POST", at("/v1/objects/{}/delete", id)), ObjectView))


def download_link(id: str, duration_seconds: int | None = None) -> Steps[ObjectDownloadView]:
    """Return a signed link to an object's bytes."""
    query = {"duration_seconds": duration_seconds}
    return (yield from fetch(Request("GET", at("/v1/objects/{}/download", id), query), ObjectDownloadView))


def fetch_content(
    id: str, target: Target, duration_seconds: int | None = None, progress: Progress = no_progress
) -> Steps[int]:
    """Fetch the bytes of an object; returns their number."""
    link = yield from download_link(id, duration_seconds)
    request = Request("GET", link.download_url, timeout=TRANSFER_TIMEOUT)
    return (yield from download(request, target, progress))
