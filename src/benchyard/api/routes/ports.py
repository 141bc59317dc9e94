"""Ports of a devbox: a socket that carries the bytes of one connection to one of them."""

from fastapi import APIRouter, WebSocket

from benchyard.api.deps import services_of
from benchyard.api.errors import error_response
from benchyard.api.routing import LateRoute
from benchyard.api.tunnels.sockets import carry_socket
from benchyard.api.tunnels.streams import opened
from benchyard.errors import BenchyardError

router = APIRouter(prefix="/v1/devboxes", tags=["tunnels"], route_class=LateRoute)


@router.websocket("/{id}/ports/{port}")
async def connect(socket: WebSocket, id: str, port: int) -> None:
    """Carry bytes to and from a port of the devbox's own loopback."""
    services = services_of(socket)
    try:
        await services.engine.devboxes.running(id)
        descriptor = await services.host.connect(id, port)
    except BenchyardError as error:
        await socket.send_denial_response(error_response(error))
        return
    async with opened(descriptor) as stream:
        await socket.accept()
        await carry_socket(services, socket, stream)
