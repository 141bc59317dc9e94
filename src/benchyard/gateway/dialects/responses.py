"""OpenAI's Responses."""

from collections.abc import Iterable
from typing import Any, ClassVar

from benchyard.gateway.calls import Usage
from benchyard.gateway.dialects import openai
from benchyard.gateway.dialects.base import Dialect, Refusal
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
"""Kind of a delta -> the list of its item, the field that says where in it, the part's type and its field."""
_FIELDS = {
    "response.function_call_arguments.delta": "arguments",
    "response.mcp_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
    "response.code_interpreter_call_code.delta": "code",
}
"""Kind of a delta -> the field of its item that it goes on with."""


class Responses(Dialect):
    """`POST /v1/responses`."""

    name: ClassVar[str] = "responses"
    shared: ClassVar[tuple[str, ...]] = ("input", "instructions", "tools")

    def model(self, path: str, body: Any) -> str | None:
        return openai.model(body)

    def streams(self, path: str, body: Any) -> bool:
        return openai.streams(body)

    def whole(self, events: Iterable[Any]) -> Any:
        response = _Response()
        for event in events:
            response.take(fields(event))
        return response.answer()

    def bare(self, events: list[Any]) -> list[Any]:
        return [event for event in events if fields(event).get("type") in _FRAME]

    def usage(self, response: Any) -> Usage | None:
        used = fields(fields(response).get("usage"))
        if not any(is_count(used.get(key)) for key in ("input_tokens", "output_tokens")):
            return None
        read, written = fields(used.get("input_tokens_details")), fields(used.get("output_tokens_details"))
        return Usage(
            input_tokens=count(used.get("input_tokens")),
            output_tokens=count(used.get("output_tokens")),
            cached_tokens=count(read.get("cached_tokens")),
            cache_write_tokens=count(read.get("cache_write_tokens")),
            reasoning_tokens=count(written.get("reasoning_tokens")),
        )

    def refusal(self, kind: Refusal, message: str) -> Any:
        return openai.refusal(kind, message)


class _Response:
    """An answer: the one that the last event carries, or what the others come to."""

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
        """The item an event is about: by its place, or, where it names none, the next one that is there."""
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
    """An item of an answer, put together piece by piece."""

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
