"""Anthropic Messages: `/v1/messages`."""

from collections.abc import Iterator, Mapping
from typing import Any

from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.dialects.values import fields
from benchyard.gateway.dialects.values import text as word
from benchyard.scripted_model.replies import ScriptedReply, text_parts
from benchyard.scripted_model.requests import ConversationMessage, ModelRequest, OfferedTool, items, text_of
from benchyard.scripted_model.wires.base import ModelWire, ReportedUsage, estimate_tokens, named_event

_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_SIGNATURE = "c2NyaXB0ZWQ="
_EARLY_OUTPUT = 1
"""Output tokens reported at the beginning of a stream."""


class AnthropicWire(ModelWire):
    """Wire with blocks of content, each with events of its own; usage is reported at beginning and end."""

    name = "anthropic"

    def read(self, path: str, body: Mapping[str, Any], size: int) -> ModelRequest:
        format = fields(fields(body.get("output_config")).get("format"))
        return ModelRequest(
            model=word(body.get("model")),
            streams=body.get("stream") is True,
            turns=tuple(_turns(body)),
            tools=tuple(_tools(body)),
            body=body,
            input_tokens=estimate_tokens(size),
            session=word(fields(body.get("metadata")).get("user_id")),
            schema=fields(format["schema"]) if "schema" in format else None,
        )

    def whole(self, request: ModelRequest, reply: ScriptedReply) -> Any:
        return {
            **_message(request, reply),
            "content": [block for block, _ in _blocks(reply)],
            "stop_reason": _stop(reply),
            "usage": _usage(reply.usage),
        }

    def events(self, request: ModelRequest, reply: ScriptedReply) -> Iterator[bytes]:
        begun = {
            **_message(request, reply),
            "content": [],
            "stop_reason": None,
            "usage": _usage(_early(reply)),
        }
        yield named_event({"type": "message_start", "message": begun})
        yield named_event({"type": "ping"})
        for index, (block, deltas) in enumerate(_blocks(reply)):
            at = {"index": index}
            yield named_event({"type": "content_block_start", **at, "content_block": _empty(block)})
            for delta in deltas:
                yield named_event({"type": "content_block_delta", **at, "delta": delta})
            yield named_event({"type": "content_block_stop", **at})
        ended = {"stop_reason": _stop(reply), "stop_sequence": None}
        yield named_event({"type": "message_delta", "delta": ended, "usage": _usage(reply.usage)})
        yield named_event({"type": "message_stop"})

    def error(self, status: int, message: str) -> Any:
        kind = _ERRORS.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {
            "type": "error",
            "error": {"type": kind, "message": message},
            "request_id": "req_scripted",
        }

    def reported_usage(self, request: ModelRequest, reply: ScriptedReply) -> ReportedUsage:
        return ReportedUsage(reply.usage, _early(reply) if request.streams else None, followers=1)


def _turns(body: Mapping[str, Any]) -> Iterator[ConversationMessage]:
    for message in items(body.get("messages")):
        content = message.get("content")
        blocks = items(content)
        if message.get("role") == "assistant":
            calls = tuple(word(block.get("id")) for block in blocks if block.get("type") == "tool_use")
            yield ConversationMessage("assistant", text_of(content), calls)
            continue
        for block in blocks:
            if block.get("type") == "tool_result":
                yield ConversationMessage(
                    "tool", text_of(block.get("content")), (word(block.get("tool_use_id")),)
                )
        if text := text_of(content):
            yield ConversationMessage("user", text)


def _tools(body: Mapping[str, Any]) -> Iterator[OfferedTool]:
    for tool in items(body.get("tools")):
        if name := word(tool.get("name")):
            yield OfferedTool(name, fields(tool.get("input_schema")))


def _message(request: ModelRequest, reply: ScriptedReply) -> dict[str, Any]:
    return {
        "id": f"msg_{reply.number:08d}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "stop_sequence": None,
    }


def _stop(reply: ScriptedReply) -> str:
    return "tool_use" if reply.calls else "end_turn"


def _early(reply: ScriptedReply) -> TokenUsage:
    usage = reply.usage
    early = min(_EARLY_OUTPUT, usage.output_tokens)
    return TokenUsage(usage.input_tokens, early, usage.cached_tokens, usage.cache_write_tokens)


def _usage(usage: TokenUsage) -> dict[str, Any]:
    """Return the usage in this dialect: tokens read from a cache or written to one are counted apart."""
    told = {
        "input_tokens": usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
    }
    if usage.reasoning_tokens:
        return {**told, "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens}}
    return told


def _blocks(reply: ScriptedReply) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield each block of a reply, with its deltas."""
    if text := reply.reasoning:
        deltas = [{"type": "thinking_delta", "thinking": part} for part in text_parts(text)]
        signed = {"type": "signature_delta", "signature": _SIGNATURE}
        yield {"type": "thinking", "thinking": text, "signature": _SIGNATURE}, [*deltas, signed]
    if reply.text or not reply.calls:
        deltas = [{"type": "text_delta", "text": part} for part in text_parts(reply.text)]
        yield {"type": "text", "text": reply.text}, deltas
    for call in reply.calls:
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}
        yield (
            block,
            [{"type": "input_json_delta", "partial_json": part} for part in ("", *text_parts(call.written))],
        )


def _empty(block: Mapping[str, Any]) -> dict[str, Any]:
    emptied = {"text": "", "thinking": "", "signature": "", "input": {}}
    return {**block, **{key: value for key, value in emptied.items() if key in block}}
