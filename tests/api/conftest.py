"""Plain HTTP to a real server."""

from collections.abc import Iterator

import httpx
import pytest

from benchyard.testing.server import RunningServer


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
