"""How agents are started: what is filled in, what is told, and what cannot be done."""

import pytest

from benchyard.agents import catalog, placeholders
from benchyard.agents.base import MOST_PROMPT_BYTES, contract_env
from benchyard.errors import ScenarioError
from benchyard.testing.contracts.agent import scenario, task

DIFF = "--- a/answer.txt\n+++ b/answer.txt\n@@ -1 +1 @@\n-not yet\n+done\n"


def test_only_known_placeholders_are_filled_in() -> None:
    values = {"prompt_file": "/p", "model": "a b'c"}
    assert placeholders.fill("x {prompt_file} {model}", values) == "x /p 'a b'\"'\"'c'"
    for literal in ("{unknown}", "${prompt_file}", "{ prompt_file }", "{}", "{a,b}", "awk '{print $1}'"):
        assert placeholders.fill(literal, values) == literal
    assert placeholders.fill("{model}", {"model": "{prompt_file}", "prompt_file": "/p"}) == "'{prompt_file}'"


def test_the_environment_states_the_contract() -> None:
    assert contract_env(task(model=None, prompt="p")) == {
        "BENCHYARD_PROMPT_FILE": "/run/benchyard/prompt.md",
        "BENCHYARD_LOGS": "/logs/agent",
        "BENCHYARD_TRAJECTORY": "/logs/agent/trajectory.json",
        "BENCHYARD_ROUND": "1",
        "BENCHYARD_PROMPT": "p",
    }
    assert contract_env(task(round=2))["BENCHYARD_ROUND"] == "2"
    assert contract_env(task(model="m"))["BENCHYARD_MODEL"] == "m"


def test_a_prompt_that_cannot_be_a_variable_is_left_out() -> None:
    longest = "é" * (MOST_PROMPT_BYTES // 2 - 1)
    assert contract_env(task(prompt=longest))["BENCHYARD_PROMPT"] == longest
    for prompt in (longest + "é", "a\0b", "\ud800"):
        assert "BENCHYARD_PROMPT" not in contract_env(task(prompt=prompt))


def test_the_oracle_applies_every_kind_of_reference() -> None:
    oracle = catalog.make("oracle", {})
    patch = oracle.launch(task(scenario=scenario(reference_output=DIFF)))
    assert patch is not None
    assert "patch -p1" in patch.command
    assert DIFF.encode() in patch.files.values()
    answer = scenario(
        reference_output="42\n",
        validation_type="EVALUATION",
        scoring_isolation="answer",
        answer_paths=["out/it's.txt"],
    )
    written = oracle.launch(task(scenario=answer))
    assert written is not None
    assert "cat -- /run/benchyard/reference >" in written.command
    assert b"42\n" in written.files.values()


def test_the_oracle_says_what_it_cannot_apply() -> None:
    oracle = catalog.make("oracle", {})
    with pytest.raises(ScenarioError, match="no reference output"):
        oracle.launch(task(scenario=scenario(reference_output=None)))
    with pytest.raises(ScenarioError, match="answer path"):
        oracle.launch(task(scenario=scenario(validation_type="EVALUATION")))
