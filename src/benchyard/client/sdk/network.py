"""Network policies and gateway configs as objects: made, found by id, changed."""

from typing import Unpack

from benchyard.client.methods import NounObject, S, VerbGroup, bound, call
from benchyard.client.operations import Steps
from benchyard.client.request_fields import GatewayFields, GatewayPageFields
from benchyard.client.resources.network import (
    GatewayConfigs,
    NetworkPolicies,
    PolicyFields,
    PolicyPageFields,
)


class NetworkPolicy(NounObject[S]):
    """A network policy: a named set of rules on what devboxes may reach."""

    get_info = bound(NetworkPolicies.retrieve)
    update = bound(NetworkPolicies.update)
    delete = bound(NetworkPolicies.delete)


class NetworkPolicyOps(VerbGroup[S]):
    """Makes and finds network policies."""

    @call
    def create(self, **fields: Unpack[PolicyFields]) -> Steps[NetworkPolicy[S]]:
        """Make a network policy; raises UsageError if the name is taken."""
        view = yield from NetworkPolicies(self.session).create.steps(**fields)
        return NetworkPolicy(self.session, view.id)

    def from_id(self, network_policy_id: str) -> NetworkPolicy[S]:
        """Return the policy of that id, without a request to the server."""
        return NetworkPolicy(self.session, network_policy_id)

    @call
    def list(self, **query: Unpack[PolicyPageFields]) -> Steps[list[NetworkPolicy[S]]]:
        """List network policies, newest first; all, or at most `limit`."""
        views = yield from NetworkPolicies(self.session).list.steps(**query)
        return [NetworkPolicy(self.session, view.id) for view in views]


class GatewayConfig(NounObject[S]):
    """An HTTP API that devboxes reach with a key that they never see."""

    get_info = bound(GatewayConfigs.retrieve)
    update = bound(GatewayConfigs.update)
    delete = bound(GatewayConfigs.delete)


class GatewayConfigOps(VerbGroup[S]):
    """Makes and finds gateway configs."""

    @call
    def create(self, **fields: Unpack[GatewayFields]) -> Steps[GatewayConfig[S]]:
        """Make a gateway config; raises UsageError if the name is taken."""
        view = yield from GatewayConfigs(self.session).create.steps(**fields)
        return GatewayConfig(self.session, view.id)

    def from_id(self, gateway_config_id: str) -> GatewayConfig[S]:
        """Return the gateway config of that id, without a request to the server."""
        return GatewayConfig(self.session, gateway_config_id)

    @call
    def list(self, **query: Unpack[GatewayPageFields]) -> Steps[list[GatewayConfig[S]]]:
        """List gateway configs, newest first; all, or at most `limit`."""
        views = yield from GatewayConfigs(self.session).list.steps(**query)
        return [GatewayConfig(self.session, view.id) for view in views]
