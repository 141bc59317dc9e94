"""Agents as objects: registered from packages, repositories and objects, found by id."""

from collections.abc import Sequence
from typing import Unpack

from benchyard.client.methods import NounObject, S, VerbGroup, bound, call
from benchyard.client.operations import Steps
from benchyard.client.request_fields import AgentFields, AgentPageFields, NewAgentFields
from benchyard.client.resources.agents import Agents
from benchyard.models.agents import AgentDevboxCountsView


class Agent(NounObject[S]):
    """A version of a program under test."""

    get_info = bound(Agents.retrieve)
    delete = bound(Agents.delete)


class AgentOps(VerbGroup[S]):
    """Registers and finds agents."""

    @call
    def create(self, **fields: Unpack[AgentFields]) -> Steps[Agent[S]]:
        """Register an agent; raises Conflict if the version exists with other content."""
        return Agent(self.session, (yield from Agents(self.session).create.steps(**fields)).id)

    @call
    def create_from_npm(
        self,
        package_name: str,
        registry_url: str | None = None,
        agent_setup: Sequence[str] | None = None,
        **fields: Unpack[NewAgentFields],
    ) -> Steps[Agent[S]]:
        """Register a package of an npm registry."""
        part = {"package_name": package_name, "registry_url": registry_url, "agent_setup": agent_setup}
        source = {"type": "npm", "npm": part}
        return (yield from self.create.steps(**fields, source=source))

    @call
    def create_from_pip(
        self,
        package_name: str,
        registry_url: str | None = None,
        agent_setup: Sequence[str] | None = None,
        **fields: Unpack[NewAgentFields],
    ) -> Steps[Agent[S]]:
        """Register a package of a Python index."""
        part = {"package_name": package_name, "registry_url": registry_url, "agent_setup": agent_setup}
        source = {"type": "pip", "pip": part}
        return (yield from self.create.steps(**fields, source=source))

    @call
    def create_from_git(
        self,
        repository: str,
        ref: str | None = None,
        agent_setup: Sequence[str] | None = None,
        **fields: Unpack[NewAgentFields],
    ) -> Steps[Agent[S]]:
        """Register a git repository."""
        part = {"repository": repository, "ref": ref, "agent_setup": agent_setup}
        source = {"type": "git", "git": part}
        return (yield from self.create.steps(**fields, source=source))

    @call
    def create_from_object(
        self, object_id: str, agent_setup: Sequence[str] | None = None, **fields: Unpack[NewAgentFields]
    ) -> Steps[Agent[S]]:
        """Register a stored object: an archive, or one program."""
        part = {"object_id": object_id, "agent_setup": agent_setup}
        source = {"type": "object", "object": part}
        return (yield from self.create.steps(**fields, source=source))

    def from_id(self, agent_id: str) -> Agent[S]:
        """Return the agent of that id, without a request to the server."""
        return Agent(self.session, agent_id)

    @call
    def list_public(self, **query: Unpack[AgentPageFields]) -> Steps[list[Agent[S]]]:
        """List the agents that come with the server."""
        views = yield from Agents(self.session).list_public.steps(**query)
        return [Agent(self.session, view.id) for view in views]

    @call
    def devbox_counts(self) -> Steps[AgentDevboxCountsView]:
        """Return the number of live devboxes that show an agent, by the agent's name."""
        return (yield from Agents(self.session).devbox_counts.steps())

    @call
    def list(
        self, *, is_public: bool | None = None, **query: Unpack[AgentPageFields]
    ) -> Steps[list[Agent[S]]]:
        """List the registered agents, or the public ones, newest first; all, or at most `limit`."""
        group = Agents(self.session)
        views = yield from (group.list_public if is_public else group.list).steps(**query)
        return [Agent(self.session, view.id) for view in views]
