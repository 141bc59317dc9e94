"""What opens a devbox by ssh."""

from benchyard.models.base import Model


class SshKeyView(Model):
    """A new key of a devbox; its private half is shown this once, and kept nowhere."""

    id: str
    """The devbox."""
    ssh_private_key: str
    ssh_user: str
    url: str
    """The name to give to ssh; behind TLS also the name that leads to it."""
    host_key: str
    """An extension: the server's own public key, for `known_hosts`."""
