"""Access to the lazily loaded ssh server: through a port, through TLS by server name, through a websocket."""

import asyncio
import importlib
import re
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
)

from benchyard.api.log import logger
from benchyard.api.protocol import BoundedHttp
from benchyard.api.tls import Tls
from benchyard.api.tunnels.streams import ByteStream, IdleClock, carry, open_stream, stream_from_transport
from benchyard.engine.engine import Engine
from benchyard.errors import NotSupported
from benchyard.hosts.host import Host
from benchyard.settings import Settings
from benchyard.store.vault import Vault, write_private

HOST_KEY = "ssh-host-key"
_MODULE = "benchyard.api.ssh.server"
_MISSING = (
    "this server does not support ssh: install it with `pip install 'benchyard[ssh]'` and start it again"
)
_LABEL_DIGITS = 32
_BEHIND_TLS = re.compile(rf"([0-9a-f]{{{_LABEL_DIGITS}}}\.)?ssh\..+", re.IGNORECASE)


class SshService(Protocol):
    """The ssh server once it is loaded."""

    @property
    def port(self) -> int | None:
        """Port of the server's own listener; None without one."""

    async def serve(self, connected: socket.socket) -> None:
        """Speak ssh on a connected socket until its end."""


class SshServer:
    """The ssh server, loaded at its first use. An async context manager."""

    def __init__(self, settings: Settings, engine: Engine, host: Host) -> None:
        self._settings = settings
        self._engine = engine
        self._host = host
        self._stack = AsyncExitStack()
        self._loading = asyncio.Lock()
        self._serving: SshService | None = None
        self._key = read_or_make_key(settings.data / HOST_KEY)

    async def __aenter__(self) -> Self:
        if self._settings.ssh_port is not None:
            await self.ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def host_key(self) -> str:
        """Public host key, as one line."""
        key = load_ssh_private_key(self._key.encode(), None)
        return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()

    @property
    def port(self) -> int | None:
        """Port of the server's own listener; None without one."""
        return self._serving.port if self._serving else None

    async def ready(self) -> SshService:
        """Load the server if needed; raises NotSupported, with advice, if its package is missing."""
        async with self._loading:
            serving = self._serving
            if serving is None:
                try:
                    module = await asyncio.to_thread(importlib.import_module, _MODULE)
                except ModuleNotFoundError as error:
                    if error.name != "asyncssh":
                        raise
                    raise NotSupported(_MISSING) from error
                opening = module.open_connections(self._settings, self._engine, self._host, self._key)
                transport: SshService = await self._stack.enter_async_context(opening)
                serving = self._serving = transport
            return serving


def read_or_make_key(file: Path) -> str:
    """Return the private host key in PEM; it is created at the first start."""
    if not file.exists():
        key = Ed25519PrivateKey.generate()
        write_private(file, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode())
    return file.read_text()


def ssh_name(vault: Vault, devbox_id: str, host: str) -> str:
    """Return the host name for a devbox's ssh, for a client that reached the API under this host name."""
    if not re.search("[a-z]", host, re.IGNORECASE) or ":" in host:
        return host
    label = vault.derive("ssh-name", devbox_id).hex()[:_LABEL_DIGITS]
    return f"{label}.ssh.{host.lower().removeprefix('api.')}"


def is_for_ssh(name: str) -> bool:
    """Tell whether a client that asks for this TLS server name wants to speak ssh."""
    return _BEHIND_TLS.fullmatch(name) is not None


@asynccontextmanager
async def open_ssh_stream(serving: SshService) -> AsyncIterator[ByteStream]:
    """Yield a stream whose other end is the ssh server."""
    ours, theirs = socket.socketpair()
    speaking = asyncio.ensure_future(serving.serve(theirs))
    try:
        async with open_stream(ours.detach()) as stream:
            yield stream
    finally:
        # The server sees the end of the stream, and needs time to clean up.
        await asyncio.wait({speaking})


async def speak_ssh(serving: SshService, outside: ByteStream) -> None:
    """Let a client with another kind of connection speak ssh until its end."""
    try:
        async with open_ssh_stream(serving) as inside:
            await carry(outside, inside, IdleClock(lambda: None))
    finally:
        outside.close()


class SshBehindTls:
    """Takes ssh connections from the HTTP server as soon as they are made."""

    def __init__(self, server: SshServer, tls: Tls | None) -> None:
        self._server = server
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, connection: BoundedHttp) -> bool:
        """Serve a connection if its TLS server name is for ssh; tell whether it is."""
        if self._tls is None:
            return False
        name = self._tls.names.get(connection.transport.get_extra_info("ssl_object"), "")
        if not is_for_ssh(name):
            return False
        # This happens before the connection's first byte arrives.
        stream = stream_from_transport(connection.transport, b"", is_all=False)
        task = asyncio.ensure_future(self._speak(connection, stream))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _speak(self, connection: BoundedHttp, stream: ByteStream) -> None:
        try:
            await speak_ssh(await self._server.ready(), stream)
        except NotSupported as error:
            logger.warning("turned away an ssh client: %s", error.message)
            stream.close()
        finally:
            connection.leave()

    async def close(self) -> None:
        """End all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
