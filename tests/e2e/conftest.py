"""What the tests with real agents share: where the agents lie once they are installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchyard.hosts import leaks
from tests.e2e.agents import AgentYard


@pytest.fixture(scope="session")
def agent_kits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all workers: an agent is fetched once."""
    return tmp_path_factory.getbasetemp().parent / "agent-kits"


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory, agent_kits: Path) -> Iterator[AgentYard]:
    """A server and a model that solves quickstart; nothing may be left of them in the end."""
    with AgentYard(tmp_path_factory.mktemp("agents"), agent_kits) as made:
        yield made
    assert leaks.find(made.server.data) == []
