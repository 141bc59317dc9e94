"""Streams of OpenAI's Chat Completions, put together."""

from typing import Any

from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.dialects.chat import ChatDialect

DIALECT = ChatDialect()


def chunk(delta: dict[str, Any], **choice: Any) -> dict[str, Any]:
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 5, "model": "gpt-5.5"}
    return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None, **choice}]}


def call(index: int | None, id: str | None, name: str | None, arguments: str) -> dict[str, Any]:
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    found: dict[str, Any] = {"type": "function", "function": function}
    found.update({} if index is None else {"index": index})
    return {"tool_calls": [found if id is None else {**found, "id": id}]}


USAGE = {
    "prompt_tokens": 50,
    "completion_tokens": 9,
    "prompt_tokens_details": {"cached_tokens": 40},
    "completion_tokens_details": {"reasoning_tokens": 4},
}


def test_a_stream_becomes_the_completion_that_would_have_been_answered_at_once() -> None:
    answer = DIALECT.whole(
        [
            {**chunk({"role": "assistant", "content": ""}), "prompt_token_ids": [1, 2]},
            chunk({"reasoning_content": "Hm, "}),
            chunk({"reasoning_content": "well."}),
            chunk(
                {"content": "Hel"}, logprobs={"content": [{"token": "Hel", "logprob": -0.5}]}, token_ids=[7]
            ),
            chunk({"content": "lo"}, logprobs={"content": [{"token": "lo", "logprob": -0.1}]}, token_ids=[8]),
            chunk(call(0, "a", "bash", "")),
            chunk(call(0, None, None, '{"command":')),
            chunk(call(1, "b", "bash", "{}")),
            chunk(call(0, None, None, '"ls"}')),
            chunk({}, finish_reason="tool_calls"),
            {"id": "c1", "choices": [], "usage": USAGE},
        ]
    )
    (choice,) = answer["choices"]
    assert answer["object"] == "chat.completion"
    assert answer["prompt_token_ids"] == [1, 2]
    assert choice == {
        "index": 0,
        "finish_reason": "tool_calls",
        "message": {
            "role": "assistant",
            "content": "Hello",
            "reasoning_content": "Hm, well.",
            "tool_calls": [
                {
                    "type": "function",
                    "id": "a",
                    "function": {"name": "bash", "arguments": '{"command":"ls"}'},
                },
                {"type": "function", "id": "b", "function": {"name": "bash", "arguments": "{}"}},
            ],
        },
        "logprobs": {"content": [{"token": "Hel", "logprob": -0.5}, {"token": "lo", "logprob": -0.1}]},
        "token_ids": [7, 8],
    }
    assert DIALECT.usage(answer) == TokenUsage(50, 9, 40, 0, 4)


def test_calls_at_no_index_or_all_at_the_same_are_distinguished_by_their_ids() -> None:
    for index in (None, 0):
        events = [
            chunk(call(index, "a", "bash", "{}")),
            chunk(call(index, "b", "edit", "[")),
            {"choices": []},
        ]
        calls = DIALECT.whole([*events, chunk(call(index, None, None, "]"))])["choices"][0]["message"][
            "tool_calls"
        ]
        assert [(each["id"], each["function"]["arguments"]) for each in calls] == [("a", "{}"), ("b", "[]")]


def test_several_choices_and_a_refusal_are_kept_apart() -> None:
    answer = DIALECT.whole(
        [chunk({"content": "a"}), chunk({"refusal": "no"}, index=1), chunk({"content": "b"})]
    )
    assert [each["message"]["content"] for each in answer["choices"]] == ["ab", None]
    assert answer["choices"][1]["message"]["refusal"] == "no"


def test_nothing_comes_to_nothing_and_an_error_to_itself() -> None:
    assert DIALECT.whole([]) is None
    assert DIALECT.whole([{"error": {"message": "bad"}}]) == {"error": {"message": "bad"}}


def test_the_last_usage_counts() -> None:
    events = [{**chunk({"content": "a"}), "usage": {"prompt_tokens": 50, "completion_tokens": 1}}]
    answer = DIALECT.whole([*events, {"choices": [], "usage": USAGE}, {"choices": [], "usage": None}])
    assert DIALECT.usage(answer) == TokenUsage(50, 9, 40, 0, 4)
