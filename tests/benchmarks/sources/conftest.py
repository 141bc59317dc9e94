"""A hub that is asked in the place of the real one."""

from collections.abc import Iterator

import pytest

from tests.benchmarks import hub as stand_in


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[stand_in.Hub]:
    """A hub of its own, which `fetch` asks."""
    with stand_in.serving() as served:
        monkeypatch.setenv("HF_ENDPOINT", served.address)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield served
