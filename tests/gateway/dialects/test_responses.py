"""Streams of OpenAI's Responses, put together."""

from typing import Any

from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.dialects.responses import ResponsesDialect

DIALECT = ResponsesDialect()
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "exec_command",
    "arguments": '{"cmd":"ls"}',
    "status": "completed",
}
USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 64},
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 20},
    "total_tokens": 130,
}
CREATED = {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}}


def ended(kind: str, **response: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "response": {"id": "resp_1", "object": "response", **response}}


def test_the_answer_is_the_one_that_the_last_event_carries() -> None:
    for kind in ("completed", "incomplete", "failed"):
        last = ended(kind, status=kind, output=[CALL], usage=USAGE)
        assert DIALECT.whole([CREATED, last]) == {**CREATED["response"], **last["response"]}  # type: ignore[dict-item]
    assert DIALECT.usage(last["response"]) == TokenUsage(100, 30, 64, 0, 20)


def test_items_that_were_done_stand_in_for_an_output_that_is_left_out() -> None:
    done = {"type": "response.output_item.done", "output_index": 0, "item": CALL}
    assert DIALECT.whole([done, ended("completed", output=[], usage=USAGE)])["output"] == [CALL]
    assert DIALECT.whole([done, ended("completed", usage=USAGE)])["output"] == [CALL]
    without_place = {"type": "response.output_item.done", "item": CALL}
    assert DIALECT.whole([without_place, without_place])["output"] == [CALL, CALL]


def test_a_stream_that_breaks_off_is_what_came_until_then() -> None:
    added: dict[str, Any] = {"type": "response.output_item.added"}
    events = [
        CREATED,
        {**added, "output_index": 0, "item": {"type": "reasoning", "id": "rs_1", "summary": []}},
        {
            "type": "response.reasoning_summary_text.delta",
            "output_index": 0,
            "summary_index": 0,
            "delta": "Hm",
        },
        {
            "type": "response.reasoning_summary_text.delta",
            "output_index": 0,
            "summary_index": 1,
            "delta": "Ah",
        },
        {**added, "output_index": 1, "item": {"type": "message", "role": "assistant", "content": []}},
        {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "I "},
        {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "look"},
        {**added, "output_index": 2, "item": {**CALL, "arguments": "", "status": "in_progress"}},
        {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"cmd"'},
        {**added, "output_index": 3, "item": {"type": "custom_tool_call", "call_id": "c", "name": "exec"}},
        {"type": "response.custom_tool_call_input.delta", "output_index": 3, "delta": "text(1)"},
    ]
    answer = DIALECT.whole(events)
    reasoning, message, call, custom = answer["output"]
    assert [part["text"] for part in reasoning["summary"]] == ["Hm", "Ah"]
    assert message["content"] == [{"type": "output_text", "text": "I look"}]
    assert (call["arguments"], call["status"], custom["input"]) == ('{"cmd"', "incomplete", "text(1)")
    assert answer["status"] == "in_progress"
    assert DIALECT.usage(answer) is None


def test_nothing_comes_to_nothing_and_an_error_to_itself() -> None:
    assert DIALECT.whole([]) is None
    assert DIALECT.whole([{"type": "error", "code": "rate_limit", "message": "slow"}]) == {
        "error": {"code": "rate_limit", "message": "slow", "param": None}
    }
