"""Agents: register, look up, list, delete."""

from typing import Unpack

from benchyard.client.listings import ListingSpec, listing
from benchyard.client.methods import S, VerbGroup, call
from benchyard.client.operations import Request, Steps, at, fetch, send
from benchyard.client.request_fields import AgentFields, AgentPageFields, body_of
from benchyard.models.agents import AgentDevboxCountsView, AgentInstallRequest, AgentInstallView, AgentView

LONG = 3600.0
_PATH = "/v1/agents"


class Agents(VerbGroup[S]):
    """The agents of a server: the registered ones, and those that come with it."""

    @call
    def create(self, **fields: Unpack[AgentFields]) -> Steps[AgentView]:
        """Register an agent; raises Conflict if the version exists with other content."""
        return (yield from fetch(Request("POST", _PATH, json=body_of(fields)), AgentView))

    @call
    def retrieve(self, id: str) -> Steps[AgentView]:
        """Look an agent up; raises NotFound."""
        return (yield from fetch(Request("GET", at(_PATH + "/{}", id)), AgentView))

    get = retrieve

    @listing
    def list(self, **query: Unpack[AgentPageFields]) -> ListingSpec[AgentView]:
        """List the registered agents, newest first; a part of a name suffices."""
        return ListingSpec(_PATH, "agents", AgentView, query)

    @listing
    def list_public(self, **query: Unpack[AgentPageFields]) -> ListingSpec[AgentView]:
        """List the agents that come with the server."""
        return ListingSpec(f"{_PATH}/list_public", "agents", AgentView, query)

    @call
    def install(self, name: str, version: str | None = None) -> Steps[AgentInstallView]:
        """Install an agent ahead of its first use; returns when it is installed."""
        body = AgentInstallRequest(name=name, version=version)
        request = Request("POST", f"{_PATH}/install", json=body, timeout=LONG)
        return (yield from fetch(request, AgentInstallView))

    @call
    def delete(self, id: str) -> Steps[None]:
        """Delete an agent; devboxes that show it go on."""
        yield from send(Request("POST", at(_PATH + "/{}/delete", id)))

    @call
    def devbox_counts(self) -> Steps[AgentDevboxCountsView]:
        """Return the number of live devboxes that show an agent, by the agent's name."""
        return (yield from fetch(Request("GET", f"{_PATH}/devbox_counts"), AgentDevboxCountsView))
