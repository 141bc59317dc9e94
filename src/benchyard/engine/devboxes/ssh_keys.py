"""Keys that open a devbox by ssh: made here, their public halves stored with the devbox."""

import signal
from contextlib import suppress

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from benchyard.devboxes.base import Signal, Stdin
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.commands import SSH_PREFIX
from benchyard.engine.devboxes.states import ENDED
from benchyard.errors import BenchyardError, TooMany, UsageError
from benchyard.models.devboxes import Devbox, DevboxStatus

MOST_KEYS = 100


class SshKeys:
    """The ssh keys of all devboxes."""

    def __init__(self, tools: EngineContext) -> None:
        self._live_devboxes = tools.live_devboxes
        self._host = tools.host

    async def open(self) -> None:
        """Hang up on commands whose ssh connections ended with an earlier server."""
        for devbox in self._live_devboxes.live():
            if devbox.status is DevboxStatus.RUNNING:
                for state in self._host.under_way(devbox.id):
                    if state.id.startswith(SSH_PREFIX):
                        await self.hang_up(devbox.id, state.id)

    async def hang_up(self, devbox_id: str, execution_id: str) -> None:
        """Send a command the signal that its client has gone; a command that ignores it goes on."""
        with suppress(BenchyardError):
            # The command may have ended just now, and its devbox with it.
            await self._host.control(devbox_id, execution_id, Stdin(close=True))
            await self._host.control(devbox_id, execution_id, Signal(signal.SIGHUP))

    async def create(self, devbox_id: str) -> tuple[str, str]:
        """Create a key of a devbox; returns it in PEM with its user's name. Raises UsageError, TooMany."""
        private = Ed25519PrivateKey.generate()
        public = private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()

        def rule(devbox: Devbox) -> Devbox:
            if devbox.status in ENDED:
                raise UsageError(f"devbox {devbox_id} has ended; create another")
            if len(devbox.ssh_keys) >= MOST_KEYS:
                raise TooMany(f"devbox {devbox_id} has {MOST_KEYS} ssh keys already; use one of those")
            return devbox.model_copy(update={"ssh_keys": [*devbox.ssh_keys, public]})

        devbox = await self._live_devboxes.change(devbox_id, rule)
        pem = private.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
        return pem, devbox.launch_parameters.username

    def find_by_key(self, public: str) -> Devbox | None:
        """Return the devbox that the owner of this public key may enter, or None."""
        return next((devbox for devbox in self._live_devboxes.live() if public in devbox.ssh_keys), None)
