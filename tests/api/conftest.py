"""Plain HTTP to a real server."""

from collections.abc import Iterator

import httpx
import pytest

from benchyard.testing.server import RunningServer
from tests.api.devbox import DevboxOverHttp, create


@pytest.fixture
def api(fake_server: RunningServer) -> Iterator[httpx.Client]:
    """A client with the first key."""
    headers = {"authorization": f"Bearer {fake_server.key}"}
    with httpx.Client(base_url=fake_server.url, headers=headers, timeout=30) as client:
        yield client


@pytest.fixture
def stranger(fake_server: RunningServer) -> Iterator[httpx.Client]:
    """A client without a key."""
    with httpx.Client(base_url=fake_server.url, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def devbox(fake_server: RunningServer) -> Iterator[DevboxOverHttp]:
    """A devbox that the tests of one file share."""
    headers = {"authorization": f"Bearer {fake_server.key}"}
    with httpx.Client(base_url=fake_server.url, headers=headers, timeout=40) as client:
        made = create(client)
        yield made
        made.post("shutdown")
