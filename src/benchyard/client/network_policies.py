"""Network policies: what devboxes may reach, by id, or found by name."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

from benchyard.client.core import Request, Steps, at, fetch
from benchyard.client.listing import Listed, listing
from benchyard.client.verbs import Group, S, call
from benchyard.client.wanted import body_of
from benchyard.models.network_policies import NetworkPolicyView

PATH = "/v1/network-policies"


class PolicyFields(TypedDict, total=False):
    """What a policy can say; what is left out, an update leaves as it is."""

    name: str
    description: str
    allow_all: bool
    allow_agent_gateway: bool
    allow_devbox_to_devbox: bool
    allow_mcp_gateway: bool
    allow_runloop_mirrors: bool
    allowed_hostnames: Sequence[str]
    allowed_cidrs: Sequence[Mapping[str, Any]]


class PolicyPageFields(TypedDict, total=False):
    """Which policies, and how many of them on a page."""

    id: str
    name: str
    search: str
    limit: int
    starting_after: str
    include_total_count: bool


class NetworkPolicies(Group[S]):
    """The network policies of a server."""

    @call
    def create(self, **fields: Unpack[PolicyFields]) -> Steps[NetworkPolicyView]:
        """Make a new one; raises UsageError if the name is taken."""
        return (yield from fetch(Request("POST", PATH, json=body_of(fields)), NetworkPolicyView))

    @call
    def retrieve(self, id: str) -> Steps[NetworkPolicyView]:
        """Look one up; raises NotFound."""
        return (yield from fetch(Request("GET", at(PATH + "/{}", id)), NetworkPolicyView))

    get = retrieve

    @listing
    def list(self, **query: Unpack[PolicyPageFields]) -> Listed[NetworkPolicyView]:
        """All of them, newest first; a name need not be whole."""
        return Listed(PATH, "network_policies", NetworkPolicyView, query)

    @call
    def update(self, id: str, /, **fields: Unpack[PolicyFields]) -> Steps[NetworkPolicyView]:
        """Change what is given; raises NotFound. Devboxes that there are stay as they are."""
        return (
            yield from fetch(Request("POST", at(PATH + "/{}", id), json=body_of(fields)), NetworkPolicyView)
        )

    @call
    def delete(self, id: str) -> Steps[NetworkPolicyView]:
        """Remove one; raises NotFound. Devboxes that there are stay as they are."""
        return (yield from fetch(Request("POST", at(PATH + "/{}/delete", id)), NetworkPolicyView))
