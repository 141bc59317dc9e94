"""Conversations in OpenAI's Responses."""

from typing import Any

from benchyard.gateway.dialects.values import fields, items, text
from benchyard.gateway.trajectory.entries import Entry, Piece, Result, Use, Who, joined
from benchyard.gateway.trajectory.plain import plain, written
from benchyard.gateway.trajectory.reader import Reader, arguments, function, level, linked, with_system

_ROLES: dict[str, Who] = {"system": "system", "developer": "system", "assistant": "agent"}
_SILENT = ("item_reference", "additional_tools", "compaction", "context_compaction")
"""Items that say nothing that can be read."""
_ABOUT = ("type", "id", "call_id", "name", "status", "output")
"""Fields of a call that are not what the tool is called with."""


class ResponsesReader(Reader):
    """Everything is an item of its own: messages, thoughts, calls and what came of them."""

    def items(self, request: Any) -> list[Any]:
        return with_system(fields(request).get("instructions"), fields(request).get("input"))

    def entries(self, item: Any) -> tuple[Entry, ...]:
        given = fields(item)
        kind = text(given.get("type"))
        if kind in _SILENT:
            return ()
        if kind == "reasoning":
            entry = Entry("agent", reasoning=_thoughts(given))
        elif kind.endswith("_output"):
            result = Result(text(given.get("call_id")), "", _pieces(given.get("output")))
            entry = Entry("tool", results=(result,))
        elif kind.endswith("_call"):
            entry = _called(given)
        else:
            entry = Entry(_ROLES.get(text(given.get("role")), "user"), _pieces(given.get("content")))
        return () if entry.is_empty else (entry,)

    def answer(self, response: Any) -> Entry:
        said = [entry for item in items(fields(response).get("output")) for entry in self.entries(item)]
        return joined(said)

    def tools(self, request: Any) -> list[dict[str, Any]]:
        offered = items(fields(request).get("tools"))
        for item in map(fields, items(fields(request).get("input"))):
            if item.get("type") == "additional_tools":
                offered = [*offered, *items(item.get("tools"))]
        return [declared for tool in map(fields, offered) for declared in _declared(tool)]

    def effort(self, request: Any) -> Any:
        return level(request, "reasoning", "effort")


def _declared(tool: dict[str, Any]) -> list[dict[str, Any]]:
    """A tool, or those of a namespace."""
    if tool.get("type") == "namespace":
        inner = [fields(each) for each in items(tool.get("tools"))]
        return [_tool(each) for each in inner if each.get("type") != "namespace"]
    return [_tool(tool)]


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    if tool.get("type") == "function":
        return function(tool.get("name"), tool.get("description"), tool.get("parameters"))
    kind = text(tool.get("type"))
    known: dict[str, Any] = plain({key: value for key, value in tool.items() if key != "type"})
    return {"type": kind, kind: known} if known and kind else {"type": kind}


def _called(item: dict[str, Any]) -> Entry:
    kind = text(item.get("type"))
    if "arguments" in item:
        given = arguments(item["arguments"])
    elif isinstance(item.get("input"), str):
        given = {"input": plain(item["input"])}
    else:
        given = plain({key: value for key, value in item.items() if key not in _ABOUT})
    id = text(item.get("call_id")) or text(item.get("id"))
    use = Use(id, text(item.get("name")) or kind.removesuffix("_call"), given)
    own = (Result(id, "", _pieces(item["output"])),) if item.get("output") is not None else ()
    return Entry("agent", uses=(use,), results=own)


def _thoughts(item: dict[str, Any]) -> str:
    parts = [*items(item.get("summary")), *items(item.get("content"))]
    return "\n".join(filter(None, (text(fields(part).get("text")) for part in parts)))


def _pieces(content: Any) -> tuple[Piece, ...]:
    if isinstance(content, list):
        return tuple(_piece(fields(part)) for part in content)
    return () if content is None else (written(content),)


def _piece(part: dict[str, Any]) -> Piece:
    kind = text(part.get("type"))
    if isinstance(part.get("text"), str):
        return text(part["text"])
    if kind == "refusal":
        return text(part.get("refusal"))
    if kind == "input_image":
        return linked(part.get("image_url"))
    if kind == "input_file":
        return linked(part.get("file_data") or part.get("file_url"), "file")
    return written(part) if part else ""
