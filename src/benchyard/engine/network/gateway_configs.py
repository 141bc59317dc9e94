"""Gateway configs for the API: create, find by name or id, change, list, delete."""

import hashlib
from collections.abc import Mapping

from benchyard.engine.clock import now_ms
from benchyard.engine.context import Caller
from benchyard.engine.ids import id_from_bytes
from benchyard.engine.secrets import Secrets
from benchyard.errors import Conflict, Forbidden, NotFound, UsageError
from benchyard.models.gateway_configs import (
    AuthMechanism,
    CustomHeader,
    GatewayConfig,
    GatewayConfigChange,
    GatewayConfigRequest,
    GatewayDoor,
    GatewayRequest,
)
from benchyard.models.pages import Page, Query
from benchyard.registry import nearest
from benchyard.store.collection import Collection

GATEWAY_PREFIX = "gwc_"
DOOR_PREFIX = "gwt_"
PUBLIC = {
    "anthropic": ("https://api.anthropic.com", AuthMechanism(type="header", key="x-api-key")),
    "openai": ("https://api.openai.com", AuthMechanism(type="bearer")),
    "google": (
        "https://generativelanguage.googleapis.com",
        AuthMechanism(type="header", key="x-goog-api-key"),
    ),
}
"""Configs that come with the server."""
_MOST_LISTED = 20


class GatewayConfigs:
    """All HTTP APIs that devboxes can be given."""

    def __init__(self, records: Collection[GatewayConfig], secrets: Secrets) -> None:
        self._records = records
        self._secrets = secrets

    async def open(self) -> None:
        """Store the configs that come with the server, as in this version."""
        for name, (endpoint, mechanism) in PUBLIC.items():
            record = GatewayConfig(
                id=f"{GATEWAY_PREFIX}public_{name}",
                create_time_ms=now_ms(),
                name=name,
                endpoint=endpoint,
                auth_mechanism=mechanism,
                is_public=True,
            )
            kept, _ = await self._records.insert_once(record)
            current = record.model_copy(update={"create_time_ms": kept.create_time_ms})
            if kept != current:
                await self._records.change(kept.id, lambda _, current=current: current)  # type: ignore[misc]

    async def create(self, caller: Caller, request: GatewayConfigRequest) -> GatewayConfig:
        """Store a new config; raises UsageError if its name is taken or one of its secrets is missing."""
        _check_name(request.name)
        record = GatewayConfig(
            id=caller.id,
            create_time_ms=now_ms(),
            request_hash=caller.request_hash,
            name=request.name,
            endpoint=request.endpoint,
            auth_mechanism=request.auth_mechanism,
            custom_headers=[await self._with_id(header) for header in request.custom_headers or []],
            description=request.description or None,
        )
        try:
            stored, _ = await self._records.insert_once(_check_headers(record))
        except Conflict as error:
            raise _name_conflict(request.name) from error
        return stored

    async def get(self, id: str) -> GatewayConfig:
        """Return the config with this id; raises NotFound."""
        return await self._records.get(id)

    async def named(self, given: str) -> GatewayConfig:
        """Return the config with this name or id; raises UsageError with the known ones."""
        found = await self._records.find(given) if given.startswith(GATEWAY_PREFIX) else None
        found = found or await self._records.find_named(given)
        if found is None:
            names = [record.name for record in await self._records.all({})]
            listed = ", ".join(sorted(names)[:_MOST_LISTED])
            raise UsageError(
                f"no gateway config has the name or id {given[:100]!r}{nearest(given, names)}; there are: "
                f"{listed}. Make one with `benchyard gateway-config create`",
                field="gateway",
            )
        return found

    async def update(self, id: str, change: GatewayConfigChange) -> GatewayConfig:
        """Change a config; devboxes that have it keep the old content. Raises UsageError, NotFound."""
        await self._own(id)
        if change.name is not None:
            _check_name(change.name)
        fields: dict[str, object] = {
            name: value for name in ("name", "endpoint", "auth_mechanism") if (value := getattr(change, name))
        }
        if change.custom_headers is not None:
            fields["custom_headers"] = [await self._with_id(header) for header in change.custom_headers]
        if change.description is not None:
            fields["description"] = change.description or None
        try:
            return await self._records.change(
                id, lambda config: _check_headers(config.model_copy(update=fields))
            )
        except Conflict as error:
            raise _name_conflict(str(change.name)) from error

    async def delete(self, id: str) -> GatewayConfig:
        """Delete a config; devboxes that have it keep it. Raises NotFound, Forbidden for built-in ones."""
        found = await self._own(id)
        await self._records.delete(id)
        return found

    async def page(self, query: Query) -> Page[GatewayConfig]:
        """Return a page of configs, newest first."""
        return await self._records.page(query)

    async def door(self, id: str, request: GatewayRequest, prefix: str | None = None) -> GatewayDoor:
        """Return a door that is not open yet; raises UsageError for a missing config or secret."""
        config = await self.named(request.gateway)
        return GatewayDoor(
            id=id,
            prefix=prefix,
            gateway_config_id=config.id,
            secret_id=await self._secret_id(request.secret, "secret"),
            endpoint=config.endpoint,
            auth_mechanism=config.auth_mechanism,
            custom_headers=config.custom_headers,
            prices=config.name if config.is_public else None,
        )

    async def doors(self, devbox_id: str, gateways: Mapping[str, GatewayRequest]) -> list[GatewayDoor]:
        """Return the doors that a devbox is created with, by the prefixes of their variables."""
        doors = []
        for prefix, wanted in gateways.items():
            digest = hashlib.sha256(f"{devbox_id}/{prefix}".encode()).digest()
            doors.append(await self.door(id_from_bytes(DOOR_PREFIX, digest), wanted, prefix))
        return doors

    async def _own(self, id: str) -> GatewayConfig:
        found = await self._records.get(id)
        if found.is_public:
            raise Forbidden(f"gateway config {found.name!r} comes with the server; make one of your own")
        return found

    async def _with_id(self, header: CustomHeader) -> CustomHeader:
        if header.secret is None:
            return header
        return header.model_copy(update={"secret": await self._secret_id(header.secret, "custom_headers")})

    async def _secret_id(self, given: str, field: str) -> str:
        try:
            return (await self._secrets.find(given)).id
        except NotFound as error:
            raise UsageError(f"{error.message}; `benchyard secret set` makes one", field=field) from error


def _check_headers(config: GatewayConfig) -> GatewayConfig:
    """Refuse a config that sets a header twice."""
    seen = {config.auth_mechanism.header.lower()}
    for header in config.custom_headers:
        if header.name.lower() in seen:
            raise UsageError(
                f"header {header.name!r} is set twice, or is the one for the key", field="custom_headers"
            )
        seen.add(header.name.lower())
    return config


def _check_name(name: str) -> None:
    if name.startswith(GATEWAY_PREFIX):
        raise UsageError(f"a name does not begin with {GATEWAY_PREFIX}, as ids do", field="name")


def _name_conflict(name: str) -> UsageError:
    return UsageError(
        f"there is a gateway config called {name!r}; update it, or choose another name", field="name"
    )
