"""Conversations in OpenAI's Chat Completions."""

from typing import Any

from benchyard.gateway.dialects.values import fields, items, text
from benchyard.gateway.trajectory.entries import Entry, Piece, Result, Use, Who
from benchyard.gateway.trajectory.plain import plain, written
from benchyard.gateway.trajectory.reader import Reader, arguments, encoded, function, level, linked

_ROLES: dict[str, Who] = {"system": "system", "developer": "system", "assistant": "agent"}


class ChatReader(Reader):
    """A message has a role; results of tools are messages of their own."""

    def items(self, request: Any) -> list[Any]:
        return items(fields(request).get("messages"))

    def entries(self, item: Any) -> tuple[Entry, ...]:
        message = fields(item)
        role = text(message.get("role"))
        pieces = _pieces(message.get("content"))
        if role in ("tool", "function"):
            result = Result(text(message.get("tool_call_id")), text(message.get("name")), pieces)
            return (Entry("tool", results=(result,)),)
        who = _ROLES.get(role, "user")
        entry = _said(message) if who == "agent" else Entry(who, pieces)
        return () if entry.is_empty else (entry,)

    def answer(self, response: Any) -> Entry:
        choices = items(fields(response).get("choices"))
        return _said(fields(fields(choices[0]).get("message"))) if choices else Entry("agent")

    def tools(self, request: Any) -> list[dict[str, Any]]:
        return [_tool(tool) for tool in map(fields, items(fields(request).get("tools")))]

    def effort(self, request: Any) -> Any:
        named = level(request, "reasoning_effort")
        return level(request, "reasoning", "effort") if named is None else named


def _said(message: dict[str, Any]) -> Entry:
    refused = text(message.get("refusal"))
    calls = [_use(fields(call)) for call in items(message.get("tool_calls"))]
    if message.get("function_call"):
        calls.append(_use({"function": message["function_call"]}))
    return Entry(
        "agent",
        (*_pieces(message.get("content")), *((refused,) if refused else ())),
        text(message.get("reasoning_content")) or text(message.get("reasoning")),
        tuple(calls),
    )


def _use(call: dict[str, Any]) -> Use:
    custom = fields(call.get("custom"))
    if custom:
        return Use(text(call.get("id")), text(custom.get("name")), {"input": plain(custom.get("input"))})
    called = fields(call.get("function"))
    return Use(text(call.get("id")), text(called.get("name")), arguments(called.get("arguments")))


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    declared = fields(tool.get("function"))
    if not declared:
        known: dict[str, Any] = plain(tool)
        return known
    return function(declared.get("name"), declared.get("description"), declared.get("parameters"))


def _pieces(content: Any) -> tuple[Piece, ...]:
    if isinstance(content, list):
        return tuple(_piece(fields(part)) for part in content)
    return () if content is None else (written(content),)


def _piece(part: dict[str, Any]) -> Piece:
    kind = text(part.get("type"))
    if isinstance(part.get("text"), str):
        return text(part["text"])
    if kind == "image_url":
        image = part.get("image_url")
        return linked(image if isinstance(image, str) else fields(image).get("url"))
    if kind == "input_audio":
        audio = fields(part.get("input_audio"))
        return encoded(f"audio/{text(audio.get('format'))}", audio.get("data"))
    if kind == "refusal":
        return text(part.get("refusal"))
    if kind == "file":
        return linked(fields(part.get("file")).get("file_data"), "file")
    return written(part) if part else ""
