"""Tokens for HTTP APIs that devboxes are given while they run."""

from benchyard.engine.asked import Asked
from benchyard.engine.devboxes import Devboxes
from benchyard.engine.doors import with_door
from benchyard.engine.egress import require_gateway
from benchyard.engine.gateway_configs import GatewayConfigs
from benchyard.engine.tools import Tools
from benchyard.errors import UsageError
from benchyard.models.gateway_doors import GatewayRequest, GatewayTokenView


class GatewayTokens:
    """Opens doors of running devboxes."""

    def __init__(self, tools: Tools, devboxes: Devboxes, configs: GatewayConfigs) -> None:
        self._tools = tools
        self._devboxes = devboxes
        self._configs = configs

    async def create(self, devbox_id: str, asked: Asked, request: GatewayRequest) -> GatewayTokenView:
        """A token for a config and a secret; the same request again returns the same token.

        Raises UsageError for a config or secret that is not there, and what `Devboxes.running` raises.
        """
        devbox = await self._devboxes.running(devbox_id)
        if not any(each.id == asked.id for each in devbox.doors):
            require_gateway(self._tools, devbox)
            door = await self._configs.door(asked.id, request)
            door = door.model_copy(update={"request_hash": asked.request_hash})
            opened = await self._tools.opener.opened(devbox_id, door)
            devbox = await self._tools.roster.change(devbox_id, lambda record: with_door(record, opened))
        known = next(each for each in devbox.doors if each.id == asked.id)
        if known.request_hash != asked.request_hash:
            raise UsageError("this x-request-id was used with another body; send a new one")
        return GatewayTokenView(
            token=self._tools.vault.open(str(known.token)),
            url=str(known.url),
            devbox_id=devbox_id,
            endpoint=known.endpoint,
            gateway_config_id=known.gateway_config_id,
            auth_mechanism=known.auth_mechanism,
        )
