"""Blueprints as objects: built, found by id, started from."""

from typing import Unpack

from benchyard.client.listings import ListingSpec, all_items
from benchyard.client.methods import S, VerbGroup, call
from benchyard.client.operations import Steps
from benchyard.client.request_fields import BlueprintFields, BlueprintPageFields, DevboxExtras, request_of
from benchyard.client.resources import blueprints, devboxes
from benchyard.client.resources.devboxes import Devbox
from benchyard.models.blueprints import BlueprintRequest, BlueprintView, BuildLogView
from benchyard.models.devboxes import DevboxRequest


class Blueprint(VerbGroup[S]):
    """A blueprint: the description of an image's build, and the image; devboxes start from it."""

    def __init__(self, session: S, id: str) -> None:
        super().__init__(session)
        self.id = id

    def __repr__(self) -> str:
        return f"<Blueprint {self.id}>"

    @call
    def get_info(self) -> Steps[BlueprintView]:
        """Return its present state."""
        return (yield from blueprints.get(self.id))

    @call
    def logs(self) -> Steps[BuildLogView]:
        """Return the log of its build so far."""
        return (yield from blueprints.logs(self.id))

    @call
    def delete(self) -> Steps[None]:
        """Remove it; devboxes that stand on it go on."""
        yield from blueprints.delete(self.id)

    @call
    def create_devbox(
        self, *, timeout: float | None = None, **fields: Unpack[DevboxExtras]
    ) -> Steps[Devbox[S]]:
        """Make a devbox from it, and wait until the devbox runs."""
        request = request_of(DevboxRequest, {**fields, "blueprint_id": self.id})
        view = yield from devboxes.create_running_devbox(request, timeout)
        return Devbox(self.session, view.id)


class BlueprintOps(VerbGroup[S]):
    """Builds and finds blueprints."""

    @call
    def create(
        self, *, timeout: float | None = None, **fields: Unpack[BlueprintFields]
    ) -> Steps[Blueprint[S]]:
        """Build a blueprint and wait for it; raises BuildFailed."""
        view = yield from blueprints.create(request_of(BlueprintRequest, fields))
        yield from blueprints.await_built(view.id, timeout)
        return Blueprint(self.session, view.id)

    def from_id(self, blueprint_id: str) -> Blueprint[S]:
        """Return the blueprint of that id, without a request to the server."""
        return Blueprint(self.session, blueprint_id)

    @call
    def list(self, **query: Unpack[BlueprintPageFields]) -> Steps[list[Blueprint[S]]]:
        """List blueprints, newest first; all, or at most `limit`."""
        views = yield from all_items(ListingSpec("/v1/blueprints", "blueprints", BlueprintView, query))
        return [Blueprint(self.session, view.id) for view in views]
