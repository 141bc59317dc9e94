"""A terminal in a devbox, by a name the client chooses."""

from typing import Literal

from pydantic import Field

from benchyard.models.base import Model, WireInt

SESSION_NAME = r"^[A-Za-z0-9_-]{1,256}$"


class PtyTunnelView(Model):
    """What opens a devbox's terminals: a token for `X-Runloop-Tunnel-Authorization`."""

    auth_token: str
    tunnel_key: str


class PtyConnectView(Model):
    """A terminal session, found or made."""

    session_name: str
    status: str
    created: bool
    attached: bool
    cols: int
    rows: int
    connect_url: str
    idle_ttl_seconds: int
    protocol_version: str = "1"


class PtyControlRequest(Model):
    """Something to do to a terminal session."""

    action: Literal["resize", "signal", "close"]
    cols: WireInt | None = None
    rows: WireInt | None = None
    signal: str | None = Field(default=None, max_length=32)


class PtyControlResultView(Model):
    """What became of it."""

    session_name: str
    status: str
