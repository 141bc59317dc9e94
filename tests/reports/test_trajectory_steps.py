"""Steps of stored trajectories are plain values, whatever is missing in them."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchyard.errors import UsageError
from benchyard.gateway.trajectory.stored_steps import StoredObservation, StoredToolCall
from benchyard.reports.trajectory_steps import iterate_steps

# fmt: off
WORDS = [
    "source", "message", "tool_calls", "observation", "results", "content", "metrics", "prompt_tokens",
    "extra", "cost_usd", "function_name", "arguments", "tool_call_id", "timestamp", "text", "type",
    "is_error",
]
# fmt: on
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=15,
)


def steps(*values: Any) -> list[Any]:
    return list(iterate_steps(json.dumps({"schema_version": "ATIF-v1.4", "steps": values}).encode()))


def test_a_step_has_its_parts() -> None:
    (step,) = steps(
        {
            "step_id": 1,
            "source": "agent",
            "model_name": "m",
            "timestamp": "2026-01-01T00:00:00Z",
            "message": [{"type": "text", "text": "I look."}, {"type": "image", "source": {}}],
            "reasoning_content": "hm",
            "tool_calls": [{"tool_call_id": "c", "function_name": "bash", "arguments": {"command": "ls"}}],
            "observation": {
                "results": [{"source_call_id": "c", "content": "no", "extra": {"is_error": True}}]
            },
            "metrics": {"prompt_tokens": 5, "completion_tokens": 7, "cost_usd": 0.5},
            "extra": {"stop_reason": "tool_use"},
        }
    )
    assert (step.number, step.source, step.text, step.reasoning) == (1, "agent", "I look.\n[image]", "hm")
    assert step.calls == (StoredToolCall("bash", {"command": "ls"}, "c"),)
    assert step.observations == (StoredObservation("no", "c", is_error=True),)
    assert (step.model, step.prompt_tokens, step.completion_tokens, step.cost_usd) == ("m", 5, 7, 0.5)
    assert (step.timestamp, step.stop_reason, step.has_error) == ("2026-01-01T00:00:00Z", "tool_use", True)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(VALUES, max_size=4))
def test_any_value_is_a_step(values: list[Any]) -> None:
    found = steps(*values)
    assert [step.number for step in found] == list(range(1, len(values) + 1))


def test_a_file_without_steps_is_none_and_an_unreadable_one_is_refused() -> None:
    assert steps() == []
    with pytest.raises(UsageError, match="still being written"):
        list(iterate_steps(b'{"steps": ['))
