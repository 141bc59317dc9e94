"""The syntax trees of all modules are kept for the tests of this folder, and for no longer."""

from collections.abc import Iterator

import pytest

from tests.house import tree


@pytest.fixture(scope="package", autouse=True)
def _trees() -> Iterator[None]:
    yield
    tree.modules.cache_clear()
