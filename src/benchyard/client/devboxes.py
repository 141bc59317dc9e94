"""Devboxes: create, find, wait for, change and end them."""

from collections.abc import Sequence

from benchyard.client import lifecycle
from benchyard.client.core import Flow, Request, Steps, at, fetch
from benchyard.client.devbox import Opening
from benchyard.client.pages import pages
from benchyard.client.verbs import Group, S, call, items
from benchyard.models.devboxes import DevboxChange, DevboxRequest, DevboxStatus, DevboxUsageView, DevboxView


class Devboxes(Group[S]):
    """The devboxes of a server."""

    def open(self, request: DevboxRequest | None = None) -> Opening[S]:
        """A devbox for the time of a `with` (or `async with`) block."""
        return Opening(self.session, request or DevboxRequest())

    @call
    def create(self, request: DevboxRequest | None = None) -> Steps[DevboxView]:
        """Ask for a devbox; it may not run yet."""
        return (yield from lifecycle.create(request or DevboxRequest()))

    @call
    def create_and_await_running(
        self, request: DevboxRequest | None = None, timeout: float | None = None
    ) -> Steps[DevboxView]:
        """Ask for a devbox and wait until it runs; raises StartFailed if it never will."""
        return (yield from lifecycle.create_running(request or DevboxRequest(), timeout))

    @call
    def get(self, id: str) -> Steps[DevboxView]:
        """Look one up; raises NotFound."""
        return (yield from lifecycle.get(id))

    retrieve = get

    @call
    def await_running(self, id: str, timeout: float | None = None) -> Steps[DevboxView]:
        """Wait until one runs; raises StartFailed if it never will, StillWaiting after the timeout."""
        return (yield from lifecycle.reach_running(id, timeout))

    @items
    def list(self, status: DevboxStatus | None = None, limit: int | None = None) -> Flow[DevboxView]:
        """Newest first, all or those with one status."""
        yield from pages(Request("GET", "/v1/devboxes", {"status": status}), "devboxes", DevboxView, limit)

    @call
    def wait(
        self, id: str, statuses: Sequence[DevboxStatus], timeout: float | None = None
    ) -> Steps[DevboxView]:
        """Wait until it has one of these statuses; raises StillWaiting when the time is over."""
        return (yield from lifecycle.wait_for(id, statuses, timeout))

    @call
    def update(self, id: str, change: DevboxChange) -> Steps[DevboxView]:
        """Change its name or metadata."""
        return (yield from fetch(Request("POST", at("/v1/devboxes/{}", id), json=change), DevboxView))

    @call
    def shutdown(self, id: str, *, force: bool = False) -> Steps[DevboxView]:
        """End it; `force` even while a snapshot is being made."""
        return (yield from lifecycle.shutdown(id, force=force))

    @call
    def suspend(self, id: str) -> Steps[DevboxView]:
        """Stop all its processes, keep its disk, and wait until that is done."""
        yield from lifecycle.suspend(id)
        return (yield from lifecycle.reach(id, DevboxStatus.SUSPENDED))

    @call
    def resume(self, id: str) -> Steps[DevboxView]:
        """Start a suspended one again and wait until it runs."""
        yield from lifecycle.resume(id)
        return (yield from lifecycle.reach(id, DevboxStatus.RUNNING))

    @call
    def keep_alive(self, id: str) -> Steps[None]:
        """Start its idle time over."""
        yield from lifecycle.keep_alive(id)

    @call
    def usage(self, id: str) -> Steps[DevboxUsageView]:
        """What it has used so far."""
        return (yield from fetch(Request("GET", at("/v1/devboxes/{}/usage", id)), DevboxUsageView))
