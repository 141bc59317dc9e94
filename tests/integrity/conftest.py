"""One yard for all tests of this folder."""

from collections.abc import Iterator

import pytest

from benchyard.testing.server import RunningServer
from tests.integrity.yard import Yard, opened


@pytest.fixture(scope="session")
def yard(server: RunningServer) -> Iterator[Yard]:
    """Where attacks are tried."""
    with opened(server) as made:
        yield made
