"""The ways into one devbox: its tunnel and its ssh keys."""

from benchyard.client import ssh, tunnels
from benchyard.client.core import Steps
from benchyard.client.verbs import Group, S, call
from benchyard.models.ssh import SshKeyView
from benchyard.models.tunnels import AuthMode, TunnelRequest, TunnelView


class DevboxNetwork(Group[S]):
    """The tunnel and the ssh keys of one devbox."""

    def __init__(self, session: S, devbox_id: str) -> None:
        super().__init__(session)
        self._devbox_id = devbox_id

    @call
    def create_ssh_key(self) -> Steps[SshKeyView]:
        """Make a key for it; the private half is told this once."""
        return (yield from ssh.create_key(self._devbox_id))

    @call
    def enable_tunnel(
        self,
        *,
        auth_mode: AuthMode | None = None,
        http_keep_alive: bool | None = None,
        wake_on_http: bool | None = None,
    ) -> Steps[TunnelView]:
        """Give it a tunnel; `Devbox.get_tunnel_url` says where a port is then."""
        request = TunnelRequest(
            auth_mode=auth_mode, http_keep_alive=http_keep_alive, wake_on_http=wake_on_http
        )
        return (yield from tunnels.enable(self._devbox_id, request))

    @call
    def remove_tunnel(self) -> Steps[None]:
        """Take its tunnel away."""
        yield from tunnels.remove(self._devbox_id)
