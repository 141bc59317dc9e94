"""Real agents that are cut short, by whom and when nobody would think of: what they spent is counted once,
their tokens die, and nothing is left of them.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchyard.devboxes.shared.running_devbox import FirstProcess
from benchyard.gateway.client import Gateway
from benchyard.gateway.protocol import RECORDS
from benchyard.hosts import leaks
from benchyard.scripted_model import Script, ScriptStep
from tests.e2e.agents import CODEX, PATIENCE_SECONDS, AgentYard
from tests.e2e.test_keys import gateways

SLOW = Script(
    steps=(
        ScriptStep.model_validate({"shell": "true"}),
        ScriptStep.model_validate({"text": "Done.", "latency": PATIENCE_SECONDS}),
    )
)


@pytest.fixture
def kits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp().parent / "agent-kits"


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.02)


def is_at_work(yard: AgentYard) -> bool:
    """Whether the agent has used its tool, and waits for what its model says to that."""
    return any(call.results for call in yard.model.ledger.calls())


def check_nothing_is_left(yard: AgentYard) -> None:
    folder = yard.server.data / "gateway"
    assert list((folder / RECORDS).iterdir()) == []
    if gateways(yard.server.data):
        status = asyncio.run(_status(folder))
        assert (status["grants"], status["devboxes"]) == ([], [])


async def _status(folder: Path) -> dict[str, Any]:
    gateway = Gateway(folder)
    await gateway.open()
    try:
        return await gateway.status()
    finally:
        await gateway.close()


@pytest.mark.parametrize("with_gateway", [False, True], ids=["devbox", "devbox and gateway"])
def test_usage_is_known_if_the_devbox_ended_without_a_server(
    tmp_path: Path, kits: Path, with_gateway: bool
) -> None:
    with AgentYard(tmp_path, kits, [SLOW]) as yard:
        job = yard.job(CODEX.config(), names=("fix-a-bug",), max_retries=0)
        wait_until(lambda: is_at_work(yard), "the agent to be at work")
        yard.server.kill()
        for folder in (yard.server.data / "host" / "devboxes").iterdir():
            held = FirstProcess.load(folder)
            assert held is not None
            os.kill(held.pid, signal.SIGKILL)
        for pid in gateways(yard.server.data) if with_gateway else ():
            os.kill(pid, signal.SIGKILL)
        yard.server.start()
        row = job.row()
        assert row["failure_reason"]["kind"] == "infrastructure", row
        (trial,) = job.trials()
        assert trial["usage"]["model_calls"] == len(yard.model.ledger.calls(titles=True))
        assert trial["usage"]["input_tokens"] > 0
        check_nothing_is_left(yard)
    assert leaks.find(yard.server.data) == []


def test_a_job_that_is_resumed_has_what_was_left_of_its_budget(tmp_path: Path, kits: Path) -> None:
    with AgentYard(tmp_path, kits, [SLOW]) as yard:
        job = yard.job(CODEX.config(), names=("fix-a-bug",), job_budget={"requests": 2})
        wait_until(lambda: is_at_work(yard), "the agent to be at work")
        assert job.post("cancel").status_code == 200
        (trial,) = job.trials()
        assert (trial["state"], trial["usage"]["model_calls"]) == ("canceled", 2)
        check_nothing_is_left(yard)
        # With it ends the gateway, and all that it remembers.
        yard.server.restart()
        assert job.post("resume").status_code == 200
        row = job.row()
        assert (row["state"], row["attempts"][-1]["ended_by"]) == ("COMPLETED", "budget")
        assert len(yard.model.ledger.calls(titles=True)) == 2
        check_nothing_is_left(yard)
    assert leaks.find(yard.server.data) == []
