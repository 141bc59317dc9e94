"""Doors of devboxes to HTTP APIs, opened at the gateway."""

import hashlib
import logging

from benchyard.engine.grants import Grants, url_of
from benchyard.engine.journal import now_ms
from benchyard.errors import BenchyardError
from benchyard.gateway.grants import Grant, Upstream
from benchyard.models.launch import KEEP_ALIVE_MAX_SECONDS
from benchyard.store.vault import Vault

TOKEN_PREFIX = "gws_"  # noqa: S105  (what tokens begin with)
_ROUTE = "api"
_PREFIX = "door-"

_log = logging.getLogger(__name__)


class GrantedDoors:
    """Each door is a grant of its own: a token that opens one API, from one devbox."""

    def __init__(self, grants: Grants, vault: Vault) -> None:
        self._grants = grants
        self._vault = vault

    async def open(self, devbox_id: str, upstream: Upstream, name: str) -> tuple[str, str]:
        """Find or open the door of that name: the address inside the devbox, and its token."""
        id = _PREFIX + hashlib.sha256(f"{devbox_id}/{name}".encode()).hexdigest()[:32]
        token = TOKEN_PREFIX + self._vault.derive("gateway-doors", f"{devbox_id}/{name}").hex()
        expires_ms = now_ms() + KEEP_ALIVE_MAX_SECONDS * 1000
        try:
            await self._grants.open(Grant(id, token, devbox_id, {_ROUTE: upstream}, expires_ms))
        except BenchyardError:
            await self._closed(id, devbox_id)
            raise
        return url_of(devbox_id, _ROUTE), token

    async def close(self, devbox_id: str) -> None:
        """Let every token of a devbox be worth nothing; never fails, for what cannot be told now expires."""
        for grant_id in self._grants.of_devbox(devbox_id):
            if not grant_id.startswith(_PREFIX):
                # Of a trial: that one ends it, when it has read what was spent.
                continue
            await self._closed(grant_id, devbox_id)
        try:
            await self._grants.silence(devbox_id)
        except BenchyardError as error:
            _log.warning("the door of devbox %s could not be closed: %s", devbox_id, error)

    async def _closed(self, grant_id: str, devbox_id: str) -> None:
        try:
            await self._grants.close(grant_id)
            await self._grants.forget(grant_id)
        except BenchyardError as error:
            _log.warning("a door of devbox %s could not be closed: %s", devbox_id, error)
