"""What cannot be is refused before anything is started; what the gateway refuses ends an agent in time."""

import json
from typing import Any

import pytest

from benchyard.scripted_model import RunningModel, Script, ScriptStep
from tests.api.devbox import refusal
from tests.e2e.agents import CLAUDE, CODEX, GOOSE, KEY, AgentYard, Named

SOLVED = ("fix-a-bug",)


def refused(yard: AgentYard, config: dict[str, Any]) -> str:
    spec = {"type": "benchmark", "benchmark_id": "quickstart", "agent_configs": [config]}
    return str(refusal(yard.api.post("/v1/benchmark_jobs", json={"spec": spec}), 400))


def test_a_missing_key_is_named_with_the_command_that_sets_it(yard: AgentYard) -> None:
    told = refused(yard, {"name": "claude-code", "model_name": "claude-sonnet-4-5"})
    assert "ANTHROPIC_API_KEY" in told
    assert "benchyard secret set ANTHROPIC_API_KEY" in told


def test_a_key_as_a_plain_variable_is_refused(yard: AgentYard) -> None:
    config = CLAUDE.config(agent_environment={"environment_variables": {"ANTHROPIC_API_KEY": "sk-open"}})
    told = refused(yard, config)
    assert "secret" in told
    assert "sk-open" not in told


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model_name": None}, "needs a model"),
        ({"name": "opencode", "model_name": "some-model"}, "opencode:openai/some-model"),
        ({"model_name": "openai/gpt-4o"}, "cannot ask openai"),
        ({"version": "latest and greatest"}, "version"),
        ({"base_url": "ftp://here"}, "http://HOST:PORT"),
        ({"kwargs": {"max_turns": "many"}}, "max_turns"),
    ],
)
def test_invalid_agent_config_is_refused_with_the_choices(
    yard: AgentYard, changes: dict[str, Any], told: str
) -> None:
    config = {key: value for key, value in {**CLAUDE.config(), **changes}.items() if value is not None}
    assert told in refused(yard, config)


def test_a_version_that_does_not_exist_fails_the_job_and_names_it(yard: AgentYard) -> None:
    view = yard.job(GOOSE.config(version="0.0.987"), names=SOLVED).reaches("failed")
    assert "0.0.987" in view["failure_reason"]


@pytest.mark.parametrize("named", [CLAUDE, CODEX, GOOSE], ids=str)
@pytest.mark.parametrize(
    "budget", [{"requests": 1}, {"tokens": 1}, {"usd": 0.0001}, {"requests": 0}], ids=str
)
def test_a_budget_that_is_used_up_ends_the_agent_and_what_it_left_is_scored(
    yard: AgentYard, named: Named, budget: dict[str, float]
) -> None:
    yard.model.reset()
    job = yard.job(named.config(), names=SOLVED, trial_budget=budget)
    row = job.row()
    assert (row["state"], row["score"]) == ("COMPLETED", 0.0)
    assert row["attempts"][0]["ended_by"] == "budget"
    called = len(yard.model.ledger.calls(titles=True))
    (trial,) = job.trials()
    assert trial["usage"]["model_calls"] == called
    if "requests" in budget:
        # An agent may ask which models there are first.
        assert trial["usage"]["requests"] == budget["requests"] >= called
    else:
        assert called == 1


def test_a_wrong_key_is_the_agents_failure_and_says_so(yard: AgentYard) -> None:
    with RunningModel((), key="another") as model:
        row = yard.job(CODEX.config(base_url=model.url), names=SOLVED).row()
    assert (row["state"], row["failure_reason"]["kind"]) == ("FAILED", "agent")
    assert "401" in row["failure_reason"]["exception_message"]


def test_a_model_that_its_provider_does_not_know_is_the_agents_failure_and_costs_nothing(
    yard: AgentYard,
) -> None:
    script = Script(steps=(ScriptStep(status=404, times=100),))
    with RunningModel([script], key=KEY) as model:
        job = yard.job(CODEX.config(base_url=model.url, model_name="gpt-of-nobody"), names=SOLVED)
        row = job.row()
    assert (row["state"], row["failure_reason"]["kind"]) == ("FAILED", "agent")
    assert "404" in row["failure_reason"]["exception_message"]
    usage = job.trials()[0]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["cost_usd"]) == (0, 0, 0.0)
    assert usage["model_calls"] == len(model.ledger.calls(titles=True)) > 0


def test_a_provider_that_says_to_come_back_later_is_waited_for(yard: AgentYard) -> None:
    steps = [{"status": 429, "retry_after": 1, "times": 2}, {"shell": "true"}, {"text": "Done."}]
    script = Script(steps=tuple(ScriptStep.model_validate(step) for step in steps))
    with RunningModel([script], key=KEY) as model:
        job = yard.job(CODEX.config(base_url=model.url), names=SOLVED)
        row = job.row()
    assert row["state"] == "COMPLETED"
    assert job.trials()[0]["usage"]["rate_limited_ms"] >= 2000


def test_an_agent_with_a_spent_budget_shows_its_last_result(yard: AgentYard) -> None:
    row = yard.job(CODEX.config(), names=SOLVED, trial_budget={"requests": 2}).row()
    assert row["attempts"][0]["ended_by"] == "budget"
    content = json.loads(yard.trace(row["scenario_run_id"], "trajectory.json"))
    used = [step for step in content["steps"] if step.get("tool_calls")]
    assert len(used) == 2
    assert all(step["observation"]["results"] for step in used), used
