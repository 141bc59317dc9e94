"""Google's Gemini: `generateContent` and `streamGenerateContent`."""

import urllib.parse
from collections.abc import Iterable
from typing import Any, ClassVar

from benchyard.gateway.calls import Usage
from benchyard.gateway.dialects.base import STATUS, Dialect, Refusal
from benchyard.gateway.dialects.values import count, fields, is_count, items, text

MOST_CANDIDATES = 128
STREAMING = ":streamGenerateContent"
_JOINED = {"text", "thought", "thoughtSignature"}
"""What a part may have that can be joined with the next one."""
_ERRORS: dict[Refusal, str] = {
    "auth": "UNAUTHENTICATED",
    "forbidden": "PERMISSION_DENIED",
    "budget": "FAILED_PRECONDITION",
    "too_large": "INVALID_ARGUMENT",
    "bad_request": "INVALID_ARGUMENT",
    "unavailable": "UNAVAILABLE",
}
"""No `RESOURCE_EXHAUSTED` for a budget: clients try again after that."""


class Gemini(Dialect):
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

    def usage(self, response: Any) -> Usage | None:
        if isinstance(response, list):  # what a stream is without `alt=sse`
            response = self.whole(response)
        used = fields(fields(response).get("usageMetadata"))
        if not any(is_count(used.get(key)) for key in ("promptTokenCount", "candidatesTokenCount")):
            return None
        thought = count(used.get("thoughtsTokenCount"))
        return Usage(
            input_tokens=count(used.get("promptTokenCount")) + count(used.get("toolUsePromptTokenCount")),
            output_tokens=count(used.get("candidatesTokenCount")) + thought,
            cached_tokens=count(used.get("cachedContentTokenCount")),
            reasoning_tokens=thought,
        )

    def refusal(self, kind: Refusal, message: str) -> Any:
        return {"error": {"code": STATUS[kind], "message": message, "status": _ERRORS[kind]}}


class _Candidate:
    """One of the answers, put together event by event."""

    def __init__(self) -> None:
        self._candidate: dict[str, Any] = {}
        self._content: dict[str, Any] = {}
        self._parts: list[dict[str, Any]] = []
        self._texts: list[list[str]] = []
        """For each part the pieces of its text; none if it is no text."""

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
        """Whether a part is more of the same text; one that has its signature is complete."""
        last = self._parts[-1]
        if not isinstance(part.get("text"), str) or not self._texts[-1] or text(last.get("thoughtSignature")):
            return False
        return set(part) | set(last) <= _JOINED and bool(part.get("thought")) == bool(last.get("thought"))
