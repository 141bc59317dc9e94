"""OpenAI Responses: `/v1/responses`."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.dialects.values import fields
from benchyard.gateway.dialects.values import text as word
from benchyard.scripted_model.replies import ScriptedReply, text_parts
from benchyard.scripted_model.requests import ConversationMessage, ModelRequest, OfferedTool, items, text_of
from benchyard.scripted_model.wires import base
from benchyard.scripted_model.wires.base import ModelWire, estimate_tokens, named_event

_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_RESULTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
_Event = dict[str, Any]


class ResponsesWire(ModelWire):
    """Wire with items, each with events of its own, numbered all through."""

    name = "responses"

    def read(self, path: str, body: Mapping[str, Any], size: int) -> ModelRequest:
        format = fields(fields(body.get("text")).get("format"))
        return ModelRequest(
            model=word(body.get("model")),
            streams=body.get("stream") is True,
            turns=tuple(_turns(body.get("input"))),
            tools=tuple(_tools(body)),
            body=body,
            input_tokens=estimate_tokens(size),
            session=word(body.get("prompt_cache_key")),
            schema=fields(format["schema"]) if "schema" in format else None,
        )

    def whole(self, request: ModelRequest, reply: ScriptedReply) -> Any:
        output = [_item(item, "completed") for item in _items(reply)]
        return {
            **_response(request, reply),
            "status": "completed",
            "completed_at": int(time.time()),
            "output": output,
            "usage": _usage(reply.usage),
        }

    def events(self, request: ModelRequest, reply: ScriptedReply) -> Iterator[bytes]:
        for number, event in enumerate(_events(request, reply, self.whole(request, reply))):
            yield named_event({**event, "sequence_number": number})

    def error(self, status: int, message: str) -> Any:
        return base.openai_error(status, message)


def _turns(given: Any) -> Iterator[ConversationMessage]:
    if isinstance(given, str):
        yield ConversationMessage("user", given)
    spoken: list[ConversationMessage] = []
    for item in items(given):
        kind = item.get("type", "message")
        if kind in _CALLS:
            spoken.append(ConversationMessage("assistant", calls=(word(item.get("call_id")),)))
        elif kind == "message" and item.get("role") == "assistant":
            spoken.append(ConversationMessage("assistant", text_of(item.get("content"))))
        elif kind in _RESULTS:
            yield from _joined(spoken)
            yield ConversationMessage("tool", text_of(item.get("output")), (word(item.get("call_id")),))
        elif kind == "message" and item.get("role") == "user":
            yield from _joined(spoken)
            yield ConversationMessage("user", text_of(item.get("content")))
    yield from _joined(spoken)


def _joined(spoken: list[ConversationMessage]) -> Iterator[ConversationMessage]:
    """Join the model's items of one turn: in this dialect its text and its calls are separate items."""
    if spoken:
        calls = tuple(call for turn in spoken for call in turn.calls)
        yield ConversationMessage("assistant", "\n".join(turn.text for turn in spoken if turn.text), calls)
    spoken.clear()


def _tools(body: Mapping[str, Any]) -> Iterator[OfferedTool]:
    """Yield the tools of the request itself, and those that its input brings along."""
    groups = [body.get("tools")]
    groups += [
        item.get("tools") for item in items(body.get("input")) if item.get("type") == "additional_tools"
    ]
    for group in groups:
        for tool in items(group):
            inner = items(tool.get("tools")) if tool.get("type") == "namespace" else [tool]
            yield from (_tool(each) for each in inner if word(each.get("name")))


def _tool(tool: Mapping[str, Any]) -> OfferedTool:
    return OfferedTool(word(tool.get("name")), fields(tool.get("parameters")), tool.get("type") == "custom")


def _response(request: ModelRequest, reply: ScriptedReply) -> dict[str, Any]:
    return {
        "id": f"resp_{reply.number:08d}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": request.model,
        "output": [],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
    }


def _usage(usage: TokenUsage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }


def _items(reply: ScriptedReply) -> Iterator[_Event]:
    if reply.reasoning:
        summary = {"type": "summary_text", "text": reply.reasoning}
        yield {"type": "reasoning", "id": f"rs_{reply.number:08d}", "summary": [summary]}
    if reply.text or not reply.calls:
        part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        yield {
            "type": "message",
            "id": f"msg_{reply.number:08d}",
            "role": "assistant",
            "content": [part],
        }
    for call in reply.calls:
        said = {"id": f"item_{call.id}", "call_id": call.id, "name": call.name}
        if call.code is None:
            yield {"type": "function_call", **said, "arguments": call.written}
        else:
            yield {"type": "custom_tool_call", **said, "input": call.code}


def _item(item: Mapping[str, Any], status: str) -> _Event:
    return dict(item) if item["type"] == "reasoning" else {**item, "status": status}


def _events(request: ModelRequest, reply: ScriptedReply, whole: Any) -> Iterator[_Event]:
    begun = _response(request, reply)
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(_items(reply)):
        at = {"output_index": index}
        emptied = {"content": [], "summary": [], "arguments": "", "input": ""}
        empty = {**item, **{key: value for key, value in emptied.items() if key in item}}
        yield {"type": "response.output_item.added", **at, "item": _item(empty, "in_progress")}
        yield from _inner(item, {**at, "item_id": item["id"]})
        yield {"type": "response.output_item.done", **at, "item": _item(item, "completed")}
    yield {"type": "response.completed", "response": whole}


def _inner(item: Mapping[str, Any], at: Mapping[str, Any]) -> Iterator[_Event]:
    """Yield the events of one item, between its beginning and its end."""
    match item["type"]:
        case "reasoning":
            part = item["summary"][0]
            yield from _part(
                "reasoning_summary_part", "reasoning_summary_text", part, {**at, "summary_index": 0}
            )
        case "message":
            part = item["content"][0]
            yield from _part("content_part", "output_text", part, {**at, "content_index": 0})
        case "function_call":
            done = {"arguments": item["arguments"], "name": item["name"]}
            yield from _text("function_call_arguments", item["arguments"], at, done)
        case _:
            yield from _text("custom_tool_call_input", item["input"], at, {"input": item["input"]})


def _part(frame: str, kind: str, part: Mapping[str, Any], at: Mapping[str, Any]) -> Iterator[_Event]:
    extra: _Event = {"logprobs": []} if kind == "output_text" else {}
    yield {"type": f"response.{frame}.added", **at, "part": {**part, "text": ""}}
    yield from _text(kind, part["text"], {**at, **extra}, {"text": part["text"]})
    yield {"type": f"response.{frame}.done", **at, "part": dict(part)}


def _text(kind: str, text: str, at: Mapping[str, Any], done: Mapping[str, Any]) -> Iterator[_Event]:
    for part in text_parts(text):
        yield {"type": f"response.{kind}.delta", **at, "delta": part}
    yield {"type": f"response.{kind}.done", **at, **done}
