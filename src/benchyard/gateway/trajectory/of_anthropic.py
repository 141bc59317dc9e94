"""Conversations in Anthropic's Messages."""

from typing import Any

from benchyard.gateway.dialects.values import fields, items, text
from benchyard.gateway.trajectory.entries import Entry, Piece, Result, Use, Who, joined
from benchyard.gateway.trajectory.plain import written
from benchyard.gateway.trajectory.reader import (
    Reader,
    arguments,
    encoded,
    function,
    level,
    linked,
    with_system,
)

_ROLES: dict[str, Who] = {"system": "system", "assistant": "agent"}


class AnthropicReader(Reader):
    """A message is a list of blocks; results of tools are blocks of the user's."""

    def items(self, request: Any) -> list[Any]:
        return with_system(fields(request).get("system"), fields(request).get("messages"))

    def entries(self, item: Any) -> tuple[Entry, ...]:
        who = _ROLES.get(text(fields(item).get("role")), "user")
        content = fields(item).get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else items(content)
        if who == "agent":
            return (_said(blocks),)
        results = tuple(_result(block) for block in map(fields, blocks) if _is_result(block))
        pieces = tuple(_piece(block) for block in map(fields, blocks) if not _is_result(block))
        found = (Entry("tool", results=results), Entry(who, pieces))
        return tuple(entry for entry in found if not entry.is_empty)

    def answer(self, response: Any) -> Entry:
        return _said(items(fields(response).get("content")))

    def tools(self, request: Any) -> list[dict[str, Any]]:
        return [
            function(tool.get("name"), tool.get("description"), tool.get("input_schema"))
            for tool in map(fields, items(fields(request).get("tools")))
        ]

    def effort(self, request: Any) -> Any:
        named = level(request, "output_config", "effort")
        return level(request, "thinking", "budget_tokens") if named is None else named


def _said(blocks: list[Any]) -> Entry:
    return joined([_of_agent(fields(block)) for block in blocks])


def _of_agent(block: dict[str, Any]) -> Entry:
    kind = text(block.get("type"))
    if kind == "thinking":
        return Entry("agent", reasoning=text(block.get("thinking")))
    if kind == "redacted_thinking":
        return Entry("agent")
    if kind.endswith("tool_use"):
        use = Use(text(block.get("id")), text(block.get("name")), arguments(block.get("input")))
        return Entry("agent", uses=(use,))
    if _is_result(block):
        return Entry("agent", results=(_result(block),))
    return Entry("agent", (_piece(block),))


def _is_result(block: dict[str, Any]) -> bool:
    return text(fields(block).get("type")).endswith("tool_result")


def _result(block: dict[str, Any]) -> Result:
    content = block.get("content")
    pieces = tuple(map(_piece, map(fields, content))) if isinstance(content, list) else ()
    if content is not None and not isinstance(content, list):
        pieces = (written(content),)
    return Result(text(block.get("tool_use_id")), "", pieces, block.get("is_error") is True)


def _piece(block: dict[str, Any]) -> Piece:
    kind, source = text(block.get("type")), fields(block.get("source"))
    if kind == "text":
        return text(block.get("text"))
    if kind in ("image", "document") and source:
        if source.get("type") == "url":
            return linked(source.get("url"), "" if kind == "image" else "application/pdf")
        return encoded(source.get("media_type"), source.get("data"))
    return written({key: value for key, value in block.items() if key != "cache_control"}) if block else ""
