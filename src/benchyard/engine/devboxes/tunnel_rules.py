"""Pure rules of tunnels: what one becomes when it is asked for."""

import secrets

from benchyard.models.devboxes import Tunnel, TunnelRequest
from benchyard.models.launch import LaunchParameters

_KEY_BYTES = 16
"""As hexadecimal digits, with a port before them, it is one label of a host name."""


def new_tunnel(request: TunnelRequest, launch: LaunchParameters, now_ms: int) -> Tunnel:
    """A tunnel under a key that nobody can guess."""
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
    """The tunnel a devbox has from now on: the same one, unless there is none or who may enter changes."""
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
    """What the launch parameters say counts for more than what the tunnel's request says."""
    for said in (launch.wakes_on_http, request.wake_on_http):
        if said is not None:
            return said
    return is_so_far
