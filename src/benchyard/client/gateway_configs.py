"""Gateway configs: HTTP APIs that devboxes reach with a key that they never see; and tokens for them."""

from typing import Unpack

from benchyard.client.core import Request, Steps, at, fetch
from benchyard.client.listing import Listed, listing
from benchyard.client.verbs import Group, S, call
from benchyard.client.wanted import GatewayChanges, GatewayFields, GatewayPageFields, body_of
from benchyard.models.gateway_configs import GatewayConfigView
from benchyard.models.gateway_doors import GatewayTokenView

PATH = "/v1/gateway-configs"


class GatewayConfigs(Group[S]):
    """The gateway configs of a server: its users' own, and those that come with it."""

    @call
    def create(self, **fields: Unpack[GatewayFields]) -> Steps[GatewayConfigView]:
        """Make a new one; raises UsageError if the name is taken."""
        return (yield from fetch(Request("POST", PATH, json=body_of(fields)), GatewayConfigView))

    @call
    def retrieve(self, id: str) -> Steps[GatewayConfigView]:
        """Look one up; raises NotFound."""
        return (yield from fetch(Request("GET", at(PATH + "/{}", id)), GatewayConfigView))

    get = retrieve

    @call
    def update(self, id: str, **changes: Unpack[GatewayChanges]) -> Steps[GatewayConfigView]:
        """Change one; devboxes that were given it keep what it said."""
        path = at(PATH + "/{}", id)
        return (yield from fetch(Request("POST", path, json=body_of(changes)), GatewayConfigView))

    @listing
    def list(self, **query: Unpack[GatewayPageFields]) -> Listed[GatewayConfigView]:
        """All of them, newest first; a name need not be whole."""
        return Listed(PATH, "gateway_configs", GatewayConfigView, query)

    @call
    def delete(self, id: str) -> Steps[GatewayConfigView]:
        """Forget one; devboxes that were given it keep it."""
        return (yield from fetch(Request("POST", at(PATH + "/{}/delete", id)), GatewayConfigView))

    @call
    def create_token(self, devbox_id: str, gateway: str, secret: str) -> Steps[GatewayTokenView]:
        """Open a way from a running devbox to an API, each given by name or id."""
        path = at("/v1/devboxes/{}/create_gateway_token", devbox_id)
        body = {"gateway": gateway, "secret": secret}
        return (yield from fetch(Request("POST", path, json=body), GatewayTokenView))
