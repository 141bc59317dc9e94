"""Doors of a devbox to HTTP APIs: what is asked for, what is kept, and what is shown."""

from typing import Annotated

from pydantic import Field

from benchyard.models.base import Model
from benchyard.models.gateway_configs import AuthMechanism, CustomHeader

Reference = Annotated[str, Field(min_length=1, max_length=256)]
"""A name or an id."""


class GatewayRequest(Model):
    """An API and the secret for it, each by name or id."""

    gateway: Reference
    secret: Reference


class GatewaySpec(Model):
    """What a devbox was given, as the wire shows it."""

    gateway_config_id: str
    secret_id: str


class GatewayDoor(GatewaySpec):
    """A door as its devbox keeps it; where it leads is as the config said when it was made."""

    id: str
    prefix: str | None = None
    """`PREFIX` and `PREFIX_URL` are set in the devbox; None for one that was asked for later."""
    endpoint: str
    auth_mechanism: AuthMechanism
    custom_headers: list[CustomHeader] = Field(default_factory=list)
    prices: str | None = None
    """Whose prices count for what passes."""
    url: str | None = None
    """As the devbox reaches it; None until it is open."""
    token: str | None = Field(default=None, repr=False)
    """Sealed."""
    request_hash: str | None = None


class GatewayTokenView(Model):
    """A door that was just opened, with the token that opens it for this devbox."""

    token: str = Field(repr=False)
    url: str
    devbox_id: str
    endpoint: str
    gateway_config_id: str
    auth_mechanism: AuthMechanism
