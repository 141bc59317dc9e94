"""Network policies and gateway configs: what devboxes may reach."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

from benchyard.client.listings import ListingSpec, listing
from benchyard.client.methods import S, VerbGroup, call
from benchyard.client.operations import Request, Steps, at, fetch
from benchyard.client.request_fields import GatewayChanges, GatewayFields, GatewayPageFields, body_of
from benchyard.models.gateway_configs import GatewayConfigView, GatewayTokenView
from benchyard.models.network_policies import NetworkPolicyView

_POLICIES_PATH = "/v1/network-policies"


class PolicyFields(TypedDict, total=False):
    """Fields of a network policy; an update leaves omitted ones as they are."""

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
    """Choice of a page of policies, and its size."""

    id: str
    name: str
    search: str
    limit: int
    starting_after: str
    include_total_count: bool


class NetworkPolicies(VerbGroup[S]):
    """The network policies of a server."""

    @call
    def create(self, **fields: Unpack[PolicyFields]) -> Steps[NetworkPolicyView]:
        """Make a network policy; raises UsageError if the name is taken."""
        return (yield from fetch(Request("POST", _POLICIES_PATH, json=body_of(fields)), NetworkPolicyView))

    @call
    def retrieve(self, id: str) -> Steps[NetworkPolicyView]:
        """Look a network policy up; raises NotFound."""
        return (yield from fetch(Request("GET", at(_POLICIES_PATH + "/{}", id)), NetworkPolicyView))

    get = retrieve

    @listing
    def list(self, **query: Unpack[PolicyPageFields]) -> ListingSpec[NetworkPolicyView]:
        """List all network policies, newest first; a part of a name suffices."""
        return ListingSpec(_POLICIES_PATH, "network_policies", NetworkPolicyView, query)

    @call
    def update(self, id: str, /, **fields: Unpack[PolicyFields]) -> Steps[NetworkPolicyView]:
        """Change the given fields of a policy; raises NotFound. Existing devboxes stay as they are."""
        return (
            yield from fetch(
                Request("POST", at(_POLICIES_PATH + "/{}", id), json=body_of(fields)), NetworkPolicyView
            )
        )

    @call
    def delete(self, id: str) -> Steps[NetworkPolicyView]:
        """Remove a policy; raises NotFound. Existing devboxes stay as they are."""
        return (yield from fetch(Request("POST", at(_POLICIES_PATH + "/{}/delete", id)), NetworkPolicyView))


_GATEWAY_CONFIGS_PATH = "/v1/gateway-configs"


class GatewayConfigs(VerbGroup[S]):
    """The gateway configs of a server: its users' own, and those that come with it."""

    @call
    def create(self, **fields: Unpack[GatewayFields]) -> Steps[GatewayConfigView]:
        """Make a gateway config; raises UsageError if the name is taken."""
        return (
            yield from fetch(Request("POST", _GATEWAY_CONFIGS_PATH, json=body_of(fields)), GatewayConfigView)
        )

    @call
    def retrieve(self, id: str) -> Steps[GatewayConfigView]:
        """Look a gateway config up; raises NotFound."""
        return (yield from fetch(Request("GET", at(_GATEWAY_CONFIGS_PATH + "/{}", id)), GatewayConfigView))

    get = retrieve

    @call
    def update(self, id: str, **changes: Unpack[GatewayChanges]) -> Steps[GatewayConfigView]:
        """Change a gateway config; devboxes that have it keep its former fields."""
        path = at(_GATEWAY_CONFIGS_PATH + "/{}", id)
        return (yield from fetch(Request("POST", path, json=body_of(changes)), GatewayConfigView))

    @listing
    def list(self, **query: Unpack[GatewayPageFields]) -> ListingSpec[GatewayConfigView]:
        """List all gateway configs, newest first; a part of a name suffices."""
        return ListingSpec(_GATEWAY_CONFIGS_PATH, "gateway_configs", GatewayConfigView, query)

    @call
    def delete(self, id: str) -> Steps[GatewayConfigView]:
        """Delete a gateway config; devboxes that have it keep it."""
        return (
            yield from fetch(Request("POST", at(_GATEWAY_CONFIGS_PATH + "/{}/delete", id)), GatewayConfigView)
        )

    @call
    def create_token(self, devbox_id: str, gateway: str, secret: str) -> Steps[GatewayTokenView]:
        """Make a token for a running devbox to reach an API; gateway config and secret are names or ids."""
        path = at("/v1/devboxes/{}/create_gateway_token", devbox_id)
        body = {"gateway": gateway, "secret": secret}
        return (yield from fetch(Request("POST", path, json=body), GatewayTokenView))
