"""What the tests of the client share."""

import socket

import pytest


@pytest.fixture
def unused_url() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    return f"http://127.0.0.1:{port}"
