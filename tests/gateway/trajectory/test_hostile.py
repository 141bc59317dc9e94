"""Calls that anybody may have made: nothing raises, the totals are right, and what comes out is ATIF."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchyard.gateway.calls import Call, TokenUsage
from benchyard.gateway.dialects.entries import MOST_TEXT, MessageFile, clean_text, iso_time, message_content
from benchyard.gateway.trajectory.atif import Trajectory
from benchyard.gateway.trajectory.builder import TrajectoryOwner, trajectory_of
from tests.gateway.trajectory.scripts import PROMPT, Anthropic, Chat, Said, call, next_call

# fmt: off
WORDS = [
    "role", "content", "messages", "system", "type", "text", "input", "instructions", "tools", "parts",
    "contents",
    "systemInstruction", "functionCall", "functionResponse", "response", "name", "args", "arguments", "id",
    "call_id", "tool_use_id", "tool_call_id", "tool_calls", "function", "output", "choices", "message",
    "candidates", "summary", "thinking", "source", "url", "image_url", "previous_response_id", "logprobs",
    "logprob",
    "token_ids", "prompt_token_ids", "reasoning", "effort", "functionDeclarations", "inlineData", "error",
]
KINDS = [
    "user", "assistant", "model", "tool", "system", "developer", "message", "text", "tool_use", "tool_result",
    "function_call", "function_call_output", "custom_tool_call", "reasoning", "additional_tools", "namespace",
    "image", "image_url", "thinking", "input_image", "item_reference", "a", "b", "\ud800", "data:image/png,x",
]
# fmt: on
NUMBERS = st.integers() | st.floats() | st.sampled_from([10**400, 2**63])
PLAIN = st.none() | st.booleans() | NUMBERS | st.sampled_from(KINDS)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=20,
)
DIALECTS = ["anthropic", "responses", "chat", "gemini"]
USAGES = st.none() | st.builds(TokenUsage, *[st.integers(0, 10**9)] * 5)
CALLS = st.builds(
    Call,
    number=st.integers(1, 9),
    dialect=st.sampled_from([*DIALECTS, "other"]),
    provider=st.just("p"),
    path=st.sampled_from(["/v1/messages", "/x", ""]),
    model=st.none() | st.sampled_from(["m", "\ud800"]),
    status=st.sampled_from([200, 200, 200, 0, 404, 529]),
    started_ms=st.sampled_from([0, 1, 10**18, -(10**18)]),
    ended_ms=st.integers(0, 10**13),
    request=VALUES,
    response=VALUES,
    usage=USAGES,
    cost_usd=st.none() | st.floats(0, 100),
    error=st.none() | st.sampled_from(["broken", "\ud800"]),
)
KINDLY = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])


def check(calls: list[Call], made: dict[str, Any]) -> None:
    """What holds for every trajectory."""
    used = sum((each.usage for each in calls if each.usage), TokenUsage())
    totals = made["final_metrics"]
    assert totals["total_prompt_tokens"] == used.input_tokens
    assert totals["total_completion_tokens"] == used.output_tokens
    assert totals["total_cached_tokens"] == used.cached_tokens
    assert totals["total_steps"] == len(made["steps"])
    assert [step["step_id"] for step in made["steps"]] == list(range(1, len(made["steps"]) + 1))
    failed = [each for each in calls if not 200 <= each.status < 400]
    assert made["extra"]["failed_calls"] == len(failed)
    aside = len(made["extra"].get("side_calls", [])) + made["extra"]["retried_calls"]
    assert steps_with_calls(made) + aside + len(failed) == len(calls)
    Trajectory.model_validate(json.loads(json.dumps(made).encode()))


def steps_with_calls(made: dict[str, Any]) -> int:
    own: int = sum(step.get("llm_call_count", 0) for step in made["steps"])
    return own + sum(map(steps_with_calls, made.get("subagent_trajectories", [])))


@KINDLY
@given(calls=st.lists(CALLS, max_size=6), trailing=st.dictionaries(st.sampled_from(["a", "b"]), st.just("x")))
def test_nothing_that_is_called_raises(calls: list[Call], trailing: dict[str, str]) -> None:
    check(calls, trajectory_of(calls, TrajectoryOwner("a", session_id="s", prompt="user"), trailing))


ITEMS = st.lists(VALUES, max_size=6)


@KINDLY
@given(dialect=st.sampled_from(DIALECTS), histories=st.lists(ITEMS, min_size=1, max_size=5), response=VALUES)
def test_histories_may_change_in_any_way(dialect: str, histories: list[list[Any]], response: Any) -> None:
    keys = {"responses": "input", "gemini": "contents"}
    requests = [{keys.get(dialect, "messages"): items, "tools": [{"name": "a"}]} for items in histories]
    calls = [call(number, dialect, each, response) for number, each in enumerate(requests, start=1)]
    check(calls, trajectory_of(calls, TrajectoryOwner("a", prompt=PROMPT)))


EVENTS = st.sampled_from(["call", "result", "user", "fork", "compact", "fail", "title", "again"])


@KINDLY
@given(kind=st.sampled_from([Anthropic, Chat]), plot=st.lists(EVENTS, max_size=20))
def test_every_call_is_shown_exactly_once_whatever_agents_do(
    kind: type[Anthropic] | type[Chat], plot: list[str]
) -> None:
    script, calls = kind(), list[Call]()
    script.user(PROMPT)
    for number, event in enumerate(plot, start=1):
        if event == "result":
            script.results((f"id-{number - 1}", "run", "ok"))
        elif event == "user":
            script.user("Go on.")
        elif event == "compact":
            script.messages = script.messages[-1:]
        elif event == "title":
            other = kind("Title.", [])
            other.user(PROMPT)
            calls.append(next_call(other, number, Said("A title")))
        elif event == "fail":
            calls.append(call(number, script.dialect, script.request(), None, status=500))
        elif event == "again" and calls:
            calls.append(call(number, script.dialect, calls[-1].request, calls[-1].response))
        else:
            uses = [(f"id-{number}", "run", {"prompt": "Do a part of it, please."})]
            calls.append(next_call(script, number, Said(f"Say {number}", uses)))
    check(calls, trajectory_of(calls, TrajectoryOwner("a", prompt=PROMPT)))


def nested(depth: int) -> Any:
    value: Any = "deep"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("dialect", DIALECTS)
def test_deeply_nested_values_are_cut(dialect: str) -> None:
    deep = nested(900)
    use = {"type": "tool_use", "id": "a", "name": "x", "input": {"deep": deep}}
    request = {
        "messages": [{"role": "user", "content": deep}],
        "input": [{"role": "user", "content": deep}],
        "contents": [{"role": "user", "parts": [{"deep": deep}]}],
        "tools": [{"name": "a", "input_schema": {"deep": deep}}],
    }
    response = {
        "content": [use],
        "output": [{"type": "mcp_call", "deep": deep}],
        "choices": [{"message": deep}],
    }
    calls = [call(number, dialect, json.loads(json.dumps(request)), response) for number in (1, 2)]
    check(calls, trajectory_of(calls, TrajectoryOwner("a")))


def test_no_text_is_larger_than_allowed() -> None:
    for letter in ("x", "ä", "😀"):
        cut = clean_text(letter * (MOST_TEXT + 5))
        assert MOST_TEXT // 2 < len(cut.encode()) <= MOST_TEXT or letter == "ä"
        assert "cut" in cut[-60:]
    assert clean_text("fine") == "fine"
    assert len(json.dumps(message_content(("x" * MOST_TEXT, "y" * MOST_TEXT)))) <= MOST_TEXT


def test_half_a_character_is_replaced() -> None:
    assert clean_text("a\ud800b").encode() == b"a?b"


def test_pictures_are_described_by_their_size_or_their_address() -> None:
    script = Anthropic()
    script.user("Look:")
    source = {"type": "base64", "media_type": "image/png", "data": "A" * 400}
    script.messages[0]["content"].append({"type": "image", "source": source})
    made = trajectory_of([next_call(script, 1, Said("Nice."))], TrajectoryOwner("a"))
    assert made["steps"][1]["message"] == "Look:\n[image/png, 300 bytes]"
    linked = MessageFile("image", url="https://example.com/a.JPG?size=1")
    assert message_content(("See", linked)) == [
        {"type": "text", "text": "See"},
        {"type": "image", "source": {"media_type": "image/jpeg", "path": "https://example.com/a.JPG?size=1"}},
    ]
    assert (
        message_content((MessageFile("image", url="file:///etc/passwd"),)) == "[image at file:///etc/passwd]"
    )


def test_arguments_that_are_not_json_are_kept_as_they_are() -> None:
    script = Chat()
    script.user(PROMPT)
    made = next_call(script, 1, Said("", [("a", "bash", {})]))
    made.response["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = '{"command": '
    (use,) = trajectory_of([made], TrajectoryOwner("a"))["steps"][-1]["tool_calls"]
    assert use["arguments"] == {"_raw": '{"command": '}


def test_an_invalid_time_is_left_out() -> None:
    assert iso_time(10**18) is None
    assert iso_time(0) == "1970-01-01T00:00:00.000+00:00"
