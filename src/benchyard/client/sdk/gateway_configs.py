"""Gateway configs as objects: made, found by id, changed."""

from typing import Unpack

from benchyard.client.core import Request, Steps, at, fetch
from benchyard.client.gateway_configs import PATH
from benchyard.client.listing import Listed
from benchyard.client.sdk.walking import everything
from benchyard.client.verbs import Group, S, call
from benchyard.client.wanted import GatewayChanges, GatewayFields, GatewayPageFields, body_of
from benchyard.models.gateway_configs import GatewayConfigView


class GatewayConfig(Group[S]):
    """An HTTP API that devboxes reach with a key that they never see."""

    def __init__(self, session: S, id: str) -> None:
        super().__init__(session)
        self.id = id

    def __repr__(self) -> str:
        return f"<GatewayConfig {self.id}>"

    @call
    def get_info(self) -> Steps[GatewayConfigView]:
        """As it is now."""
        return (yield from fetch(Request("GET", at(PATH + "/{}", self.id)), GatewayConfigView))

    @call
    def update(self, **changes: Unpack[GatewayChanges]) -> Steps[GatewayConfigView]:
        """Change it; devboxes that were given it keep what it said."""
        request = Request("POST", at(PATH + "/{}", self.id), json=body_of(changes))
        return (yield from fetch(request, GatewayConfigView))

    @call
    def delete(self) -> Steps[GatewayConfigView]:
        """Forget it; devboxes that were given it keep it."""
        return (yield from fetch(Request("POST", at(PATH + "/{}/delete", self.id)), GatewayConfigView))


class GatewayConfigOps(Group[S]):
    """Makes and finds gateway configs."""

    @call
    def create(self, **fields: Unpack[GatewayFields]) -> Steps[GatewayConfig[S]]:
        """Make a new one; raises UsageError if the name is taken."""
        view = yield from fetch(Request("POST", PATH, json=body_of(fields)), GatewayConfigView)
        return GatewayConfig(self.session, view.id)

    def from_id(self, gateway_config_id: str) -> GatewayConfig[S]:
        """The gateway config of that id; nothing is asked of the server yet."""
        return GatewayConfig(self.session, gateway_config_id)

    @call
    def list(self, **query: Unpack[GatewayPageFields]) -> Steps[list[GatewayConfig[S]]]:
        """Newest first; all, or at most `limit`."""
        views = yield from everything(Listed(PATH, "gateway_configs", GatewayConfigView, query))
        return [GatewayConfig(self.session, view.id) for view in views]
