"""What the tests of the client share."""

import socket
from collections.abc import Iterator
from typing import cast

import pytest

from benchyard import AsyncBenchyard, Benchyard
from benchyard.client import AsyncClient, Client, Server
from benchyard.testing.server import RunningServer
from tests.sdk.blocking import Blocking, Loop, running_loop


@pytest.fixture
def unused_url() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    return f"http://127.0.0.1:{port}"


@pytest.fixture(scope="session")
def loop() -> Iterator[Loop]:
    """Where the asynchronous client lives."""
    with running_loop() as running:
        yield running


@pytest.fixture(scope="session", params=["sync", "async"])
def yard(request: pytest.FixtureRequest, server: RunningServer, loop: Loop) -> Iterator[Benchyard]:
    """`Benchyard`, and `AsyncBenchyard` behind the same face, of a real server."""
    if request.param == "sync":
        with Benchyard(server.url, server.key) as made:
            yield made
    else:
        with cast(Benchyard, Blocking(AsyncBenchyard(server.url, server.key), loop)) as made:
            yield made


@pytest.fixture(scope="session", params=["sync", "async"])
def client(request: pytest.FixtureRequest, server: RunningServer, loop: Loop) -> Iterator[Client]:
    """`Client`, and `AsyncClient` behind the same face, of a real server."""
    if request.param == "sync":
        with Client(Server(server.url, server.key)) as made:
            yield made
    else:
        with cast(Client, Blocking(AsyncClient(Server(server.url, server.key)), loop)) as made:
            yield made
