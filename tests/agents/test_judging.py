"""How public agents ended: told from their streams, since some exit statuses lie."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchyard.agents import catalog
from benchyard.agents.base import AgentEnd
from tests.agents.test_streams import JSON

PUBLIC = [name for name in catalog.names() if catalog.keys_of(name)]
WORDS = {
    "type": "text",
    "text": "Ran into this error: Request failed: Bad request (400): no money.\n\nRetry.",
}
BRACKETS = '[API Error: {"error": {"message": "no money", "code": 400}}]'
LIMIT = {"type": "text", "text": "I've reached the maximum number of actions I can do without user input."}
KEYS = (
    *("type", "subtype", "is_error", "result", "error", "message", "data", "content", "role", "metadata"),
    *("status", "part", "callID", "state", "output", "id", "tool_use_id", "toolResult", "value", "text"),
)


def judged(name: str, *events: Any, **ended: Any) -> str | None:
    text = "".join(json.dumps(event) + "\n" for event in events)
    fields = {"exit_status": 0, "calls": 2, "stdout_tail": text, **ended}
    return catalog.make(name, {}).judge(AgentEnd(**fields))


def message(*content: Any, **metadata: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "message": {"role": "assistant", "content": list(content), "metadata": metadata},
    }


@pytest.mark.parametrize("name", PUBLIC)
def test_agent_without_a_model_call_has_failed(name: str) -> None:
    assert "without ever asking" in (judged(name, calls=0) or "")
    assert judged(name) is None
    assert "exit status 7" in (judged(name, exit_status=7) or "")
    assert "no money" in (judged(name, exit_status=7, last_error="no money") or "")
    assert judged(name, exit_status=137, signal=9, timed_out=True, calls=0) is None


@pytest.mark.parametrize(
    ("name", "event", "status"),
    [
        ("claude-code", {"type": "result", "subtype": "success", "is_error": True, "result": "no money"}, 1),
        ("claude-code", {"type": "result", "is_error": True, "result": "no money"}, 0),
        ("codex", {"type": "turn.failed", "error": {"message": '{"error": {"message": "no money"}}'}}, 1),
        ("opencode", {"type": "error", "error": {"name": "APIError", "data": {"message": "no money"}}}, 1),
        ("goose", message(WORDS), 0),
        ("goose", message({"notificationType": "creditsExhausted", "msg": "no money"}), 0),
        ("goose", {"type": "error", "error": "no money"}, 1),
        ("gemini-cli", {"type": "result", "status": "error", "error": {"message": BRACKETS}}, 144),
    ],
)
def test_error_in_the_output_is_the_reason(name: str, event: Any, status: int) -> None:
    reason = judged(name, {"type": "other"}, event, exit_status=status)
    assert reason is not None
    assert reason.startswith("the agent gave up: ")
    assert "no money" in reason
    assert "{" not in reason
    for broken in ({**event, "error": 5, "result": [], "message": {}}, {"type": event["type"]}):
        judged(name, broken, exit_status=status)


@pytest.mark.parametrize(
    ("name", "event", "status"),
    [
        ("claude-code", {"type": "result", "subtype": "error_max_turns", "is_error": True}, 1),
        ("goose", message(LIMIT), 0),
        ("gemini-cli", {"type": "result", "status": "error", "error": {"message": "max turns"}}, 53),
    ],
)
def test_agent_that_used_up_its_turns_is_scored(name: str, event: Any, status: int) -> None:
    assert judged(name, event, exit_status=status) is None
    assert judged(name, event, exit_status=status, calls=0) is not None, "it had no turn at all"


@pytest.mark.parametrize(
    ("name", "events"),
    [
        ("claude-code", [{"type": "result", "is_error": False, "subtype": "success"}]),
        ("codex", [{"type": "error", "message": "reconnecting"}, {"type": "turn.completed"}]),
        ("opencode", [{"type": "error", "error": {}}, {"type": "step_finish"}]),
        ("goose", [message(WORDS, inference={"provider": "openai"}), {"type": "complete"}]),
        ("gemini-cli", [{"type": "result", "status": "success"}]),
    ],
)
def test_recovered_errors_and_model_text_are_not_failures(name: str, events: list[Any]) -> None:
    assert judged(name, *events) is None


@pytest.mark.parametrize("name", ["goose", "mini-swe-agent"])
def test_the_last_call_decides_where_nothing_else_does(name: str) -> None:
    assert "no money" in (judged(name, last_error="no money") or "")
    assert judged("codex", {"type": "turn.completed"}, last_error="no money") is None


def test_results_that_no_request_carries_are_found_in_the_stream() -> None:
    claude = {"message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a"}]}}
    opencode = {"type": "tool_use", "part": {"callID": "c1", "state": {"output": "b"}}}
    response = {"type": "toolResponse", "id": "g1", "toolResult": {"value": {"content": [{"text": "c"}]}}}
    codex = {"type": "function_call_output", "call_id": "call_1", "output": "d"}
    for name, event, found in (
        ("claude-code", {"type": "user", **claude}, {"t1": "a"}),
        ("opencode", opencode, {"c1": "b"}),
        ("goose", message(response), {"g1": "c"}),
        ("codex", claude, {}),
        ("codex", {"type": "response_item", "payload": codex}, {"call_1": "d"}),
        ("mini-swe-agent", {"type": "exit", "tool_call_id": "m1", "content": "e"}, {"m1": "e"}),
    ):
        assert catalog.make(name, {}).trailing(json.dumps(event)) == found


def test_results_of_gemini_cli_are_found_by_id_and_by_name() -> None:
    def trailing(*events: dict[str, str]) -> dict[str, str]:
        return dict(catalog.make("gemini-cli", {}).trailing("\n".join(map(json.dumps, events))))

    first = {"type": "tool_use", "tool_name": "run", "tool_id": "run__call_1"}
    result = {"type": "tool_result", "tool_id": "run__call_1", "output": "f"}
    second = {"type": "tool_use", "tool_name": "run", "tool_id": "run__call_2"}
    assert trailing(first, result) == {"call_1": "f", "run": "f"}
    # The second has not ended: what the first one said is not its result.
    assert trailing(first, result, second) == {"call_1": "f"}


@pytest.mark.parametrize("name", PUBLIC)
@given(
    events=st.lists(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6) | JSON, max_size=3),
    text=st.text(max_size=40),
    status=st.integers(0, 255),
    calls=st.integers(0, 3),
)
def test_no_output_upsets_a_judge(name: str, events: list[Any], text: str, status: int, calls: int) -> None:
    agent = catalog.make(name, {})
    tail = "\n".join([text, *map(json.dumps, events)])
    reason = agent.judge(AgentEnd(status, stdout_tail=tail, stderr_tail=text, calls=calls))
    assert reason is None or 0 < len(reason) < 2000
    if calls == 0:
        assert reason is not None
    assert all(isinstance(value, str) for value in agent.trailing(tail).values())
