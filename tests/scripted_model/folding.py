"""What a client makes of the events of a stream, dialect by dialect."""

import json
from collections.abc import Sequence
from typing import Any

from tests.scripted_model import asking
from tests.scripted_model.asking import Said


def folded(dialect: str, events: Sequence[Any]) -> Said:
    """What a stream says, put together from its deltas alone."""
    match dialect:
        case "anthropic":
            return _anthropic(events)
        case "responses":
            return _responses(events)
        case "chat":
            return _chat(events)
        case _:
            return _gemini(events)


def _anthropic(events: Sequence[Any]) -> Said:
    assert [events[0]["type"], events[-1]["type"]] == ["message_start", "message_stop"]
    message = events[0]["message"]
    blocks: list[Any] = []
    for event in events:
        if event["type"] == "content_block_start":
            assert event["index"] == len(blocks)
            blocks.append({**event["content_block"], "json": ""})
        elif event["type"] == "content_block_delta":
            _grow(blocks[event["index"]], event["delta"])
        elif event["type"] == "message_delta":
            message["usage"] |= event["usage"]
    for block in blocks:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block["json"])
    return asking.said("anthropic", {**message, "content": blocks})


def _grow(block: Any, delta: Any) -> None:
    for key in ("text", "thinking", "signature"):
        if key in delta:
            block[key] += delta[key]
    block["json"] += delta.get("partial_json", "")


def _responses(events: Sequence[Any]) -> Said:
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [events[0]["type"], events[-1]["type"]] == ["response.created", "response.completed"]
    found = Said()
    texts: dict[str, str] = {}
    for event in events:
        kind = event["type"].removeprefix("response.")
        if kind.endswith(".delta"):
            texts[event["item_id"]] = texts.get(event["item_id"], "") + event["delta"]
        elif kind == "output_item.done":
            _item(event["item"], texts[event["item"]["id"]], found)
    found.usage = asking.said("responses", events[-1]["response"]).usage
    return found


def _item(item: Any, text: str, found: Said) -> None:
    match item["type"]:
        case "reasoning":
            found.reasoning = text
        case "message":
            found.text = text
        case "function_call":
            found.calls.append((item["name"], json.loads(text)))
        case _:
            found.calls.append((item["name"], text))


def _chat(events: Sequence[Any]) -> Said:
    message: Any = {"content": "", "reasoning_content": "", "tool_calls": []}
    usage = None
    for event in events:
        usage = event.get("usage", usage)
        for choice in event["choices"]:
            delta = choice["delta"]
            message["content"] += delta.get("content", "")
            message["reasoning_content"] += delta.get("reasoning_content", "")
            for call in delta.get("tool_calls", ()):
                if "id" in call:
                    message["tool_calls"].append({"function": {**call["function"]}})
                else:
                    function = message["tool_calls"][call["index"]]["function"]
                    function["arguments"] += call["function"]["arguments"]
    return asking.said("chat", {"choices": [{"message": message}], "usage": usage})


def _gemini(events: Sequence[Any]) -> Said:
    parts = [part for event in events for part in event["candidates"][0]["content"]["parts"]]
    assert [event["candidates"][0].get("finishReason") for event in events[:-1]] == [None] * (len(events) - 1)
    assert events[-1]["candidates"][0]["finishReason"] == "STOP"
    return asking.said("gemini", {**events[-1], "candidates": [{"content": {"parts": parts}}]})
