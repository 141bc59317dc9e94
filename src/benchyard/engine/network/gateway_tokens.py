"""Doors to HTTP APIs for running devboxes: added with a token, and reopened after a restart."""

import logging

from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.devboxes.service import Devboxes
from benchyard.engine.network.egress import require_gateway
from benchyard.engine.network.gateway_configs import GatewayConfigs
from benchyard.engine.network.gateway_doors import open_doors, with_door
from benchyard.errors import BenchyardError, UsageError
from benchyard.models.devboxes import DevboxStatus
from benchyard.models.gateway_configs import GatewayRequest, GatewayTokenView


class GatewayTokens:
    """Opens doors of running devboxes."""

    def __init__(self, tools: EngineContext, devboxes: Devboxes, configs: GatewayConfigs) -> None:
        self._tools = tools
        self._devboxes = devboxes
        self._configs = configs

    async def create(self, devbox_id: str, asked: Caller, request: GatewayRequest) -> GatewayTokenView:
        """Return a token for a config and a secret; the same request again returns the same token.

        Raises UsageError for a missing config or secret, and the errors of `Devboxes.running`.
        """
        devbox = await self._devboxes.running(devbox_id)
        if not any(each.id == asked.id for each in devbox.doors):
            require_gateway(self._tools, devbox)
            door = await self._configs.door(asked.id, request)
            door = door.model_copy(update={"request_hash": asked.request_hash})
            opened = await self._tools.opener.opened(devbox_id, door)
            devbox = await self._tools.live_devboxes.change(
                devbox_id, lambda record: with_door(record, opened)
            )
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


_log = logging.getLogger(__name__)


async def reopen_doors(tools: EngineContext) -> None:
    """Reopen all doors of running devboxes; failures are written to the log."""
    for devbox in tools.live_devboxes.live():
        if devbox.status is not DevboxStatus.RUNNING or not devbox.doors:
            continue
        try:
            await open_doors(tools.opener, tools.host, devbox)
        except BenchyardError as error:
            _log.warning("a door of devbox %s could not be opened again: %s", devbox.id, error)
