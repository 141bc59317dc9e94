"""Streams of Anthropic's Messages, put together."""

from typing import Any

from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.dialects.anthropic import AnthropicDialect

DIALECT = AnthropicDialect()
START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": [],
        "stop_reason": None,
        "usage": {
            "input_tokens": 10,
            "cache_creation_input_tokens": 20,
            "cache_read_input_tokens": 300,
            "output_tokens": 1,
        },
    },
}
STOP = {
    "type": "message_delta",
    "delta": {"stop_reason": "tool_use", "stop_sequence": None},
    "usage": {"input_tokens": 12, "cache_read_input_tokens": None, "output_tokens": 45},
}


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


THINKING = block(
    0,
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "Let me "},
    {"type": "thinking_delta", "thinking": "look."},
    {"type": "signature_delta", "signature": "EqQB"},
)
TEXT = block(
    1,
    {"type": "text", "text": ""},
    {"type": "text_delta", "text": "I'll "},
    {"type": "citations_delta", "citation": {"cited_text": "x"}},
    {"type": "text_delta", "text": "list."},
)
TOOL = block(
    2,
    {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}},
    {"type": "input_json_delta", "partial_json": ""},
    {"type": "input_json_delta", "partial_json": '{"command": "l'},
    {"type": "input_json_delta", "partial_json": 's"}'},
)


def test_a_stream_becomes_the_message_that_would_have_been_answered_at_once() -> None:
    answer = DIALECT.whole([START, *THINKING, {"type": "ping"}, *TEXT, *TOOL, STOP, {"type": "message_stop"}])
    assert answer == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": [
            {"type": "thinking", "thinking": "Let me look.", "signature": "EqQB"},
            {"type": "text", "text": "I'll list.", "citations": [{"cited_text": "x"}]},
            {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 12,
            "cache_creation_input_tokens": 20,
            "cache_read_input_tokens": 300,
            "output_tokens": 45,
        },
    }
    assert DIALECT.usage(answer) == TokenUsage(332, 45, 300, 20, 0)


def test_a_stream_that_breaks_off_is_what_came_until_then() -> None:
    answer = DIALECT.whole([START, *TOOL[:2]])
    assert answer["content"] == [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}]
    answer = DIALECT.whole([START, *TOOL[:3]])
    assert answer["content"][0]["input"] == '{"command": "l'
    assert answer["stop_reason"] is None
    assert DIALECT.usage(answer) == TokenUsage(330, 1, 300, 20, 0)


def test_nothing_comes_to_nothing_and_an_error_to_itself() -> None:
    error = {"type": "overloaded_error", "message": "Overloaded"}
    assert DIALECT.whole([]) is None
    assert DIALECT.whole([{"type": "error", "error": error}]) == {"type": "error", "error": error}
    assert DIALECT.whole([START, *TEXT, {"type": "error", "error": error}])["error"] == error


def test_the_events_themselves_are_left_as_they_were() -> None:
    events = [START, *THINKING, *TOOL, STOP]
    before = repr(events)
    DIALECT.whole(events)
    assert repr(events) == before


def test_the_request_says_which_model_and_whether_it_streams() -> None:
    assert DIALECT.model("/v1/messages", {"model": "claude-opus-5-5"}) == "claude-opus-5-5"
    assert DIALECT.streams("/v1/messages", {"stream": True})
    assert not DIALECT.streams("/v1/messages", {"stream": "yes"})
