"""Conversations in Google's Gemini."""

from typing import Any

from benchyard.gateway.dialects.gemini import Gemini
from benchyard.gateway.dialects.values import fields, items, text
from benchyard.gateway.trajectory.entries import Entry, Piece, Result, Use, joined
from benchyard.gateway.trajectory.plain import written
from benchyard.gateway.trajectory.reader import Reader, arguments, encoded, function, level, linked

_ONLY_TEXT = ("output", "result", "error", "content", "text")
"""Keys of what a tool answered whose text is all there is to it, if there is nothing else."""
_WRAPPED = 3


class GeminiReader(Reader):
    """A content is a list of parts; calls have names, and ids only of late."""

    def items(self, request: Any) -> list[Any]:
        given = fields(request)
        system = given.get("systemInstruction") or given.get("system_instruction")
        if isinstance(system, str):
            system = {"parts": [{"text": system}]}
        head = [{**fields(system), "role": "system"}] if fields(system) else []
        return [*head, *items(given.get("contents"))]

    def entries(self, item: Any) -> tuple[Entry, ...]:
        parts = [fields(part) for part in items(fields(item).get("parts"))]
        role = fields(item).get("role")
        if role == "model":
            return (joined([_of_agent(part) for part in parts]),)
        results = tuple(_result(part) for part in parts if "functionResponse" in part)
        pieces = tuple(_piece(part) for part in parts if "functionResponse" not in part)
        said = Entry("system" if role == "system" else "user", pieces)
        return tuple(entry for entry in (Entry("tool", results=results), said) if not entry.is_empty)

    def answer(self, response: Any) -> Entry:
        if isinstance(response, list):  # what a stream is without `alt=sse`
            response = Gemini().whole(response)
        candidates = items(fields(response).get("candidates"))
        content = fields(fields(candidates[0]).get("content")) if candidates else {}
        return joined([_of_agent(fields(part)) for part in items(content.get("parts"))])

    def tools(self, request: Any) -> list[dict[str, Any]]:
        offered = fields(request).get("tools")
        groups = [fields(group) for group in (offered if isinstance(offered, list) else [offered])]
        declared = [
            fields(each)
            for group in groups
            for each in items(group.get("functionDeclarations") or group.get("function_declarations"))
        ]
        return [function(each.get("name"), each.get("description"), _schema(each)) for each in declared]

    def effort(self, request: Any) -> Any:
        named = level(request, "generationConfig", "thinkingConfig", "thinkingLevel")
        return (
            level(request, "generationConfig", "thinkingConfig", "thinkingBudget") if named is None else named
        )


def _schema(declared: dict[str, Any]) -> Any:
    known = declared.get("parametersJsonSchema")
    return declared.get("parameters") if known is None else known


def _of_agent(part: dict[str, Any]) -> Entry:
    if "functionCall" in part:
        call = fields(part["functionCall"])
        return Entry("agent", uses=(Use(text(call.get("id")), text(call.get("name")), _given(call)),))
    if part.get("thought") is True:
        return Entry("agent", reasoning=text(part.get("text")))
    return Entry("agent", (_piece(part),))


def _given(call: dict[str, Any]) -> dict[str, Any]:
    return arguments({} if call.get("args") is None else call["args"])


def _result(part: dict[str, Any]) -> Result:
    answered = fields(part.get("functionResponse"))
    response = answered.get("response")
    more = tuple(_piece(fields(each)) for each in items(answered.get("parts")))
    is_error = set(fields(response)) == {"error"}
    return Result(
        text(answered.get("id")), text(answered.get("name")), (_unwrapped(response), *more), is_error
    )


def _unwrapped(response: Any) -> str:
    inner = response
    for _ in range(_WRAPPED):
        key = next(iter(fields(inner)), "")
        if len(fields(inner)) != 1 or key not in _ONLY_TEXT:
            break
        inner = inner[key]
    return inner if isinstance(inner, str) else written(response)


def _piece(part: dict[str, Any]) -> Piece:
    if isinstance(part.get("text"), str):
        return text(part["text"])
    if "inlineData" in part:
        return encoded(fields(part["inlineData"]).get("mimeType"), fields(part["inlineData"]).get("data"))
    if "fileData" in part:
        there = fields(part["fileData"])
        return linked(there.get("fileUri"), text(there.get("mimeType")))
    known = {key: value for key, value in part.items() if key != "thoughtSignature"}
    return written(known) if known else ""
