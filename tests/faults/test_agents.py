"""Real agents whose server, or gateway, is killed in the middle of what their model says."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchyard.hosts import leaks
from benchyard.scripted_model import Script, solving
from tests.e2e.agents import ALL, CLAUDE, PATIENCE_SECONDS, AgentYard, Named
from tests.e2e.test_keys import gateways
from tests.faults.seeds import SEEDS

AWAY_SECONDS = 5.0
CHUNK_SECONDS = 0.4
"""Between two pieces of an answer: long enough to be killed in between."""
LATENCY_SECONDS = 3.0
"""Before an answer: not every agent has it in pieces."""


@pytest.fixture
def kits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp().parent / "agent-kits"


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.02)


def slow() -> list[Script]:
    """What solves quickstart, by a model that takes its time."""
    found = []
    for script in solving(names=("quickstart/fix-a-bug",)):
        steps = [step.model_copy(update={"latency": LATENCY_SECONDS}) for step in script.steps]
        found.append(script.model_copy(update={"steps": tuple(steps)}))
    return found


def is_speaking(yard: AgentYard) -> bool:
    """Whether the model is in the middle of an answer that is not its first."""
    calls = yard.model.ledger.calls()
    return len(calls) > 1 and not calls[-1].is_complete


@pytest.mark.parametrize("named", ALL if SEEDS else (CLAUDE,), ids=str)
def test_an_agent_whose_server_is_killed_in_mid_stream_ends_with_its_score(
    tmp_path: Path, kits: Path, named: Named
) -> None:
    with AgentYard(tmp_path, kits, slow(), chunk_delay=CHUNK_SECONDS) as yard:
        job = yard.job(named.config(), names=("fix-a-bug",))
        wait_until(lambda: is_speaking(yard), "the model to speak")
        yard.server.kill()
        time.sleep(AWAY_SECONDS)
        yard.server.start()
        row = job.row()
        assert (row["state"], row.get("score"), len(row["attempts"])) == ("COMPLETED", 1.0, 1), row
        (trial,) = job.trials()
        spent = yard.model.ledger.total()
        assert (trial["usage"]["input_tokens"], trial["usage"]["output_tokens"]) == (
            spent.input_tokens,
            spent.output_tokens,
        )
    assert leaks.find(yard.server.data) == []


@pytest.mark.parametrize("with_server", [False, True], ids=["gateway", "gateway and server"])
def test_an_agent_whose_gateway_is_killed_asks_again_and_ends_with_its_score(
    tmp_path: Path, kits: Path, with_server: bool
) -> None:
    with AgentYard(tmp_path, kits, slow(), chunk_delay=CHUNK_SECONDS) as yard:
        job = yard.job(CLAUDE.config(), names=("fix-a-bug",))
        wait_until(lambda: is_speaking(yard), "the model to speak")
        if with_server:
            yard.server.kill()
        for pid in gateways(yard.server.data):
            os.kill(pid, signal.SIGKILL)
        if with_server:
            yard.server.start()
        row = job.row()
        assert (row["state"], row.get("score"), len(row["attempts"])) == ("COMPLETED", 1.0, 1), row
    assert leaks.find(yard.server.data) == []
