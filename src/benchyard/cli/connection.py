"""Connects a command to the configured server, else to this user's own, which is started if necessary."""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from benchyard.cli.notices import tell
from benchyard.client.client import AsyncClient, Client
from benchyard.client.operations import Server
from benchyard.client.servers import configured_server, own_url, running_server, start_server, stored_key
from benchyard.settings import default_data_folder

PATIENCE_SECONDS = 2.0


def connect() -> Client:
    """Return a blocking client; use it in a `with` block."""
    return Client(find_or_start(os.environ))


def connect_async() -> AsyncClient:
    """Return a client for an event loop; use it in an `async with` block."""
    return AsyncClient(find_or_start(os.environ))


def find_or_start(environ: Mapping[str, str]) -> Server:
    """Return the server to use; starts one on loopback with a notice if none is configured or runs."""
    configured = configured_server(environ)
    data = default_data_folder(environ).absolute()
    if configured is not None and not _was_started_here(configured, data):
        return configured
    running = running_server(data)
    if running is not None:
        return running
    server = start_server(data, _StartNotice().look)
    tell(
        f"started a server for you at {server.url} (data in {data}); `benchyard server stop` ends it",
    )
    return server


def _was_started_here(server: Server, data: Path) -> bool:
    """Tell whether `benchyard server env` named this server: it can then be started again in its place."""
    return server.url == own_url(data) and server.key == stored_key(data)


class _StartNotice:
    """Reports once that a start takes long, and then shows that it goes on."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._said = False

    def look(self) -> None:
        if not self._said and time.monotonic() - self._begin > PATIENCE_SECONDS and sys.stderr.isatty():
            self._said = True
            tell("starting a server for you on this machine...")
