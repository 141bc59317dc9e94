"""OpenAI's Chat Completions API, with the additions of vLLM and others."""

from collections.abc import Iterable
from typing import Any, ClassVar

from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.dialects.base import (
    ConversationReader,
    file_from_base64,
    file_from_url,
    nested_field,
    tool_arguments,
    tool_schema,
)
from benchyard.gateway.dialects.entries import (
    ConversationEntry,
    Piece,
    ToolResult,
    ToolUse,
    plain_json,
    text_from_value,
)
from benchyard.gateway.dialects.openai import ROLES, OpenAiDialect, content_pieces
from benchyard.gateway.dialects.values import count, fields, is_count, items, text

MOST_CHOICES = 128
MOST_CALLS = 10_000
_WRITTEN = ("content", "refusal", "reasoning_content", "reasoning")
"""Fields of a message that arrive in pieces."""


class ChatDialect(OpenAiDialect):
    """`POST /v1/chat/completions`."""

    name: ClassVar[str] = "chat"
    shared: ClassVar[tuple[str, ...]] = ("messages", "tools")

    def whole(self, events: Iterable[Any]) -> Any:
        answer: dict[str, Any] = {}
        choices: dict[int, _Choice] = {}
        for event in map(fields, events):
            _keep_last(answer, {key: event[key] for key in event if key != "choices"})
            for choice in map(fields, items(event.get("choices"))):
                index = count(choice.get("index"))
                if index in choices or len(choices) < MOST_CHOICES:
                    choices.setdefault(index, _Choice()).take(choice)
        if not answer and not choices:
            return None
        if "error" in answer and not choices:
            return answer
        answer["object"] = "chat.completion"
        answer["choices"] = [{"index": index, **choices[index].answer()} for index in sorted(choices)]
        return answer

    def bare(self, events: list[Any]) -> list[Any]:
        return [{**fields(event), "choices": None} for event in events]

    def usage(self, response: Any) -> TokenUsage | None:
        used = fields(fields(response).get("usage"))
        if not any(is_count(used.get(key)) for key in ("prompt_tokens", "completion_tokens")):
            return None
        read, written = (
            fields(used.get("prompt_tokens_details")),
            fields(used.get("completion_tokens_details")),
        )
        cached = count(read.get("cached_tokens")) or count(used.get("prompt_cache_hit_tokens"))
        return TokenUsage(
            input_tokens=count(used.get("prompt_tokens")),
            output_tokens=count(used.get("completion_tokens")),
            cached_tokens=cached,
            cache_write_tokens=count(read.get("cache_write_tokens")),
            reasoning_tokens=count(written.get("reasoning_tokens")),
        )


class _Choice:
    """An alternative answer, assembled chunk by chunk."""

    def __init__(self) -> None:
        self._choice: dict[str, Any] = {"finish_reason": None}
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._written: dict[str, list[str]] = {}
        self._lists: dict[str, list[Any]] = {}
        self._calls = _Calls()
        self._function = _Function()
        self._logprobs: dict[str, list[Any]] = {}
        self._token_ids: list[Any] | None = None

    def take(self, choice: dict[str, Any]) -> None:
        joined = ("index", "delta", "logprobs", "token_ids")
        _keep_last(self._choice, {key: choice[key] for key in choice if key not in joined})
        for name, listed in fields(choice.get("logprobs")).items():
            if isinstance(listed, list):
                self._logprobs.setdefault(name, []).extend(listed)
        if isinstance(choice.get("token_ids"), list):
            self._token_ids = [] if self._token_ids is None else self._token_ids
            self._token_ids.extend(choice["token_ids"])
        self._take_delta(fields(choice.get("delta")))

    def answer(self) -> dict[str, Any]:
        written = {name: "".join(pieces) for name, pieces in self._written.items()}
        message = {**self._message, **self._lists, **written}
        if calls := self._calls.answer():
            message["tool_calls"] = calls
        if self._function.is_used:
            message["function_call"] = self._function.answer()
        choice = {**self._choice, "message": message}
        if self._logprobs:
            choice["logprobs"] = self._logprobs
        if self._token_ids is not None:
            choice["token_ids"] = self._token_ids
        return choice

    def _take_delta(self, delta: dict[str, Any]) -> None:
        for name, value in delta.items():
            if name in _WRITTEN:
                if isinstance(value, str):
                    self._written.setdefault(name, []).append(value)
            elif name == "tool_calls":
                for call in items(value):
                    self._calls.take(fields(call))
            elif name == "function_call":
                self._function.take(fields(value))
            elif isinstance(value, list):
                self._lists.setdefault(name, []).extend(value)
            else:
                _keep_last(self._message, {name: value})


class _Function:
    """The function of a tool call: its name, and its arguments piece by piece."""

    def __init__(self) -> None:
        self.is_used = False
        self._name = ""
        self._arguments: list[str] = []

    def take(self, function: dict[str, Any]) -> None:
        self.is_used = self.is_used or bool(function)
        self._name = self._name or text(function.get("name"))
        self._arguments.append(text(function.get("arguments")))

    def answer(self) -> dict[str, Any]:
        return {"name": self._name, "arguments": "".join(self._arguments)}


class _Calls:
    """The tool calls of one message."""

    def __init__(self) -> None:
        self._calls: list[tuple[dict[str, Any], _Function]] = []
        self._places: dict[int, int] = {}
        """Index on the wire -> index in the list: some servers reuse an index for another call."""

    def take(self, call: dict[str, Any]) -> None:
        place = self._place(call)
        if place is None:
            return
        known, function = self._calls[place]
        _keep_last(known, {key: call[key] for key in call if key not in ("index", "function")})
        function.take(fields(call.get("function")))

    def answer(self) -> list[Any]:
        return [
            {"type": "function", **known, **({"function": function.answer()} if function.is_used else {})}
            for known, function in self._calls
        ]

    def _place(self, call: dict[str, Any]) -> int | None:
        index = count(call["index"]) if is_count(call.get("index")) else -1
        place = self._places.get(index)
        if place is not None and not self._is_another(call, self._calls[place][0]):
            return place
        if len(self._calls) >= MOST_CALLS:
            return None
        self._calls.append(({}, _Function()))
        self._places[index] = len(self._calls) - 1
        return self._places[index]

    @staticmethod
    def _is_another(call: dict[str, Any], known: dict[str, Any]) -> bool:
        new, old = text(call.get("id")), text(known.get("id"))
        return bool(new and old and new != old)


def _keep_last(known: dict[str, Any], new: dict[str, Any]) -> None:
    """Update known values; `null` does not overwrite a value."""
    known.update({key: value for key, value in new.items() if value is not None or key not in known})


class ChatReader(ConversationReader):
    """Reader of histories in which each message has a role, and tool results are messages of their own."""

    def items(self, request: Any) -> list[Any]:
        return items(fields(request).get("messages"))

    def entries(self, item: Any) -> tuple[ConversationEntry, ...]:
        message = fields(item)
        role = text(message.get("role"))
        pieces = content_pieces(message.get("content"), _piece)
        if role in ("tool", "function"):
            result = ToolResult(text(message.get("tool_call_id")), text(message.get("name")), pieces)
            return (ConversationEntry("tool", results=(result,)),)
        who = ROLES.get(role, "user")
        entry = _agent_entry(message) if who == "agent" else ConversationEntry(who, pieces)
        return () if entry.is_empty else (entry,)

    def answer(self, response: Any) -> ConversationEntry:
        choices = items(fields(response).get("choices"))
        return (
            _agent_entry(fields(fields(choices[0]).get("message"))) if choices else ConversationEntry("agent")
        )

    def tools(self, request: Any) -> list[dict[str, Any]]:
        return [_tool(tool) for tool in map(fields, items(fields(request).get("tools")))]

    def effort(self, request: Any) -> Any:
        named = nested_field(request, "reasoning_effort")
        return nested_field(request, "reasoning", "effort") if named is None else named


def _agent_entry(message: dict[str, Any]) -> ConversationEntry:
    refused = text(message.get("refusal"))
    calls = [_use(fields(call)) for call in items(message.get("tool_calls"))]
    if message.get("function_call"):
        calls.append(_use({"function": message["function_call"]}))
    return ConversationEntry(
        "agent",
        (*content_pieces(message.get("content"), _piece), *((refused,) if refused else ())),
        text(message.get("reasoning_content")) or text(message.get("reasoning")),
        tuple(calls),
    )


def _use(call: dict[str, Any]) -> ToolUse:
    custom = fields(call.get("custom"))
    if custom:
        return ToolUse(
            text(call.get("id")), text(custom.get("name")), {"input": plain_json(custom.get("input"))}
        )
    called = fields(call.get("function"))
    return ToolUse(text(call.get("id")), text(called.get("name")), tool_arguments(called.get("arguments")))


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    declared = fields(tool.get("function"))
    if not declared:
        known: dict[str, Any] = plain_json(tool)
        return known
    return tool_schema(declared.get("name"), declared.get("description"), declared.get("parameters"))


def _piece(part: dict[str, Any]) -> Piece:
    kind = text(part.get("type"))
    if isinstance(part.get("text"), str):
        return text(part["text"])
    if kind == "image_url":
        image = part.get("image_url")
        return file_from_url(image if isinstance(image, str) else fields(image).get("url"))
    if kind == "input_audio":
        audio = fields(part.get("input_audio"))
        return file_from_base64(f"audio/{text(audio.get('format'))}", audio.get("data"))
    if kind == "refusal":
        return text(part.get("refusal"))
    if kind == "file":
        return file_from_url(fields(part.get("file")).get("file_data"), "file")
    return text_from_value(part) if part else ""
