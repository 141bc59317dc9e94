"""Blueprints as objects: built, found by id, started from."""

from typing import Unpack

from benchyard.client.listings import ListingSpec, all_items
from benchyard.client.methods import NounObject, S, VerbGroup, bound, call
from benchyard.client.operations import Steps
from benchyard.client.request_fields import BlueprintFields, BlueprintPageFields, DevboxExtras, request_of
from benchyard.client.resources.blueprints import Blueprints
from benchyard.client.resources.devboxes import Devbox, Devboxes
from benchyard.models.blueprints import BlueprintRequest, BlueprintView
from benchyard.models.devboxes import DevboxRequest


class Blueprint(NounObject[S]):
    """A blueprint: the description of an image's build, and the image; devboxes start from it."""

    get_info = bound(Blueprints.get)
    logs = bound(Blueprints.log)
    delete = bound(Blueprints.delete)

    @call
    def create_devbox(
        self, *, timeout: float | None = None, **fields: Unpack[DevboxExtras]
    ) -> Steps[Devbox[S]]:
        """Make a devbox from it, and wait until the devbox runs."""
        request = request_of(DevboxRequest, {**fields, "blueprint_id": self.id})
        view = yield from Devboxes(self.session).create_and_await_running.steps(request, timeout)
        return Devbox(self.session, view.id)


class BlueprintOps(VerbGroup[S]):
    """Builds and finds blueprints."""

    @call
    def create(
        self, *, timeout: float | None = None, **fields: Unpack[BlueprintFields]
    ) -> Steps[Blueprint[S]]:
        """Build a blueprint and wait for it; raises BuildFailed."""
        group = Blueprints(self.session)
        view = yield from group.create.steps(request_of(BlueprintRequest, fields))
        yield from group.wait.steps(view.id, timeout)
        return Blueprint(self.session, view.id)

    def from_id(self, blueprint_id: str) -> Blueprint[S]:
        """Return the blueprint of that id, without a request to the server."""
        return Blueprint(self.session, blueprint_id)

    @call
    def list(self, **query: Unpack[BlueprintPageFields]) -> Steps[list[Blueprint[S]]]:
        """List blueprints, newest first; all, or at most `limit`."""
        views = yield from all_items(ListingSpec("/v1/blueprints", "blueprints", BlueprintView, query))
        return [Blueprint(self.session, view.id) for view in views]
