"""Ssh: keys that open a devbox."""

from benchyard.client.core import Request, Steps, at, fetch
from benchyard.client.verbs import Group, S, call
from benchyard.models.ssh import SshKeyView


class Ssh(Group[S]):
    """The ssh keys of a server's devboxes; `benchyard.client.sockets` carries ssh itself."""

    @call
    def create_key(self, devbox_id: str) -> Steps[SshKeyView]:
        """Make a key of a devbox; its private half is told this once."""
        return (yield from create_key(devbox_id))


def create_key(devbox_id: str) -> Steps[SshKeyView]:
    """Make a key of a devbox."""
    return (yield from fetch(Request("POST", at("/v1/devboxes/{}/create_ssh_key", devbox_id)), SshKeyView))
