"""Gemini: `/v1beta/models/MODEL:generateContent` and `:streamGenerateContent`."""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.dialects.values import fields
from benchyard.gateway.dialects.values import text as word
from benchyard.scripted_model.replies import ScriptedReply, text_parts
from benchyard.scripted_model.requests import ConversationMessage, ModelRequest, OfferedTool, items
from benchyard.scripted_model.wires.base import ModelWire, ReportedUsage, data_event, estimate_tokens, to_json

_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_SIGNATURE = base64.b64encode(b"scripted").decode()


class GeminiWire(ModelWire):
    """Wire with a single candidate. It does not report tokens written to a cache."""

    name = "gemini"

    def read(self, path: str, body: Mapping[str, Any], size: int) -> ModelRequest:
        model, _, verb = path.rpartition("/")[2].rpartition(":")
        config = fields(body.get("generationConfig"))
        schemas = (config.get("responseJsonSchema"), config.get("responseSchema"))
        is_json = config.get("responseMimeType") == "application/json"
        return ModelRequest(
            model=unquote(model),
            streams=verb == "streamGenerateContent",
            turns=tuple(_turns(body)),
            tools=tuple(_tools(body)),
            body=body,
            input_tokens=estimate_tokens(size),
            schema=fields(next(filter(None, schemas), {"type": "object"})) if is_json else None,
        )

    def whole(self, request: ModelRequest, reply: ScriptedReply) -> Any:
        return _response(request, reply, list(_parts(reply)), is_last=True)

    def events(self, request: ModelRequest, reply: ScriptedReply) -> Iterator[bytes]:
        return map(data_event, _pieces(request, reply))

    def error(self, status: int, message: str) -> Any:
        word = _STATUS.get(status, "UNKNOWN")
        return {"error": {"code": status, "message": message, "status": word}}

    def reported_usage(self, request: ModelRequest, reply: ScriptedReply) -> ReportedUsage:
        return ReportedUsage(replace(reply.usage, cache_write_tokens=0))


class GeminiArrayWire(GeminiWire):
    """The stream without `alt=sse`: one JSON list, sent piece by piece."""

    stream_type = "application/json"

    def events(self, request: ModelRequest, reply: ScriptedReply) -> Iterator[bytes]:
        for index, piece in enumerate(_pieces(request, reply)):
            yield (b",\r\n" if index else b"[") + to_json(piece)
        yield b"]"


def _pieces(request: ModelRequest, reply: ScriptedReply) -> Iterator[dict[str, Any]]:
    single = [[part] for part in _parts(reply, is_split=True)]
    for index, each in enumerate(single):
        yield _response(request, reply, each, is_last=index == len(single) - 1)


def _turns(body: Mapping[str, Any]) -> Iterator[ConversationMessage]:
    for content in items(body.get("contents")):
        parts = items(content.get("parts"))
        text = "\n".join(word(part.get("text")) for part in parts if "text" in part)
        if content.get("role") == "model":
            calls = [fields(part["functionCall"]) for part in parts if "functionCall" in part]
            yield ConversationMessage("assistant", text, tuple(word(call.get("id")) for call in calls))
            continue
        for part in parts:
            if "functionResponse" in part:
                result = fields(part["functionResponse"])
                yield ConversationMessage("tool", calls=(word(result.get("id")),))
        if text:
            yield ConversationMessage("user", text)


def _tools(body: Mapping[str, Any]) -> Iterator[OfferedTool]:
    """Yield the tools; some clients send a list of groups, some one group."""
    tools = body.get("tools")
    for group in items([tools] if isinstance(tools, Mapping) else tools):
        for tool in items(group.get("functionDeclarations") or group.get("function_declarations")):
            schema = fields(tool.get("parametersJsonSchema") or tool.get("parameters"))
            if name := word(tool.get("name")):
                yield OfferedTool(name, schema)


def _parts(reply: ScriptedReply, *, is_split: bool = False) -> Iterator[dict[str, Any]]:
    for text in text_parts(reply.reasoning) if is_split else filter(None, [reply.reasoning]):
        yield {"text": text, "thought": True}
    for text in text_parts(reply.text) if is_split else filter(None, [reply.text]):
        yield {"text": text}
    for call in reply.calls:
        call_fields = {"id": call.id, "name": call.name, "args": dict(call.arguments)}
        yield {"functionCall": call_fields, "thoughtSignature": _SIGNATURE}
    if not reply.text and not reply.calls:
        yield {"text": ""}


def _response(
    request: ModelRequest, reply: ScriptedReply, found: list[dict[str, Any]], *, is_last: bool
) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": found}, "index": 0}
    fields: dict[str, Any] = {"modelVersion": request.model, "responseId": f"resp_{reply.number:08d}"}
    if is_last:
        candidate["finishReason"] = "STOP"
        fields["usageMetadata"] = _usage(reply.usage)
    return {"candidates": [candidate], **fields}


def _usage(usage: TokenUsage) -> dict[str, Any]:
    counts = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
        "totalTokenCount": usage.total_tokens,
    }
    if usage.cached_tokens:
        counts["cachedContentTokenCount"] = usage.cached_tokens
    if usage.reasoning_tokens:
        counts["thoughtsTokenCount"] = usage.reasoning_tokens
    return counts
