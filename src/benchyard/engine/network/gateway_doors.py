"""Doors of devboxes to HTTP APIs through the gateway; the keys stay outside the devbox."""

import base64
import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from benchyard.engine.clock import now_ms
from benchyard.engine.devboxes.request_checks import check_variables
from benchyard.engine.devboxes.states import ENDED
from benchyard.engine.network.gateway_access import Grants, url_of
from benchyard.engine.secrets import Secrets
from benchyard.errors import BenchyardError, Conflict, NotFound, NotSupported, UsageError
from benchyard.gateway.egress.rules import Rules
from benchyard.gateway.grants import Grant, Upstream
from benchyard.hosts.host import Host
from benchyard.models.devboxes import Devbox
from benchyard.models.gateway_configs import GatewayDoor, GatewayRequest
from benchyard.models.launch import KEEP_ALIVE_MAX_SECONDS
from benchyard.store.vault import Vault

MOST_DOORS = 100
"""Most doors of one devbox."""
URL_SUFFIX = "_URL"


class GatewayDoors(Protocol):
    """Opens and closes doors of running devboxes."""

    async def open(self, devbox_id: str, upstream: Upstream, name: str) -> tuple[str, str]:
        """Find or open the door with this name; returns its address inside the devbox and its token.

        A second call with the same name returns the same token; another upstream replaces the old one. A
        resumed devbox opens each of its doors again. Raises NotSupported, DevboxGone.
        """

    async def close(self, devbox_id: str) -> None:
        """Make all tokens of a devbox invalid. Never fails: tokens that cannot be closed now expire."""


class NoDoors:
    """Doors of a server without a gateway."""

    async def open(self, devbox_id: str, upstream: Upstream, name: str) -> tuple[str, str]:
        """Refuse to open a door."""
        raise NotSupported(f"this server runs no gateway, so devbox {devbox_id} has no door to an API")

    async def close(self, devbox_id: str) -> None:
        """Do nothing: there are no doors."""


@dataclass(frozen=True)
class DoorOpener:
    """Opens doors with the values of their secrets."""

    doors: GatewayDoors
    secrets: Secrets
    vault: Vault

    async def opened(self, devbox_id: str, door: GatewayDoor) -> GatewayDoor:
        """Return the door, opened; raises UsageError for a secret that is missing or has the wrong form."""
        url, token = await self.doors.open(devbox_id, await self.upstream(door), door.id)
        return door.model_copy(update={"url": url, "token": self.vault.seal(token)})

    def environment(self, doors: list[GatewayDoor]) -> dict[str, str]:
        """Return the environment variables of a devbox for its doors."""
        found = {}
        for door in doors:
            if door.prefix and door.url and door.token:
                found[door.prefix] = self.vault.open(door.token)
                found[door.prefix + URL_SUFFIX] = door.url
        return found

    async def upstream(self, door: GatewayDoor) -> Upstream:
        """Return the upstream of a door, with its key; raises UsageError as `opened` does."""
        key = await self._value(door.secret_id)
        kept: tuple[str, ...] = ()
        mechanism = door.auth_mechanism
        prefix = {"bearer": "Bearer ", "basic": "Basic ", "header": ""}[mechanism.type]
        if mechanism.type == "basic":
            if ":" not in key:
                raise UsageError("the secret for basic auth is `user:password`; set it again", field="secret")
            kept = (key, key.partition(":")[2])
            key = base64.b64encode(key.encode()).decode()
        _check_header(key, f"secret {door.secret_id}")
        headers = {}
        for header in door.custom_headers:
            value = await self._value(header.secret) if header.secret else header.value or ""
            _check_header(value, f"the secret for header {header.name}")
            headers[header.name] = value
            kept += (value,) if header.secret else ()
        return Upstream(
            base_url=door.endpoint,
            header=mechanism.header,
            prefix=prefix,
            key=key,
            headers=headers,
            prices=door.prices,
            any_path=True,
            secrets=kept,
        )

    async def _value(self, secret_id: str) -> str:
        try:
            return await self.secrets.value(secret_id)
        except NotFound as error:
            raise UsageError(f"a secret of a gateway is gone: {error.message}", field="secret") from error


def _check_header(value: str, what: str) -> None:
    if not value.isprintable() or not value.isascii() or value != value.strip():
        raise UsageError(f"{what} cannot be sent in a header: it is not one line of ASCII", field="secret")


def check_gateways(gateways: Mapping[str, GatewayRequest], others: Mapping[str, str]) -> None:
    """Refuse prefixes that are invalid as names of variables, or whose variables are already set."""
    if len(gateways) > MOST_DOORS:
        raise UsageError(f"a devbox has at most {MOST_DOORS} gateways", field="gateways")
    names = [name for prefix in gateways for name in (prefix, prefix + URL_SUFFIX)]
    check_variables(dict.fromkeys(names, ""))
    twice = sorted({name for name in names if name in others or names.count(name) > 1})
    if twice:
        raise UsageError(f"{', '.join(twice)[:200]} is set by a gateway and otherwise too", field="gateways")


def with_door(devbox: Devbox, door: GatewayDoor) -> Devbox:
    """Return the record with one more door; a known door changes nothing."""
    if devbox.status in ENDED:
        raise Conflict(f"devbox {devbox.id} has ended; create another")
    if any(known.id == door.id for known in devbox.doors):
        return devbox
    if len(devbox.doors) >= MOST_DOORS:
        raise UsageError(f"devbox {devbox.id} has {MOST_DOORS} gateway tokens already; use one of those")
    return devbox.model_copy(update={"doors": [*devbox.doors, door]})


async def open_doors(opener: DoorOpener, host: Host, devbox: Devbox) -> list[GatewayDoor]:
    """Open all doors of a devbox that has just been started, and set their variables."""
    doors = [await opener.opened(devbox.id, door) for door in devbox.doors]
    host.set_variables(devbox.id, opener.environment(doors))
    return doors


def with_open_doors(opened: list[GatewayDoor], devbox: Devbox) -> Devbox:
    """Return the record with the opened doors."""
    by_id = {each.id: each for each in opened}
    doors = [by_id.get(door.id, door) for door in devbox.doors]
    return devbox.model_copy(update={"doors": doors})


TOKEN_PREFIX = "gws_"  # noqa: S105  (prefix of tokens)
_ROUTE = "api"
_PREFIX = "door-"

_log = logging.getLogger(__name__)


class GrantedDoors:
    """Doors as grants: each is one token that opens one API from one devbox."""

    def __init__(self, grants: Grants, vault: Vault) -> None:
        self._grants = grants
        self._vault = vault

    async def open(self, devbox_id: str, upstream: Upstream, name: str) -> tuple[str, str]:
        """Find or open the door with this name; returns its address inside the devbox and its token."""
        id = _PREFIX + hashlib.sha256(f"{devbox_id}/{name}".encode()).hexdigest()[:32]
        token = TOKEN_PREFIX + self._vault.derive("gateway-doors", f"{devbox_id}/{name}").hex()
        expires_ms = now_ms() + KEEP_ALIVE_MAX_SECONDS * 1000
        try:
            await self._grants.open(Grant(id, token, devbox_id, {_ROUTE: upstream}, expires_ms))
        except BenchyardError:
            await self._close_one(id, devbox_id)
            raise
        return url_of(devbox_id, _ROUTE), token

    async def close(self, devbox_id: str) -> None:
        """Make all tokens of a devbox invalid; never fails: tokens that cannot be closed now expire."""
        for grant_id in self._grants.of_devbox(devbox_id):
            if not grant_id.startswith(_PREFIX):
                # The grant of a trial: the trial ends it after reading its usage.
                continue
            await self._close_one(grant_id, devbox_id)
        try:
            await self._grants.silence(devbox_id)
        except BenchyardError as error:
            _log.warning("the door of devbox %s could not be closed: %s", devbox_id, error)

    async def _close_one(self, grant_id: str, devbox_id: str) -> None:
        try:
            await self._grants.close(grant_id)
            await self._grants.forget(grant_id)
        except BenchyardError as error:
            _log.warning("a door of devbox %s could not be closed: %s", devbox_id, error)


class EgressService(Protocol):
    """Serves doors of devboxes that may reach the hosts on a list."""

    async def open_egress(self, devbox_id: str, descriptor: int, rules: Rules) -> None:
        """Serve a door; a second call replaces its rules and ends connections that they do not allow.

        The descriptor is a socket that listens inside the devbox. It stays the caller's, who closes it.
        """

    async def refused(self, devbox_id: str) -> dict[str, int]:
        """Return the hosts and ports that were refused to a devbox, each with its count."""

    async def close_egress(self, devbox_id: str) -> None:
        """Stop serving a devbox's door, if it has one: the socket would keep its network alive."""
