"""Agents: register, look up, list, delete."""

from typing import Unpack

from benchyard.client.listings import ListingSpec, listing
from benchyard.client.methods import S, VerbGroup, call
from benchyard.client.operations import Request, Steps, at, fetch, send
from benchyard.client.request_fields import AgentFields, AgentPageFields, body_of
from benchyard.models.agents import AgentDevboxCountsView, AgentInstallRequest, AgentInstallView, AgentView

LONG = 3600.0
PATH = "/v1/agents"
PUBLIC_PATH = f"{PATH}/list_public"


class Agents(VerbGroup[S]):
    """The agents of a server: those that were registered, and those that come with it."""

    @call
    def create(self, **fields: Unpack[AgentFields]) -> Steps[AgentView]:
        """Register one; raises Conflict if the version is there already and is another."""
        return (yield from create(fields))

    @call
    def retrieve(self, id: str) -> Steps[AgentView]:
        """Look one up; raises NotFound."""
        return (yield from retrieve(id))

    get = retrieve

    @listing
    def list(self, **query: Unpack[AgentPageFields]) -> ListingSpec[AgentView]:
        """Those that were registered, newest first; a name need not be whole."""
        return ListingSpec(PATH, "agents", AgentView, query)

    @listing
    def list_public(self, **query: Unpack[AgentPageFields]) -> ListingSpec[AgentView]:
        """Those that come with the server."""
        return ListingSpec(PUBLIC_PATH, "agents", AgentView, query)

    @call
    def install(self, name: str, version: str | None = None) -> Steps[AgentInstallView]:
        """Install one ahead of its first use; answers at once where it is there, else when it is done."""
        return (yield from install(name, version))

    @call
    def delete(self, id: str) -> Steps[None]:
        """Forget one; devboxes that show it go on."""
        yield from delete(id)

    @call
    def devbox_counts(self) -> Steps[AgentDevboxCountsView]:
        """How many live devboxes show an agent, by its name."""
        return (yield from devbox_counts())


def create(fields: AgentFields) -> Steps[AgentView]:
    """Register an agent."""
    return (yield from fetch(Request("POST", PATH, json=body_of(fields)), AgentView))


def retrieve(id: str) -> Steps[AgentView]:
    """Look an agent up."""
    return (yield from fetch(Request("GET", at(PATH + "/{}", id)), AgentView))


def install(name: str, version: str | None = None) -> Steps[AgentInstallView]:
    """Install an agent ahead of its first use."""
    body = AgentInstallRequest(name=name, version=version)
    return (yield from fetch(Request("POST", f"{PATH}/install", json=body, timeout=LONG), AgentInstallView))


def delete(id: str) -> Steps[None]:
    """Forget an agent."""
    yield from send(Request("POST", at(PATH + "/{}/delete", id)))


def devbox_counts() -> Steps[AgentDevboxCountsView]:
    """How many live devboxes show an agent, by its name."""
    return (yield from fetch(Request("GET", f"{PATH}/devbox_counts"), AgentDevboxCountsView))
