"""Tunnels: reach the ports of a devbox over HTTP."""

from benchyard.client.core import Request, Server, Steps, at, fetch, send
from benchyard.client.verbs import Group, S, call
from benchyard.models.tunnels import TunnelRequest, TunnelView


class Tunnels(Group[S]):
    """The tunnels of a server's devboxes."""

    @call
    def enable(self, devbox_id: str, request: TunnelRequest | None = None) -> Steps[TunnelView]:
        """Give a devbox a tunnel; once more returns the same one, unless `auth_mode` is another."""
        return (yield from enable(devbox_id, request or TunnelRequest()))

    @call
    def remove(self, devbox_id: str) -> Steps[None]:
        """Take a devbox's tunnel away."""
        yield from remove(devbox_id)

    def url(self, tunnel: TunnelView, port: int) -> str:
        """Where a port of the devbox is, on the address this client has of the server."""
        return url(self.session.server, tunnel, port)


def enable(devbox_id: str, request: TunnelRequest) -> Steps[TunnelView]:
    """Give a devbox a tunnel."""
    path = at("/v1/devboxes/{}/enable_tunnel", devbox_id)
    return (yield from fetch(Request("POST", path, json=request), TunnelView))


def remove(devbox_id: str) -> Steps[None]:
    """Take a devbox's tunnel away."""
    yield from send(Request("POST", at("/v1/devboxes/{}/remove_tunnel", devbox_id)))


def url(server: Server, tunnel: TunnelView, port: int) -> str:
    """Where a port of a devbox is, on the address a client has of the server."""
    return f"{server.url}/tunnel/{tunnel.tunnel_key}/{port}/"
