"""Blueprints: images for devboxes, built on the server."""

import time

import httpx

from benchyard.client.event_streams import EventParser
from benchyard.client.listings import items_of_pages
from benchyard.client.methods import S, VerbGroup, call, items
from benchyard.client.operations import (
    RETRIES,
    Emit,
    Flow,
    Request,
    Steps,
    at,
    backoff,
    fetch,
    open_body,
    pause,
    read,
    send,
)
from benchyard.errors import BuildFailed, ServerUnreachable, StillWaiting
from benchyard.models.blueprints import (
    UNFINISHED,
    BlueprintPreviewView,
    BlueprintRequest,
    BlueprintStatus,
    BlueprintView,
    BuildLogLine,
    BuildLogUpdate,
    BuildLogView,
)

FIRST_LOOK_SECONDS = 0.1
LATER_LOOKS_SECONDS = 1.0
SILENCE_SECONDS = 60.0

Lines = list[BuildLogLine]


class Blueprints(VerbGroup[S]):
    """The blueprints of a server."""

    @call
    def create(self, request: BlueprintRequest) -> Steps[BlueprintView]:
        """Begin to build a blueprint."""
        return (yield from fetch(Request("POST", "/v1/blueprints", json=request), BlueprintView))

    @call
    def get(self, id: str) -> Steps[BlueprintView]:
        """Look a blueprint up; raises NotFound."""
        return (yield from fetch(Request("GET", at("/v1/blueprints/{}", id)), BlueprintView))

    @call
    def wait(self, id: str, timeout: float | None = None) -> Steps[BlueprintView]:
        """Wait until a blueprint is built; raises BuildFailed, or StillWaiting after the timeout."""
        deadline = None if timeout is None else time.monotonic() + timeout
        delay = FIRST_LOOK_SECONDS
        while (view := (yield from self.get.steps(id))).status in UNFINISHED:
            if deadline is not None and time.monotonic() >= deadline:
                raise StillWaiting(f"blueprint {id} is still {view.status}")
            yield from pause(delay)
            delay = min(delay * 2, LATER_LOOKS_SECONDS)
        if view.status is BlueprintStatus.FAILED:
            message = f"blueprint {id} was not built: {view.error_message or view.failure_reason}"
            raise BuildFailed(message, view.failure_reason or "build_failed")
        return view

    @items
    def list(
        self, name: str | None = None, status: BlueprintStatus | None = None, limit: int | None = None
    ) -> Flow[BlueprintView]:
        """Yield blueprints, newest first; all, or those of one name or status."""
        query = {"name": name, "status": status.value if status else None}
        yield from items_of_pages(Request("GET", "/v1/blueprints", query), "blueprints", BlueprintView, limit)

    @call
    def preview(self, request: BlueprintRequest) -> Steps[str]:
        """Return a Dockerfile that describes the build."""
        sent = Request("POST", "/v1/blueprints/preview", json=request)
        return (yield from fetch(sent, BlueprintPreviewView)).dockerfile

    @call
    def log(self, id: str) -> Steps[BuildLogView]:
        """Return the log of a build so far."""
        return (yield from fetch(Request("GET", at("/v1/blueprints/{}/logs", id)), BuildLogView))

    @call
    def logs(self, id: str) -> Steps[Lines]:
        """Return the lines of a build's log so far."""
        return (yield from self.log.steps(id)).logs

    @items
    def follow(self, id: str, offset: int = 0) -> Flow[BuildLogUpdate]:
        """Yield the log of a build from an offset on, line by line, until the build has ended."""
        yield from _follow(at("/v1/blueprints/{}/logs/stream", id), offset)

    @call
    def delete(self, id: str) -> Steps[None]:
        """Remove a blueprint; devboxes that stand on it go on."""
        yield from send(Request("POST", at("/v1/blueprints/{}/delete", id)))


def _follow(path: str, offset: int) -> Flow[BuildLogUpdate]:
    """Yield lines over as many connections as needed; each resumes after the last whole line."""
    failures = 0
    while failures <= RETRIES:
        try:
            yield from open_body(Request("GET", path, {"offset": offset}, timeout=SILENCE_SECONDS))
            parser = EventParser(BuildLogUpdate, "a line of a build's log")
            while chunk := (yield from read()):
                for update in parser.feed(chunk):
                    offset, failures = update.offset, 0
                    yield Emit(update)
        except (httpx.TransportError, StillWaiting):
            failures += 1
            yield from pause(backoff(failures))
            continue
        return
    raise ServerUnreachable("the log was cut again and again; is the server running?")
