"""Ways into a devbox: tunnels, ssh keys and terminal sessions."""

from benchyard.client.methods import NounObject, S, VerbGroup, bound, call
from benchyard.client.operations import Query, Request, Steps, at, fetch, send
from benchyard.models.devboxes import (
    AuthMode,
    PtyConnectView,
    PtyControlRequest,
    PtyControlResultView,
    SshKeyView,
    TunnelRequest,
    TunnelView,
)


class Tunnels(VerbGroup[S]):
    """The tunnels of a server's devboxes."""

    @call
    def enable(self, devbox_id: str, request: TunnelRequest | None = None) -> Steps[TunnelView]:
        """Give a devbox a tunnel; repeated calls return the same one, unless `auth_mode` differs."""
        path = at("/v1/devboxes/{}/enable_tunnel", devbox_id)
        return (yield from fetch(Request("POST", path, json=request or TunnelRequest()), TunnelView))

    @call
    def remove(self, devbox_id: str) -> Steps[None]:
        """Take a devbox's tunnel away."""
        yield from send(Request("POST", at("/v1/devboxes/{}/remove_tunnel", devbox_id)))

    def url(self, tunnel: TunnelView, port: int) -> str:
        """Return the URL of a devbox's port, at the address this client uses for the server."""
        return f"{self.session.server.url}/tunnel/{tunnel.tunnel_key}/{port}/"


class Ssh(VerbGroup[S]):
    """The ssh keys of a server's devboxes; `benchyard.client.sockets` carries ssh itself."""

    @call
    def create_key(self, devbox_id: str) -> Steps[SshKeyView]:
        """Make a key of a devbox; only this answer holds its private half."""
        return (
            yield from fetch(Request("POST", at("/v1/devboxes/{}/create_ssh_key", devbox_id)), SshKeyView)
        )


class Pty(VerbGroup[S]):
    """The terminal sessions of a server's devboxes; `benchyard.client.sockets` carries their bytes."""

    @call
    def connect(
        self, devbox_id: str, session: str, columns: int = 80, rows: int = 24
    ) -> Steps[PtyConnectView]:
        """Find or make a session of that name; its bytes flow over a websocket at `connect_url`."""
        query: Query = {"devbox_id": devbox_id, "cols": columns, "rows": rows}
        return (yield from fetch(Request("GET", at("/pty/{}", session), query), PtyConnectView))

    @call
    def control(
        self, devbox_id: str, session: str, request: PtyControlRequest
    ) -> Steps[PtyControlResultView]:
        """Resize the session, send a signal to its foreground process, or close it."""
        path = at("/pty/{}/control", session)
        return (
            yield from fetch(
                Request("POST", path, {"devbox_id": devbox_id}, json=request), PtyControlResultView
            )
        )


class DevboxNetwork(NounObject[S]):
    """The tunnel and the ssh keys of one devbox."""

    create_ssh_key = bound(Ssh.create_key)
    remove_tunnel = bound(Tunnels.remove)

    @call
    def enable_tunnel(
        self,
        *,
        auth_mode: AuthMode | None = None,
        http_keep_alive: bool | None = None,
        wake_on_http: bool | None = None,
    ) -> Steps[TunnelView]:
        """Give it a tunnel; `Devbox.get_tunnel_url` returns the URL of a port then."""
        request = TunnelRequest(
            auth_mode=auth_mode, http_keep_alive=http_keep_alive, wake_on_http=wake_on_http
        )
        return (yield from Tunnels(self.session).enable.steps(self.id, request))
