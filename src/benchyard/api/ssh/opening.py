"""Opens the ssh server, when it is needed and where the package it is built on is installed."""

import asyncio
import importlib
import re
import socket
from contextlib import AsyncExitStack
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

from benchyard.engine.engine import Engine
from benchyard.errors import NotSupported
from benchyard.hosts.host import Host
from benchyard.settings import Settings
from benchyard.store.vault import Vault, write_private

HOST_KEY = "ssh-host-key"
_MODULE = "benchyard.api.ssh.serving.server"
_MISSING = "this server cannot do ssh: install it with `pip install 'benchyard[ssh]'` and start it again"
_LABEL_DIGITS = 32
_BEHIND_TLS = re.compile(rf"([0-9a-f]{{{_LABEL_DIGITS}}}\.)?ssh\..+", re.IGNORECASE)


class Serving(Protocol):
    """What speaks ssh, once it is loaded."""

    @property
    def port(self) -> int | None:
        """The port it listens on by itself, if it does."""

    async def serve(self, connected: socket.socket) -> None:
        """Speak ssh on a connected socket, to the end."""


class SshServer:
    """The ssh server, which is loaded when it is used for the first time. Use as an async context manager."""

    def __init__(self, settings: Settings, engine: Engine, host: Host) -> None:
        self._settings = settings
        self._engine = engine
        self._host = host
        self._stack = AsyncExitStack()
        self._loading = asyncio.Lock()
        self._serving: Serving | None = None
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
        """Its public key, as one line."""
        key = load_ssh_private_key(self._key.encode(), None)
        return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()

    @property
    def port(self) -> int | None:
        """The port it listens on by itself, if it does."""
        return self._serving.port if self._serving else None

    async def ready(self) -> Serving:
        """Load it unless that is done; raises NotSupported, saying how to get it, without its package."""
        async with self._loading:
            serving = self._serving
            if serving is None:
                try:
                    module = await asyncio.to_thread(importlib.import_module, _MODULE)
                except ModuleNotFoundError as error:
                    if error.name != "asyncssh":
                        raise
                    raise NotSupported(_MISSING) from error
                opening = module.opened(self._settings, self._engine, self._host, self._key)
                made: Serving = await self._stack.enter_async_context(opening)
                serving = self._serving = made
            return serving


def read_or_make_key(file: Path) -> str:
    """The private key that this server is known by, in PEM; made at the first start."""
    if not file.exists():
        key = Ed25519PrivateKey.generate()
        write_private(file, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode())
    return file.read_text()


def name_behind(vault: Vault, devbox_id: str, host: str) -> str:
    """The name that leads to a devbox's ssh, for a client that reached the API under this host name."""
    if not re.search("[a-z]", host, re.IGNORECASE) or ":" in host:
        return host
    label = vault.derive("ssh-name", devbox_id).hex()[:_LABEL_DIGITS]
    return f"{label}.ssh.{host.lower().removeprefix('api.')}"


def is_for_ssh(name: str) -> bool:
    """Whether a client that asks for this name by TLS means to speak ssh."""
    return _BEHIND_TLS.fullmatch(name) is not None
