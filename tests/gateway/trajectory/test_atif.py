"""What is a trajectory in ATIF, and what is none."""

from typing import Any

import pytest
from pydantic import ValidationError

from benchyard.gateway.trajectory.atif import ATIF, Trajectory

CALL = {"tool_call_id": "a", "function_name": "bash", "arguments": {"command": "ls"}}
STEP: dict[str, Any] = {"step_id": 1, "source": "user", "message": "Hi"}
ACTED: dict[str, Any] = {
    "step_id": 2,
    "timestamp": "2026-01-02T03:04:05Z",
    "source": "agent",
    "model_name": "m",
    "reasoning_effort": 0.5,
    "message": [
        {"type": "text", "text": "See"},
        {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}},
        {"type": "audio", "source": {"media_type": "audio/wav", "path": "a.wav", "duration_sec": 2}},
    ],
    "reasoning_content": "Hm",
    "tool_calls": [CALL],
    "observation": {
        "results": [
            {
                "source_call_id": "a",
                "content": "a.txt",
                "subagent_trajectory_ref": [{"trajectory_id": "t.1"}],
            },
            {"content": None},
        ]
    },
    "metrics": {"prompt_tokens": 5, "cost_usd": 0, "logprobs": [-0.5], "completion_token_ids": [1]},
    "llm_call_count": 1,
}
AGENT = {"name": "a", "version": "1", "tool_definitions": [{"type": "function"}]}
WHOLE: dict[str, Any] = {
    "schema_version": ATIF,
    "session_id": "s",
    "trajectory_id": "t",
    "agent": AGENT,
    "steps": [STEP, ACTED],
    "final_metrics": {"total_prompt_tokens": 5, "total_cost_usd": 0.5, "total_steps": 2},
    "subagent_trajectories": [{"trajectory_id": "t.1", "agent": AGENT, "steps": [STEP]}],
    "extra": {"anything": [1, None]},
}


def test_a_whole_trajectory_is_read() -> None:
    read = Trajectory.model_validate(WHOLE)
    assert read.steps[1].tool_calls is not None
    assert read.steps[1].tool_calls[0].arguments == {"command": "ls"}


def acted(**changed: Any) -> dict[str, Any]:
    return {**WHOLE, "steps": [STEP, {**ACTED, **changed}]}


@pytest.mark.parametrize(
    "wrong",
    [
        {**WHOLE, "schema_version": "ATIF-v9.9"},
        {**WHOLE, "steps": []},
        {**WHOLE, "more": 1},
        {**WHOLE, "agent": {"name": "a"}},
        {**WHOLE, "agent": {**AGENT, "more": 1}},
        {**WHOLE, "steps": [ACTED]},
        {**WHOLE, "steps": [{**STEP, "tool_calls": [CALL]}]},
        {**WHOLE, "steps": [{**STEP, "metrics": {}}]},
        {**WHOLE, "steps": [{**STEP, "source": "tool"}]},
        {**WHOLE, "steps": [{**STEP, "step_id": True}]},
        {**WHOLE, "steps": [{**STEP, "timestamp": "yesterday"}]},
        {**WHOLE, "steps": [{**STEP, "message": None}]},
        {**WHOLE, "final_metrics": {"total_steps": -1}},
        {**WHOLE, "final_metrics": {"total_cost_usd": float("nan")}},
        {**WHOLE, "subagent_trajectories": [{"agent": AGENT, "steps": [STEP]}]},
        {**WHOLE, "subagent_trajectories": [WHOLE, WHOLE]},
        acted(llm_call_count=0),
        acted(llm_call_count=-1),
        acted(tool_calls=[{**CALL, "arguments": "ls"}]),
        acted(tool_calls=[{**CALL, "tool_call_id": "b"}]),
        acted(metrics={"prompt_tokens": "5"}),
        acted(metrics={"more": 5}),
        acted(observation={"results": [{"subagent_trajectory_ref": [{"session_id": "s"}]}]}),
        acted(message=[{"type": "text"}]),
        acted(message=[{"type": "image", "text": "x"}]),
        acted(message=[{"type": "image", "source": {"media_type": "audio/wav", "path": "a"}}]),
        acted(message=[{"type": "image", "source": {"media_type": "image/bmp", "path": "a"}}]),
        "a trajectory",
        None,
    ],
)
def test_invalid_atif_is_refused(wrong: Any) -> None:
    with pytest.raises(ValidationError):
        Trajectory.model_validate(wrong)


def test_a_step_without_a_call_of_a_model_has_neither_costs_nor_thoughts() -> None:
    plain = {key: value for key, value in ACTED.items() if key not in ("metrics", "reasoning_content")}
    Trajectory.model_validate({**WHOLE, "steps": [STEP, {**plain, "llm_call_count": 0}]})


def test_sub_agents_inside_each_other_without_end_are_refused() -> None:
    deep: dict[str, Any] = {"trajectory_id": "t", "agent": AGENT, "steps": [STEP]}
    for _ in range(400):
        deep = {**deep, "subagent_trajectories": [deep]}
    with pytest.raises(ValidationError):
        Trajectory.model_validate(deep)
