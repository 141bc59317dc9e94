"""Ways into a devbox: tunnels, its ports, and ssh."""

from urllib.parse import urlsplit

from fastapi import APIRouter, Request, WebSocket

from benchyard.api.deps import ServicesDep, services_of
from benchyard.api.errors import error_response
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.ssh.transport import open_ssh_stream, ssh_name
from benchyard.api.tunnels.streams import open_stream
from benchyard.api.tunnels.websockets import carry_socket
from benchyard.errors import BenchyardError
from benchyard.models.devboxes import SshKeyView, TunnelRequest, TunnelView

router = APIRouter(route_class=LazyRoute)


@router.post("/v1/devboxes/{id}/enable_tunnel", tags=["tunnels"])
async def enable_tunnel(id: str, services: ServicesDep, body: TunnelRequest | None = None) -> TunnelView:
    """Let programs outside reach the devbox's ports over HTTP; repeating this returns the same tunnel."""
    return await services.engine.tunnels.enable(id, body or TunnelRequest())


@router.post("/v1/devboxes/{id}/remove_tunnel", tags=["tunnels"])
async def remove_tunnel(id: str, services: ServicesDep) -> dict[str, str]:
    """Take the devbox's tunnel away, with every connection through it."""
    await services.engine.tunnels.remove(id)
    return {}


@router.websocket("/v1/devboxes/{id}/ports/{port}")
async def connect(socket: WebSocket, id: str, port: int) -> None:
    """Carry bytes to and from a port of the devbox's own loopback."""
    services = services_of(socket)
    try:
        await services.engine.devboxes.running(id)
        descriptor = await services.host.connect(id, port)
    except BenchyardError as error:
        await socket.send_denial_response(error_response(error))
        return
    async with open_stream(descriptor) as stream:
        await socket.accept()
        await carry_socket(services, socket, stream)


@router.post("/v1/devboxes/{id}/create_ssh_key", tags=["ssh"])
async def create_ssh_key(id: str, request: Request, services: ServicesDep) -> SshKeyView:
    """Make a key that opens the devbox by ssh; it is shown this once."""
    await services.ssh.ready()
    private, user = await services.engine.ssh_keys.create(id)
    named = urlsplit(services.settings.public_url or "").hostname or request.url.hostname
    return SshKeyView(
        id=id,
        ssh_private_key=private,
        ssh_user=user,
        url=ssh_name(services.vault, id, named or services.settings.host),
        host_key=services.ssh.host_key,
    )


@router.websocket("/v1/devboxes/{id}/ssh")
async def ssh(socket: WebSocket, id: str) -> None:
    """Carry the bytes of an ssh connection; the ssh server decides which devbox a client may enter."""
    services = services_of(socket)
    try:
        serving = await services.ssh.ready()
        await services.engine.devboxes.running(id)
    except BenchyardError as error:
        await socket.send_denial_response(error_response(error))
        return
    await socket.accept()
    async with open_ssh_stream(serving) as stream:
        await carry_socket(services, socket, stream)
