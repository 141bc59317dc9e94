"""Google's Gemini: `generateContent` and `streamGenerateContent`."""

import urllib.parse
from collections.abc import Iterable
from typing import Any, ClassVar

from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.dialects.base import (
    REFUSAL_STATUS,
    ConversationReader,
    Dialect,
    Refusal,
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
    join_entries,
    text_from_value,
)
from benchyard.gateway.dialects.values import count, fields, is_count, items, text

MOST_CANDIDATES = 128
STREAMING = ":streamGenerateContent"
_JOINED = {"text", "thought", "thoughtSignature"}
"""Keys that a part may have if it can be joined with the next one."""
_ERRORS: dict[Refusal, str] = {
    "auth": "UNAUTHENTICATED",
    "forbidden": "PERMISSION_DENIED",
    "budget": "FAILED_PRECONDITION",
    "too_large": "INVALID_ARGUMENT",
    "bad_request": "INVALID_ARGUMENT",
    "unavailable": "UNAVAILABLE",
}
"""No `RESOURCE_EXHAUSTED` for a used-up budget: clients would try again."""


class GeminiDialect(Dialect):
    """`POST /v1beta/models/MODEL:generateContent`, and the same as a stream."""

    name: ClassVar[str] = "gemini"
    shared: ClassVar[tuple[str, ...]] = ("contents", "systemInstruction", "system_instruction", "tools")

    def model(self, path: str, body: Any) -> str | None:
        last = path.partition("?")[0].rpartition("/")[2]
        return urllib.parse.unquote(last.rpartition(":")[0]) or None

    def streams(self, path: str, body: Any) -> bool:
        return path.partition("?")[0].endswith(STREAMING)

    def whole(self, events: Iterable[Any]) -> Any:
        answer: dict[str, Any] = {}
        candidates: dict[int, _Candidate] = {}
        for event in map(fields, events):
            answer.update({key: event[key] for key in event if key != "candidates"})
            for candidate in map(fields, items(event.get("candidates"))):
                index = count(candidate.get("index"))
                if index in candidates or len(candidates) < MOST_CANDIDATES:
                    candidates.setdefault(index, _Candidate()).take(candidate)
        if candidates:
            answer["candidates"] = [candidates[index].answer() for index in sorted(candidates)]
        return answer or None

    def bare(self, events: list[Any]) -> list[Any]:
        return [{**fields(event), "candidates": None} for event in events]

    def usage(self, response: Any) -> TokenUsage | None:
        if isinstance(response, list):  # a stream without `alt=sse`
            response = self.whole(response)
        used = fields(fields(response).get("usageMetadata"))
        if not any(is_count(used.get(key)) for key in ("promptTokenCount", "candidatesTokenCount")):
            return None
        thought = count(used.get("thoughtsTokenCount"))
        return TokenUsage(
            input_tokens=count(used.get("promptTokenCount")) + count(used.get("toolUsePromptTokenCount")),
            output_tokens=count(used.get("candidatesTokenCount")) + thought,
            cached_tokens=count(used.get("cachedContentTokenCount")),
            reasoning_tokens=thought,
        )

    def refusal(self, kind: Refusal, message: str) -> Any:
        return {"error": {"code": REFUSAL_STATUS[kind], "message": message, "status": _ERRORS[kind]}}


class _Candidate:
    """An alternative answer, assembled event by event."""

    def __init__(self) -> None:
        self._candidate: dict[str, Any] = {}
        self._content: dict[str, Any] = {}
        self._parts: list[dict[str, Any]] = []
        self._texts: list[list[str]] = []
        """Pieces of text of each part; empty for a part that is not text."""

    def take(self, candidate: dict[str, Any]) -> None:
        self._candidate.update(candidate)
        content = fields(candidate.get("content"))
        self._content.update(content)
        for part in map(fields, items(content.get("parts"))):
            if self._parts and self._goes_on(part):
                self._texts[-1].append(part["text"])
                self._parts[-1].update(part)
            else:
                self._parts.append({**part})
                self._texts.append([part["text"]] if isinstance(part.get("text"), str) else [])

    def answer(self) -> dict[str, Any]:
        parts = [
            {**part, "text": "".join(pieces)} if pieces else part
            for part, pieces in zip(self._parts, self._texts, strict=True)
        ]
        return {**self._candidate, "content": {"role": "model", **self._content, "parts": parts}}

    def _goes_on(self, part: dict[str, Any]) -> bool:
        """Tell whether a part continues the text of the last one; a part with a signature is complete."""
        last = self._parts[-1]
        if not isinstance(part.get("text"), str) or not self._texts[-1] or text(last.get("thoughtSignature")):
            return False
        return set(part) | set(last) <= _JOINED and bool(part.get("thought")) == bool(last.get("thought"))


_ONLY_TEXT = ("output", "result", "error", "content", "text")
"""Keys of a tool result: the value of a lone one is used as the result's text."""
_WRAPPED = 3


class GeminiReader(ConversationReader):
    """Reader of histories of contents, each a list of parts; only newer API versions give ids to calls."""

    def items(self, request: Any) -> list[Any]:
        parts = fields(request)
        system = parts.get("systemInstruction") or parts.get("system_instruction")
        if isinstance(system, str):
            system = {"parts": [{"text": system}]}
        head = [{**fields(system), "role": "system"}] if fields(system) else []
        return [*head, *items(parts.get("contents"))]

    def entries(self, item: Any) -> tuple[ConversationEntry, ...]:
        parts = [fields(part) for part in items(fields(item).get("parts"))]
        role = fields(item).get("role")
        if role == "model":
            return (join_entries([_of_agent(part) for part in parts]),)
        results = tuple(_result(part) for part in parts if "functionResponse" in part)
        pieces = tuple(_piece(part) for part in parts if "functionResponse" not in part)
        said = ConversationEntry("system" if role == "system" else "user", pieces)
        return tuple(
            entry for entry in (ConversationEntry("tool", results=results), said) if not entry.is_empty
        )

    def answer(self, response: Any) -> ConversationEntry:
        if isinstance(response, list):  # a stream without `alt=sse`
            response = GeminiDialect().whole(response)
        candidates = items(fields(response).get("candidates"))
        content = fields(fields(candidates[0]).get("content")) if candidates else {}
        return join_entries([_of_agent(fields(part)) for part in items(content.get("parts"))])

    def tools(self, request: Any) -> list[dict[str, Any]]:
        offered = fields(request).get("tools")
        groups = [fields(group) for group in (offered if isinstance(offered, list) else [offered])]
        declared = [
            fields(declaration)
            for group in groups
            for declaration in items(group.get("functionDeclarations") or group.get("function_declarations"))
        ]
        return [
            tool_schema(declaration.get("name"), declaration.get("description"), _schema(declaration))
            for declaration in declared
        ]

    def effort(self, request: Any) -> Any:
        named = nested_field(request, "generationConfig", "thinkingConfig", "thinkingLevel")
        return (
            nested_field(request, "generationConfig", "thinkingConfig", "thinkingBudget")
            if named is None
            else named
        )


def _schema(declared: dict[str, Any]) -> Any:
    known = declared.get("parametersJsonSchema")
    return declared.get("parameters") if known is None else known


def _of_agent(part: dict[str, Any]) -> ConversationEntry:
    if "functionCall" in part:
        call = fields(part["functionCall"])
        return ConversationEntry(
            "agent", uses=(ToolUse(text(call.get("id")), text(call.get("name")), _call_arguments(call)),)
        )
    if part.get("thought") is True:
        return ConversationEntry("agent", reasoning=text(part.get("text")))
    return ConversationEntry("agent", (_piece(part),))


def _call_arguments(call: dict[str, Any]) -> dict[str, Any]:
    return tool_arguments({} if call.get("args") is None else call["args"])


def _result(part: dict[str, Any]) -> ToolResult:
    answered = fields(part.get("functionResponse"))
    response = answered.get("response")
    more = tuple(_piece(fields(item)) for item in items(answered.get("parts")))
    is_error = set(fields(response)) == {"error"}
    return ToolResult(
        text(answered.get("id")), text(answered.get("name")), (_unwrap(response), *more), is_error
    )


def _unwrap(response: Any) -> str:
    inner = response
    for _ in range(_WRAPPED):
        key = next(iter(fields(inner)), "")
        if len(fields(inner)) != 1 or key not in _ONLY_TEXT:
            break
        inner = inner[key]
    return inner if isinstance(inner, str) else text_from_value(response)


def _piece(part: dict[str, Any]) -> Piece:
    if isinstance(part.get("text"), str):
        return text(part["text"])
    if "inlineData" in part:
        return file_from_base64(
            fields(part["inlineData"]).get("mimeType"), fields(part["inlineData"]).get("data")
        )
    if "fileData" in part:
        there = fields(part["fileData"])
        return file_from_url(there.get("fileUri"), text(there.get("mimeType")))
    known = {key: value for key, value in part.items() if key != "thoughtSignature"}
    return text_from_value(known) if known else ""
