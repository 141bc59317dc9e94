"""Anthropic's Messages API."""

from collections.abc import Iterable
from typing import Any, ClassVar

from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.dialects.base import (
    ConversationReader,
    Dialect,
    Refusal,
    file_from_base64,
    file_from_url,
    nested_field,
    tool_arguments,
    tool_schema,
    with_system,
)
from benchyard.gateway.dialects.entries import (
    ConversationEntry,
    Piece,
    ToolResult,
    ToolUse,
    Who,
    join_entries,
    text_from_value,
)
from benchyard.gateway.dialects.values import count, fields, is_count, items, parse_json, text

MOST_BLOCKS = 10_000
_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
"""Kind of a delta -> the field that it extends, which has the same name in the block."""
_CONTENT = ("content_block_delta", "content_block_start", "content_block_stop")
_ERRORS: dict[Refusal, str] = {
    "auth": "authentication_error",
    "forbidden": "permission_error",
    "budget": "invalid_request_error",
    "too_large": "request_too_large",
    "bad_request": "invalid_request_error",
    "unavailable": "api_error",
}


class AnthropicDialect(Dialect):
    """`POST /v1/messages`."""

    name: ClassVar[str] = "anthropic"
    shared: ClassVar[tuple[str, ...]] = ("messages", "system", "tools")

    def whole(self, events: Iterable[Any]) -> Any:
        message = _Message()
        for event in events:
            message.take(fields(event))
        return message.answer()

    def bare(self, events: list[Any]) -> list[Any]:
        return [event for event in events if fields(event).get("type") not in _CONTENT]

    def usage(self, response: Any) -> TokenUsage | None:
        used = fields(fields(response).get("usage"))
        if not any(is_count(used.get(key)) for key in ("input_tokens", "output_tokens")):
            return None
        read = count(used.get("cache_read_input_tokens"))
        written = count(used.get("cache_creation_input_tokens"))
        details = fields(used.get("output_tokens_details"))
        return TokenUsage(
            input_tokens=count(used.get("input_tokens")) + read + written,
            output_tokens=count(used.get("output_tokens")),
            cached_tokens=read,
            cache_write_tokens=written,
            reasoning_tokens=count(details.get("thinking_tokens")),
        )

    def refusal(self, kind: Refusal, message: str) -> Any:
        return {"type": "error", "error": {"type": _ERRORS[kind], "message": message}}


class _Message:
    """An answer, assembled event by event."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, _Block] = {}
        self._error: Any = None

    def take(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "message_start":
                self._message = {**fields(event.get("message"))}
            case "content_block_start" | "content_block_delta":
                self._take_block(event)
            case "message_delta":
                self._message.update(fields(event.get("delta")))
                self._add_usage(fields(event.get("usage")))
                self._message.update({key: event[key] for key in ("context_management",) if key in event})
            case "error":
                self._error = event.get("error")

    def answer(self) -> Any:
        if not self._message and not self._blocks:
            return None if self._error is None else {"type": "error", "error": self._error}
        given = {"content": [self._blocks[index].answer() for index in sorted(self._blocks)]}
        if not self._blocks:
            given = {"content": items(self._message.get("content"))}
        if self._error is not None:
            given["error"] = self._error
        return {"type": "message", "role": "assistant", **self._message, **given}

    def _take_block(self, event: dict[str, Any]) -> None:
        index = count(event.get("index"))
        if index not in self._blocks and len(self._blocks) < MOST_BLOCKS:
            self._blocks[index] = _Block()
        block = self._blocks.get(index)
        if block is None:
            return
        if event["type"] == "content_block_start":
            block.start = {**fields(event.get("content_block"))}
        else:
            block.go_on(fields(event.get("delta")))

    def _add_usage(self, used: dict[str, Any]) -> None:
        """Merge usage numbers: each event gives totals of the message so far, so the last one counts."""
        known = {key: value for key, value in used.items() if value is not None}
        self._message["usage"] = {**fields(self._message.get("usage")), **known}


class _Block:
    """A block of an answer, assembled piece by piece."""

    def __init__(self) -> None:
        self.start: dict[str, Any] = {}
        self._pieces: dict[str, list[str]] = {}
        self._input: list[str] = []
        self._citations: list[Any] = []

    def go_on(self, delta: dict[str, Any]) -> None:
        kind = text(delta.get("type"))
        if kind in _PIECES:
            self._pieces.setdefault(_PIECES[kind], []).append(text(delta.get(_PIECES[kind])))
        elif kind == "input_json_delta":
            self._input.append(text(delta.get("partial_json")))
        elif kind == "citations_delta":
            self._citations.append(delta.get("citation"))

    def answer(self) -> dict[str, Any]:
        block = {"type": "thinking" if "thinking" in self._pieces else "text", **self.start}
        for name, pieces in self._pieces.items():
            block[name] = text(block.get(name)) + "".join(pieces)
        if self._citations:
            block["citations"] = [*items(block.get("citations")), *self._citations]
        if written := "".join(self._input):
            block["input"] = _input(written)
        return block


def _input(written: str) -> Any:
    """Return the arguments of a tool call; the raw text if the stream broke off within them."""
    try:
        return parse_json(written)
    except ValueError:
        return written


_ROLES: dict[str, Who] = {"system": "system", "assistant": "agent"}


class AnthropicReader(ConversationReader):
    """Reader of histories of messages, each a list of blocks; tool results are blocks of the user's."""

    def items(self, request: Any) -> list[Any]:
        return with_system(fields(request).get("system"), fields(request).get("messages"))

    def entries(self, item: Any) -> tuple[ConversationEntry, ...]:
        who = _ROLES.get(text(fields(item).get("role")), "user")
        content = fields(item).get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else items(content)
        if who == "agent":
            return (_agent_entry(blocks),)
        results = tuple(_result(block) for block in map(fields, blocks) if _is_result(block))
        pieces = tuple(_piece(block) for block in map(fields, blocks) if not _is_result(block))
        found = (ConversationEntry("tool", results=results), ConversationEntry(who, pieces))
        return tuple(entry for entry in found if not entry.is_empty)

    def answer(self, response: Any) -> ConversationEntry:
        return _agent_entry(items(fields(response).get("content")))

    def tools(self, request: Any) -> list[dict[str, Any]]:
        return [
            tool_schema(tool.get("name"), tool.get("description"), tool.get("input_schema"))
            for tool in map(fields, items(fields(request).get("tools")))
        ]

    def effort(self, request: Any) -> Any:
        named = nested_field(request, "output_config", "effort")
        return nested_field(request, "thinking", "budget_tokens") if named is None else named


def _agent_entry(blocks: list[Any]) -> ConversationEntry:
    return join_entries([_of_agent(fields(block)) for block in blocks])


def _of_agent(block: dict[str, Any]) -> ConversationEntry:
    kind = text(block.get("type"))
    if kind == "thinking":
        return ConversationEntry("agent", reasoning=text(block.get("thinking")))
    if kind == "redacted_thinking":
        return ConversationEntry("agent")
    if kind.endswith("tool_use"):
        use = ToolUse(text(block.get("id")), text(block.get("name")), tool_arguments(block.get("input")))
        return ConversationEntry("agent", uses=(use,))
    if _is_result(block):
        return ConversationEntry("agent", results=(_result(block),))
    return ConversationEntry("agent", (_piece(block),))


def _is_result(block: dict[str, Any]) -> bool:
    return text(fields(block).get("type")).endswith("tool_result")


def _result(block: dict[str, Any]) -> ToolResult:
    content = block.get("content")
    pieces = tuple(map(_piece, map(fields, content))) if isinstance(content, list) else ()
    if content is not None and not isinstance(content, list):
        pieces = (text_from_value(content),)
    return ToolResult(text(block.get("tool_use_id")), "", pieces, block.get("is_error") is True)


def _piece(block: dict[str, Any]) -> Piece:
    kind, source = text(block.get("type")), fields(block.get("source"))
    if kind == "text":
        return text(block.get("text"))
    if kind in ("image", "document") and source:
        if source.get("type") == "url":
            return file_from_url(source.get("url"), "" if kind == "image" else "application/pdf")
        return file_from_base64(source.get("media_type"), source.get("data"))
    return (
        text_from_value({key: value for key, value in block.items() if key != "cache_control"})
        if block
        else ""
    )
