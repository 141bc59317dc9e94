"""Network policies and gateway configs as objects: made, found by id, changed."""

from typing import Unpack

from benchyard.client.listings import ListingSpec, all_items
from benchyard.client.methods import S, VerbGroup, call
from benchyard.client.operations import Request, Steps, at, fetch
from benchyard.client.request_fields import GatewayChanges, GatewayFields, GatewayPageFields, body_of
from benchyard.client.resources.network import (
    GATEWAY_CONFIGS_PATH,
    POLICIES_PATH,
    PolicyFields,
    PolicyPageFields,
)
from benchyard.models.gateway_configs import GatewayConfigView
from benchyard.models.network_policies import NetworkPolicyView


class NetworkPolicy(VerbGroup[S]):
    """A network policy: a named set of rules on what devboxes may reach."""

    def __init__(self, session: S, id: str) -> None:
        super().__init__(session)
        self.id = id

    def __repr__(self) -> str:
        return f"<NetworkPolicy {self.id}>"

    @call
    def get_info(self) -> Steps[NetworkPolicyView]:
        """Return its present state."""
        return (yield from fetch(Request("GET", at(POLICIES_PATH + "/{}", self.id)), NetworkPolicyView))

    @call
    def update(self, **fields: Unpack[PolicyFields]) -> Steps[NetworkPolicyView]:
        """Change the given fields; existing devboxes stay as they are."""
        request = Request("POST", at(POLICIES_PATH + "/{}", self.id), json=body_of(fields))
        return (yield from fetch(request, NetworkPolicyView))

    @call
    def delete(self) -> Steps[NetworkPolicyView]:
        """Remove it; existing devboxes stay as they are."""
        return (
            yield from fetch(Request("POST", at(POLICIES_PATH + "/{}/delete", self.id)), NetworkPolicyView)
        )


class NetworkPolicyOps(VerbGroup[S]):
    """Makes and finds network policies."""

    @call
    def create(self, **fields: Unpack[PolicyFields]) -> Steps[NetworkPolicy[S]]:
        """Make a network policy; raises UsageError if the name is taken."""
        view = yield from fetch(Request("POST", POLICIES_PATH, json=body_of(fields)), NetworkPolicyView)
        return NetworkPolicy(self.session, view.id)

    def from_id(self, network_policy_id: str) -> NetworkPolicy[S]:
        """Return the policy of that id, without a request to the server."""
        return NetworkPolicy(self.session, network_policy_id)

    @call
    def list(self, **query: Unpack[PolicyPageFields]) -> Steps[list[NetworkPolicy[S]]]:
        """List network policies, newest first; all, or at most `limit`."""
        views = yield from all_items(ListingSpec(POLICIES_PATH, "network_policies", NetworkPolicyView, query))
        return [NetworkPolicy(self.session, view.id) for view in views]


class GatewayConfig(VerbGroup[S]):
    """An HTTP API that devboxes reach with a key that they never see."""

    def __init__(self, session: S, id: str) -> None:
        super().__init__(session)
        self.id = id

    def __repr__(self) -> str:
        return f"<GatewayConfig {self.id}>"

    @call
    def get_info(self) -> Steps[GatewayConfigView]:
        """Return its present state."""
        return (
            yield from fetch(Request("GET", at(GATEWAY_CONFIGS_PATH + "/{}", self.id)), GatewayConfigView)
        )

    @call
    def update(self, **changes: Unpack[GatewayChanges]) -> Steps[GatewayConfigView]:
        """Change it; devboxes that have it keep its former fields."""
        request = Request("POST", at(GATEWAY_CONFIGS_PATH + "/{}", self.id), json=body_of(changes))
        return (yield from fetch(request, GatewayConfigView))

    @call
    def delete(self) -> Steps[GatewayConfigView]:
        """Delete it; devboxes that have it keep it."""
        return (
            yield from fetch(
                Request("POST", at(GATEWAY_CONFIGS_PATH + "/{}/delete", self.id)), GatewayConfigView
            )
        )


class GatewayConfigOps(VerbGroup[S]):
    """Makes and finds gateway configs."""

    @call
    def create(self, **fields: Unpack[GatewayFields]) -> Steps[GatewayConfig[S]]:
        """Make a gateway config; raises UsageError if the name is taken."""
        view = yield from fetch(
            Request("POST", GATEWAY_CONFIGS_PATH, json=body_of(fields)), GatewayConfigView
        )
        return GatewayConfig(self.session, view.id)

    def from_id(self, gateway_config_id: str) -> GatewayConfig[S]:
        """Return the gateway config of that id, without a request to the server."""
        return GatewayConfig(self.session, gateway_config_id)

    @call
    def list(self, **query: Unpack[GatewayPageFields]) -> Steps[list[GatewayConfig[S]]]:
        """List gateway configs, newest first; all, or at most `limit`."""
        views = yield from all_items(
            ListingSpec(GATEWAY_CONFIGS_PATH, "gateway_configs", GatewayConfigView, query)
        )
        return [GatewayConfig(self.session, view.id) for view in views]
