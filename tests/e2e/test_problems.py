"""A real agent that loops, with a scripted model behind the gateway, is told by its problems."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchyard.client import Client, Server
from benchyard.scripted_model import Script, ScriptStep
from tests.e2e.agents import MINI, AgentYard

LOOP = Script(
    name="loop",
    steps=(
        ScriptStep(text="I look around.", shell="ls"),
        *(ScriptStep(text="Again.", shell="rg days"),) * 3,
        ScriptStep(text="I have fixed the bug."),
    ),
)


@pytest.fixture
def looping(tmp_path: Path, agent_kits: Path) -> Iterator[AgentYard]:
    with AgentYard(tmp_path, agent_kits, [LOOP]) as made:
        yield made


def test_a_looping_agent_is_found_at_its_steps(looping: AgentYard) -> None:
    job = looping.job(MINI.config(), names=("fix-a-bug",))
    job.completed()
    with Client(Server(looping.server.url, looping.server.key)) as client:
        found = {problem.signal: problem for problem in client.jobs.problems(job.id).problems}
        steps = found["repeated-call"].examples[0].steps
        assert len(steps) == 3
        assert steps == list(range(steps[0], steps[0] + 3))
        assert found["absent-program"].examples[0].detail == "rg"
        assert found["false-success"].examples[0].detail == "I have fixed the bug."
