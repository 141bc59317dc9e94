"""Network policies as objects: made, found by id, changed."""

from typing import Unpack

from benchyard.client.core import Request, Steps, at, fetch
from benchyard.client.listing import Listed
from benchyard.client.network_policies import PATH, PolicyFields, PolicyPageFields
from benchyard.client.sdk.walking import everything
from benchyard.client.verbs import Group, S, call
from benchyard.client.wanted import body_of
from benchyard.models.network_policies import NetworkPolicyView


class NetworkPolicy(Group[S]):
    """What devboxes may reach, kept under a name."""

    def __init__(self, session: S, id: str) -> None:
        super().__init__(session)
        self.id = id

    def __repr__(self) -> str:
        return f"<NetworkPolicy {self.id}>"

    @call
    def get_info(self) -> Steps[NetworkPolicyView]:
        """As it is now."""
        return (yield from fetch(Request("GET", at(PATH + "/{}", self.id)), NetworkPolicyView))

    @call
    def update(self, **fields: Unpack[PolicyFields]) -> Steps[NetworkPolicyView]:
        """Change what is given; devboxes that there are stay as they are."""
        request = Request("POST", at(PATH + "/{}", self.id), json=body_of(fields))
        return (yield from fetch(request, NetworkPolicyView))

    @call
    def delete(self) -> Steps[NetworkPolicyView]:
        """Remove it; devboxes that there are stay as they are."""
        return (yield from fetch(Request("POST", at(PATH + "/{}/delete", self.id)), NetworkPolicyView))


class NetworkPolicyOps(Group[S]):
    """Makes and finds network policies."""

    @call
    def create(self, **fields: Unpack[PolicyFields]) -> Steps[NetworkPolicy[S]]:
        """Make a new one; raises UsageError if the name is taken."""
        view = yield from fetch(Request("POST", PATH, json=body_of(fields)), NetworkPolicyView)
        return NetworkPolicy(self.session, view.id)

    def from_id(self, network_policy_id: str) -> NetworkPolicy[S]:
        """The policy of that id; nothing is asked of the server yet."""
        return NetworkPolicy(self.session, network_policy_id)

    @call
    def list(self, **query: Unpack[PolicyPageFields]) -> Steps[list[NetworkPolicy[S]]]:
        """Newest first; all, or at most `limit`."""
        views = yield from everything(Listed(PATH, "network_policies", NetworkPolicyView, query))
        return [NetworkPolicy(self.session, view.id) for view in views]
