"""OpenAI's Responses API."""

from collections.abc import Iterable
from typing import Any, ClassVar

from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.dialects.base import (
    ConversationReader,
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
    join_entries,
    plain_json,
    text_from_value,
)
from benchyard.gateway.dialects.openai import ROLES, OpenAiDialect, content_pieces
from benchyard.gateway.dialects.values import count, fields, is_count, items, text

MOST_ITEMS = 10_000
_ENDS = (
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.cancelled",
    "response.done",
)
_BEGINS = ("response.queued", "response.created", "response.in_progress")
_FRAME = (*_BEGINS, *_ENDS, "error")
_PARTS = {
    "response.output_text.delta": ("content", "content_index", "output_text", "text"),
    "response.refusal.delta": ("content", "content_index", "refusal", "refusal"),
    "response.reasoning_text.delta": ("content", "content_index", "reasoning_text", "text"),
    "response.reasoning_summary_text.delta": ("summary", "summary_index", "summary_text", "text"),
}
"""Kind of a delta -> the list in its item, the field with the index, the part's type and its text field."""
_FIELDS = {
    "response.function_call_arguments.delta": "arguments",
    "response.mcp_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
    "response.code_interpreter_call_code.delta": "code",
}
"""Kind of a delta -> the field of its item that it extends."""


class ResponsesDialect(OpenAiDialect):
    """`POST /v1/responses`."""

    name: ClassVar[str] = "responses"
    shared: ClassVar[tuple[str, ...]] = ("input", "instructions", "tools")

    def whole(self, events: Iterable[Any]) -> Any:
        response = _Response()
        for event in events:
            response.take(fields(event))
        return response.answer()

    def bare(self, events: list[Any]) -> list[Any]:
        return [event for event in events if fields(event).get("type") in _FRAME]

    def usage(self, response: Any) -> TokenUsage | None:
        used = fields(fields(response).get("usage"))
        if not any(is_count(used.get(key)) for key in ("input_tokens", "output_tokens")):
            return None
        read, written = fields(used.get("input_tokens_details")), fields(used.get("output_tokens_details"))
        return TokenUsage(
            input_tokens=count(used.get("input_tokens")),
            output_tokens=count(used.get("output_tokens")),
            cached_tokens=count(read.get("cached_tokens")),
            cache_write_tokens=count(read.get("cache_write_tokens")),
            reasoning_tokens=count(written.get("reasoning_tokens")),
        )


class _Response:
    """An answer: the one that the last event carries, or else assembled from the other events."""

    def __init__(self) -> None:
        self._response: dict[str, Any] = {}
        self._items: dict[int, _Item] = {}
        self._error: Any = None

    def take(self, event: dict[str, Any]) -> None:
        kind = text(event.get("type"))
        if kind in _BEGINS or kind in _ENDS:
            self._response = {**self._response, **fields(event.get("response"))}
        elif kind == "error":
            known = {key: event.get(key) for key in ("code", "message", "param")}
            self._error = event.get("error") or known
        elif kind in ("response.output_item.added", "response.output_item.done"):
            if (item := self._item(event)) is not None:
                item.start, item.is_done = {**fields(event.get("item"))}, kind.endswith("done")
        elif kind in _PARTS or kind in _FIELDS:
            item = self._item(event)
            if item is not None and not item.is_done:
                item.go_on(kind, event)

    def answer(self) -> Any:
        if not self._response and not self._items:
            return None if self._error is None else {"error": self._error}
        whole: dict[str, Any] = {"object": "response", **self._response}
        if not items(whole.get("output")):
            whole["output"] = [self._items[index].answer() for index in sorted(self._items)]
        if self._error is not None:
            whole["error"] = self._error
        return whole

    def _item(self, event: dict[str, Any]) -> "_Item | None":
        """Return the item of an event, by its index, or else by its place after the known items."""
        place = event.get("output_index")
        index = count(place) if is_count(place) else self._place(event)
        if index not in self._items and len(self._items) < MOST_ITEMS:
            self._items[index] = _Item()
        return self._items.get(index)

    def _place(self, event: dict[str, Any]) -> int:
        last = max(self._items, default=-1)
        goes_on = last >= 0 and not self._items[last].is_done
        if event.get("type") == "response.output_item.added" or not goes_on:
            return last + 1
        return last


class _Item:
    """An item of an answer, assembled piece by piece."""

    def __init__(self) -> None:
        self.start: dict[str, Any] = {}
        self.is_done = False
        self._fields: dict[str, list[str]] = {}
        self._parts: dict[tuple[str, int], tuple[str, str, list[str]]] = {}

    def go_on(self, kind: str, event: dict[str, Any]) -> None:
        delta = text(event.get("delta"))
        if kind in _FIELDS:
            self._fields.setdefault(_FIELDS[kind], []).append(delta)
            return
        where, place, part, field = _PARTS[kind]
        key = (where, count(event.get(place)))
        if key in self._parts or len(self._parts) < MOST_ITEMS:
            self._parts.setdefault(key, (part, field, []))[2].append(delta)

    def answer(self) -> dict[str, Any]:
        item = {**self.start}
        if self.is_done:
            return item
        for name, pieces in self._fields.items():
            item[name] = "".join(pieces)
        for where in ("content", "summary"):
            known = sorted(place for name, place in self._parts if name == where)
            parts = [self._parts[where, place] for place in known]
            if parts:
                item[where] = [{"type": part, field: "".join(pieces)} for part, field, pieces in parts]
        item.setdefault("type", "message")
        item["status"] = "incomplete"
        return item


_SILENT = ("item_reference", "additional_tools", "compaction", "context_compaction")
"""Kinds of items without readable content."""
_ABOUT = ("type", "id", "call_id", "name", "status", "output")
"""Fields of a call that are not arguments of the tool."""


class ResponsesReader(ConversationReader):
    """Reader of histories in which messages, reasoning, calls and results are items of their own."""

    def items(self, request: Any) -> list[Any]:
        return with_system(fields(request).get("instructions"), fields(request).get("input"))

    def entries(self, item: Any) -> tuple[ConversationEntry, ...]:
        given = fields(item)
        kind = text(given.get("type"))
        if kind in _SILENT:
            return ()
        if kind == "reasoning":
            entry = ConversationEntry("agent", reasoning=_thoughts(given))
        elif kind.endswith("_output"):
            result = ToolResult(text(given.get("call_id")), "", content_pieces(given.get("output"), _piece))
            entry = ConversationEntry("tool", results=(result,))
        elif kind.endswith("_call"):
            entry = _tool_entry(given)
        else:
            entry = ConversationEntry(
                ROLES.get(text(given.get("role")), "user"), content_pieces(given.get("content"), _piece)
            )
        return () if entry.is_empty else (entry,)

    def answer(self, response: Any) -> ConversationEntry:
        said = [entry for item in items(fields(response).get("output")) for entry in self.entries(item)]
        return join_entries(said)

    def tools(self, request: Any) -> list[dict[str, Any]]:
        offered = items(fields(request).get("tools"))
        for item in map(fields, items(fields(request).get("input"))):
            if item.get("type") == "additional_tools":
                offered = [*offered, *items(item.get("tools"))]
        return [declared for tool in map(fields, offered) for declared in _tool_declarations(tool)]

    def effort(self, request: Any) -> Any:
        return nested_field(request, "reasoning", "effort")


def _tool_declarations(tool: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the declaration of a tool, or those of the tools in a namespace."""
    if tool.get("type") == "namespace":
        inner = [fields(item) for item in items(tool.get("tools"))]
        return [_tool(each) for each in inner if each.get("type") != "namespace"]
    return [_tool(tool)]


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    if tool.get("type") == "function":
        return tool_schema(tool.get("name"), tool.get("description"), tool.get("parameters"))
    kind = text(tool.get("type"))
    known: dict[str, Any] = plain_json({key: value for key, value in tool.items() if key != "type"})
    return {"type": kind, kind: known} if known and kind else {"type": kind}


def _tool_entry(item: dict[str, Any]) -> ConversationEntry:
    kind = text(item.get("type"))
    if "arguments" in item:
        given = tool_arguments(item["arguments"])
    elif isinstance(item.get("input"), str):
        given = {"input": plain_json(item["input"])}
    else:
        given = plain_json({key: value for key, value in item.items() if key not in _ABOUT})
    id = text(item.get("call_id")) or text(item.get("id"))
    use = ToolUse(id, text(item.get("name")) or kind.removesuffix("_call"), given)
    output = item.get("output")
    own = () if output is None else (ToolResult(id, "", content_pieces(output, _piece)),)
    return ConversationEntry("agent", uses=(use,), results=own)


def _thoughts(item: dict[str, Any]) -> str:
    parts = [*items(item.get("summary")), *items(item.get("content"))]
    return "\n".join(filter(None, (text(fields(part).get("text")) for part in parts)))


def _piece(part: dict[str, Any]) -> Piece:
    kind = text(part.get("type"))
    if isinstance(part.get("text"), str):
        return text(part["text"])
    if kind == "refusal":
        return text(part.get("refusal"))
    if kind == "input_image":
        return file_from_url(part.get("image_url"))
    if kind == "input_file":
        return file_from_url(part.get("file_data") or part.get("file_url"), "file")
    return text_from_value(part) if part else ""
