"""Streams of Google's Gemini, put together."""

from typing import Any

from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.dialects.gemini import GeminiDialect

DIALECT = GeminiDialect()


def event(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0}], **more}


CALL = {"functionCall": {"name": "read_file", "args": {"path": "a"}}}


def test_texts_of_a_kind_are_joined_and_calls_kept() -> None:
    last = {"promptTokenCount": 100, "candidatesTokenCount": 7, "thoughtsTokenCount": 5}
    more = {**last, "cachedContentTokenCount": 60, "toolUsePromptTokenCount": 3, "totalTokenCount": 115}
    answer = DIALECT.whole(
        [
            event({"text": "Thin", "thought": True}, usageMetadata={"promptTokenCount": 100}),
            event({"text": "king", "thought": True}),
            event({"text": "I "}),
            event({"text": "read"}, {"text": "."}),
            event(CALL, CALL),
            event({"text": "", "thoughtSignature": "s"}, usageMetadata=more, modelVersion="gemini-3.8"),
        ]
    )
    (candidate,) = answer["candidates"]
    assert candidate["content"]["parts"] == [
        {"text": "Thinking", "thought": True},
        {"text": "I read."},
        CALL,
        CALL,
        {"text": "", "thoughtSignature": "s"},
    ]
    assert answer["modelVersion"] == "gemini-3.8"
    assert DIALECT.usage(answer) == TokenUsage(103, 12, 60, 0, 5)


def test_a_text_goes_on_after_an_event_without_parts() -> None:
    finish = {"candidates": [{"finishReason": "STOP"}]}
    answer = DIALECT.whole([event({"text": "a"}), {"promptFeedback": {}}, finish])
    assert answer["candidates"][0]["finishReason"] == "STOP"
    assert answer["candidates"][0]["content"] == {"role": "model", "parts": [{"text": "a"}]}


def test_a_stream_that_is_a_list_says_what_it_used_too() -> None:
    assert DIALECT.usage([event({"text": "a"}), {"usageMetadata": {"promptTokenCount": 4}}]) == TokenUsage(4)


def test_the_path_says_which_model_and_whether_it_streams() -> None:
    path = "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"
    assert DIALECT.model(path, None) == "gemini-2.5-pro"
    assert DIALECT.streams(path, None)
    assert not DIALECT.streams("/v1beta/models/gemini-2.5-pro:generateContent", {"stream": True})


def test_nothing_comes_to_nothing() -> None:
    assert DIALECT.whole([]) is None
