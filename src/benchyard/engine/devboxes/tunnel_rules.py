"""Pure rules of tunnels: the tunnel that results from a request."""

import secrets

from benchyard.models.devboxes import Tunnel, TunnelRequest
from benchyard.models.launch import LaunchParameters

_KEY_BYTES = 16
"""Bytes of a tunnel's key: as hexadecimal digits, after a port, they fit into one label of a host name."""


def new_tunnel(request: TunnelRequest, launch: LaunchParameters, now_ms: int) -> Tunnel:
    """Return a tunnel with a new random key."""
    return Tunnel(
        tunnel_key=secrets.token_hex(_KEY_BYTES),
        auth_mode=request.auth_mode or "open",
        http_keep_alive=request.http_keep_alive is not False,
        wake_on_http=_wakes(request, launch, is_so_far=False),
        create_time_ms=now_ms,
    )


def enabled_tunnel(
    current: Tunnel | None, request: TunnelRequest, launch: LaunchParameters, now_ms: int
) -> Tunnel:
    """Return a devbox's tunnel after a request: the same one, unless there is none or `auth_mode` changes."""
    if current is None or request.auth_mode not in (None, current.auth_mode):
        return new_tunnel(request, launch, now_ms)
    keep_alive = request.http_keep_alive
    return current.model_copy(
        update={
            "http_keep_alive": current.http_keep_alive if keep_alive is None else keep_alive,
            "wake_on_http": _wakes(request, launch, is_so_far=current.wake_on_http),
        }
    )


def _wakes(request: TunnelRequest, launch: LaunchParameters, *, is_so_far: bool) -> bool:
    """Tell whether HTTP wakes the devbox: launch parameters count before the tunnel's request."""
    for said in (launch.wakes_on_http, request.wake_on_http):
        if said is not None:
            return said
    return is_so_far
