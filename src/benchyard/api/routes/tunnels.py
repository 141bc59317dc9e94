"""Tunnels: give a devbox one, take it away."""

from fastapi import APIRouter

from benchyard.api.deps import ServicesDep
from benchyard.api.routing import LateRoute
from benchyard.models.tunnels import TunnelRequest, TunnelView

router = APIRouter(prefix="/v1/devboxes", tags=["tunnels"], route_class=LateRoute)


@router.post("/{id}/enable_tunnel")
async def enable_tunnel(id: str, services: ServicesDep, body: TunnelRequest | None = None) -> TunnelView:
    """Let programs outside reach the devbox's ports over HTTP; once more returns the same tunnel."""
    return await services.engine.tunnels.enable(id, body or TunnelRequest())


@router.post("/{id}/remove_tunnel")
async def remove_tunnel(id: str, services: ServicesDep) -> dict[str, str]:
    """Take the devbox's tunnel away, with every connection through it."""
    await services.engine.tunnels.remove(id)
    return {}
