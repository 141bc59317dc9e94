"""A tunnel: how programs outside reach the ports of a devbox over HTTP."""

from typing import Literal

from benchyard.models.base import Model, WireBool

AuthMode = Literal["open", "authenticated"]


class TunnelRequest(Model):
    """What is asked of a tunnel; None is the default, or what it is already."""

    auth_mode: AuthMode | None = None
    http_keep_alive: WireBool | None = None
    wake_on_http: WireBool | None = None


class Tunnel(Model):
    """A tunnel as it is kept with its devbox; its token is derived from its key, and kept nowhere."""

    tunnel_key: str
    auth_mode: AuthMode = "open"
    http_keep_alive: bool = True
    wake_on_http: bool = False
    create_time_ms: int


class TunnelView(Model):
    """A tunnel as the wire shows it; `auth_token` only where it is needed."""

    tunnel_key: str
    auth_mode: AuthMode
    http_keep_alive: bool
    wake_on_http: bool
    create_time_ms: int
    auth_token: str | None = None
