"""Agents as objects: registered from packages, repositories and objects, found by id."""

from collections.abc import Sequence
from typing import Unpack

from benchyard.client.listings import ListingSpec, all_items
from benchyard.client.methods import S, VerbGroup, call
from benchyard.client.operations import Steps
from benchyard.client.request_fields import AgentFields, AgentPageFields, NewAgentFields
from benchyard.client.resources import agents
from benchyard.models.agents import AgentDevboxCountsView, AgentView


class Agent(VerbGroup[S]):
    """A version of a program under test."""

    def __init__(self, session: S, id: str) -> None:
        super().__init__(session)
        self.id = id

    def __repr__(self) -> str:
        return f"<Agent {self.id}>"

    @call
    def get_info(self) -> Steps[AgentView]:
        """Return its description, which never changes."""
        return (yield from agents.retrieve(self.id))

    @call
    def delete(self) -> Steps[None]:
        """Delete it; devboxes that show it go on."""
        yield from agents.delete(self.id)


class AgentOps(VerbGroup[S]):
    """Registers and finds agents."""

    @call
    def create(self, **fields: Unpack[AgentFields]) -> Steps[Agent[S]]:
        """Register an agent; raises Conflict if the version exists with other content."""
        return Agent(self.session, (yield from agents.create(fields)).id)

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
        return (yield from self._made({**fields, "source": {"type": "npm", "npm": part}}))

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
        return (yield from self._made({**fields, "source": {"type": "pip", "pip": part}}))

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
        return (yield from self._made({**fields, "source": {"type": "git", "git": part}}))

    @call
    def create_from_object(
        self, object_id: str, agent_setup: Sequence[str] | None = None, **fields: Unpack[NewAgentFields]
    ) -> Steps[Agent[S]]:
        """Register a stored object: an archive, or one program."""
        part = {"object_id": object_id, "agent_setup": agent_setup}
        return (yield from self._made({**fields, "source": {"type": "object", "object": part}}))

    def _made(self, fields: AgentFields) -> Steps[Agent[S]]:
        return Agent(self.session, (yield from agents.create(fields)).id)

    def from_id(self, agent_id: str) -> Agent[S]:
        """Return the agent of that id, without a request to the server."""
        return Agent(self.session, agent_id)

    @call
    def list_public(self, **query: Unpack[AgentPageFields]) -> Steps[list[Agent[S]]]:
        """List the agents that come with the server."""
        views = yield from all_items(ListingSpec(agents.PUBLIC_PATH, "agents", AgentView, query))
        return [Agent(self.session, view.id) for view in views]

    @call
    def devbox_counts(self) -> Steps[AgentDevboxCountsView]:
        """Return the number of live devboxes that show an agent, by the agent's name."""
        return (yield from agents.devbox_counts())

    @call
    def list(
        self, *, is_public: bool | None = None, **query: Unpack[AgentPageFields]
    ) -> Steps[list[Agent[S]]]:
        """List the registered agents, or the public ones, newest first; all, or at most `limit`."""
        path = agents.PUBLIC_PATH if is_public else agents.PATH
        views = yield from all_items(ListingSpec(path, "agents", AgentView, query))
        return [Agent(self.session, view.id) for view in views]
