"""Every public agent, as it comes from its registry, in a devbox that reaches nothing but the gateway."""

import json
from typing import Any

import pytest

from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.trajectory.atif import Trajectory
from benchyard.scripted_model import RunningModel, failing
from tests.api.devbox import eventually, good
from tests.e2e.agents import ALL, FULL, KEY, PATIENCE_SECONDS, AgentJob, AgentYard, Named

SOLVED = ("fix-a-bug",)
"""What every agent solves in `make test`; `make agents` has all of quickstart."""


def outcome(view: dict[str, Any]) -> dict[str, Any]:
    (found,) = view["benchmark_outcomes"]
    return dict(found)


@pytest.mark.parametrize("named", ALL, ids=str)
def test_an_agent_solves_scenarios_and_every_token_is_accounted_for(yard: AgentYard, named: Named) -> None:
    yard.model.reset()
    job = yard.job(named.config(), names=() if FULL else SOLVED)
    found = outcome(job.completed())
    assert found["mean_score"] == 1.0, found
    spent = yard.model.ledger.total()
    assert spent.total_tokens > 0
    usage = found["usage"]
    told = TokenUsage(int(usage["input_tokens"]), int(usage["output_tokens"]), int(usage["cached_tokens"]))
    assert told == TokenUsage(spent.input_tokens, spent.output_tokens, spent.cached_tokens)
    assert usage["model_calls"] == len(yard.model.ledger.calls(titles=True))
    assert usage["cost_usd"] > 0
    assert yard.model.ledger.keys() == {KEY}


@pytest.mark.parametrize("named", ALL, ids=str)
def test_trajectory_has_the_totals_of_the_run(yard: AgentYard, named: Named) -> None:
    yard.model.reset()
    job = yard.job(named.config(), names=SOLVED)
    live = live_steps(yard, job)
    row = job.row()
    content = json.loads(yard.trace(row["scenario_run_id"], "trajectory.json"))
    trajectory = Trajectory.model_validate(content)
    spent = yard.model.ledger.total()
    totals = content["final_metrics"]
    assert (totals["total_prompt_tokens"], totals["total_completion_tokens"]) == (
        spent.input_tokens,
        spent.output_tokens,
    )
    assert (content["agent"]["name"], content["agent"]["version"]) == (named.agent, row_version(row, yard))
    steps = [step for step in trajectory.steps if step.source == "agent"]
    used = [step for step in steps if step.tool_calls]
    assert len(used) >= 2, content["steps"]
    # Also the last one, which some agents tell nobody of.
    assert all(step.observation and step.observation.results for step in used), content["steps"]
    # Steps that came while it worked are those of the trajectory; calls for titles are among them.
    told = [(each["message"], each.get("tool_calls")) for each in live]
    said = [
        (each["message"], each.get("tool_calls")) for each in content["steps"] if each["source"] == "agent"
    ]
    assert [each for each in told if each in said] == said


def live_steps(yard: AgentYard, job: AgentJob) -> list[dict[str, Any]]:
    """The agent's steps of a job's only trial, as they come."""
    eventually(lambda: bool(job.trials()), "a trial")
    (trial,) = job.trials()
    stream = yard.api.get(f"/v1/trials/{trial['id']}/steps/live", timeout=PATIENCE_SECONDS).text
    events = [json.loads(line.removeprefix("data: ")) for line in stream.splitlines() if line[:6] == "data: "]
    assert events[-1]["kind"] == "end", events[-1]
    steps = [event["step"] for event in events if event["kind"] == "step"]
    return [step for step in steps if step["source"] == "agent"]


def row_version(row: dict[str, Any], yard: AgentYard) -> str:
    run = good(yard.api.get(f"/v1/scenarios/runs/{row['scenario_run_id']}"))
    job = good(yard.api.get(f"/v1/benchmark_jobs/{run['metadata']['benchyard.job']}"))
    (config,) = job["job_spec"]["agent_configs"]
    return str(config["version"])


@pytest.mark.parametrize("named", ALL, ids=str)
def test_an_agent_whose_model_is_wrong_gets_nothing(yard: AgentYard, named: Named) -> None:
    with RunningModel(failing(), key=KEY) as wrong:
        found = outcome(yard.job(named.config(base_url=wrong.url), names=SOLVED).completed())
    assert (found["mean_score"], found["unscored"]) == (0.0, 0), found
