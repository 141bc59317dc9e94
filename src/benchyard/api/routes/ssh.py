"""Ssh: a new key of a devbox, and a socket that carries ssh where only this server can be reached."""

from urllib.parse import urlsplit

from fastapi import APIRouter, Request, WebSocket

from benchyard.api.deps import ServicesDep, services_of
from benchyard.api.errors import error_response
from benchyard.api.routing import LateRoute
from benchyard.api.ssh.carrying import spoken
from benchyard.api.ssh.opening import name_behind
from benchyard.api.tunnels.sockets import carry_socket
from benchyard.errors import BenchyardError
from benchyard.models.ssh import SshKeyView

router = APIRouter(prefix="/v1/devboxes", tags=["ssh"], route_class=LateRoute)


@router.post("/{id}/create_ssh_key")
async def create_ssh_key(id: str, request: Request, services: ServicesDep) -> SshKeyView:
    """Make a key that opens the devbox by ssh; it is shown this once."""
    await services.ssh.ready()
    private, user = await services.engine.ssh_keys.create(id)
    named = urlsplit(services.settings.public_url or "").hostname or request.url.hostname
    return SshKeyView(
        id=id,
        ssh_private_key=private,
        ssh_user=user,
        url=name_behind(services.vault, id, named or services.settings.host),
        host_key=services.ssh.host_key,
    )


@router.websocket("/{id}/ssh")
async def ssh(socket: WebSocket, id: str) -> None:
    """Carry the bytes of an ssh connection; who may enter which devbox is the ssh server's to say."""
    services = services_of(socket)
    try:
        serving = await services.ssh.ready()
        await services.engine.devboxes.running(id)
    except BenchyardError as error:
        await socket.send_denial_response(error_response(error))
        return
    await socket.accept()
    async with spoken(serving) as stream:
        await carry_socket(services, socket, stream)
