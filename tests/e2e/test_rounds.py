"""A second try with real agents: those that can go on with their conversation, and one that cannot."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchyard.hosts import leaks
from benchyard.scripted_model import Script
from tests.api.scenarios import bash, function, scenario
from tests.e2e.agents import CLAUDE, CODEX, FULL, GEMINI, GOOSE, MINI, OPENCODE, AgentJob, AgentYard, Named

STATEMENT = "Write the only right number into the file answer, and nothing else."
RETRY = "The grader is not content: {output}"
GRADE = 'echo "the answer is $(cat answer)"; test "$(cat answer)" = 2 && echo 1 || echo 0'
SCRIPTS = [
    # What is told in a conversation that goes on is not how it began.
    {
        "name": "told again",
        "regex": "only right number(.|\n)*the answer is 1",
        "steps": [{"shell": "echo 2 > answer"}],
        "final": "Now it is right.",
    },
    {
        "name": "goes on",
        "match": STATEMENT,
        # Once more at the end: Gemini CLI tells twice what it has told when it goes on.
        "steps": [{"shell": "echo 1 > answer"}, {"text": "It is 1."}, *[{"shell": "echo 2 > answer"}] * 2],
        "final": "It was 2.",
    },
]
CONTINUING = (CLAUDE, CODEX, OPENCODE, GOOSE, GEMINI) if FULL else (CLAUDE, CODEX)


@pytest.fixture(scope="module")
def trying(tmp_path_factory: pytest.TempPathFactory, agent_kits: Path) -> Iterator[AgentYard]:
    scripts = [Script.model_validate(script) for script in SCRIPTS]
    with AgentYard(tmp_path_factory.mktemp("rounds"), agent_kits, scripts) as made:
        yield made
    assert leaks.find(made.server.data) == []


def attempt(yard: AgentYard, named: Named) -> dict[str, Any]:
    work = {"working_directory": "/home/user/work"}
    made = scenario(
        yard.api,
        function(bash(GRADE)),
        input_context={"problem_statement": STATEMENT},
        environment_parameters=work,
        tries=2,
        retry_prompt=RETRY,
    )
    yard.model.reset()
    spec = {"type": "scenarios", "scenario_ids": [made["id"]], "agent_configs": [named.config()]}
    (found,) = AgentJob(yard.api, spec).row()["attempts"]
    return dict(found)


@pytest.mark.parametrize("named", CONTINUING, ids=str)
def test_an_agent_goes_on_with_its_conversation(trying: AgentYard, named: Named) -> None:
    found = attempt(trying, named)
    assert [each["score"] for each in found["rounds"]] == [0.0, 1.0], found
    assert found["rewards"] == {"pass_1": 0.0, "pass_2": 1.0}
    spent = trying.model.ledger.total()
    assert (found["usage"]["input_tokens"], found["usage"]["output_tokens"]) == (
        spent.input_tokens,
        spent.output_tokens,
    )
    trajectory = json.loads(trying.trace(found["scenario_run_id"], "trajectory-2.json"))
    said = json.dumps(trajectory["steps"])
    assert "It is 1." in said
    assert "It was 2." in said
    assert "not content: the answer is 1" in said


def test_agent_that_cannot_continue_gets_the_whole_prompt_again(trying: AgentYard) -> None:
    found = attempt(trying, MINI)
    assert [each["score"] for each in found["rounds"]] == [0.0, 1.0], found
