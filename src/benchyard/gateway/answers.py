"""What an answer says, read from its bytes once it has passed through. Pure; the bytes are hostile."""

import json
import re
import zlib
from dataclasses import dataclass
from typing import Any

from benchyard.gateway.calls import Usage
from benchyard.gateway.dialects.base import Dialect
from benchyard.gateway.dialects.events import EventReader
from benchyard.gateway.dialects.values import fields, items, parsed, parsed_list

LONGEST_LINE = 500
MOST_DECODED = 256 * 1024 * 1024
"""Of what a compressed answer or request may come to."""
READABLE = ("gzip", "deflate", "identity")
"""Encodings that can be read for the record."""
WRONG = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    RecursionError,
    OverflowError,
    zlib.error,
)
"""What reading something that was made to be unreadable can raise."""
_DATA = re.compile(rb"^data:(.*)", re.MULTILINE)
_LINE = rb"(?:(?:data|event|id|retry)?:[^\n]*|[^\S\n]*)"
_PLAIN = re.compile(rb"(?>" + _LINE + rb"\n)*+" + _LINE)
"""Lines of a stream that are fields, or empty."""
_ENDS = {
    "anthropic": ("message_stop",),
    "responses": ("response.completed", "response.incomplete", "response.failed"),
}
"""Which events end a stream; in other dialects an answer says why it is finished."""


@dataclass(frozen=True)
class Said:
    """What was understood of an answer."""

    response: Any = None
    usage: Usage | None = None
    """As far as it was told: what broke off may have used more."""
    error: str | None = None
    is_whole: bool = False
    """Whether it came to its end: then it used what it says, and no more."""


def understood(dialect: Dialect, status: int, kind: str, data: bytes, *, bare: bool = False) -> Said:
    """What an answer of this status and content type says; if `bare`, a stream's without its content."""
    try:
        return _understood(dialect, status, kind, data, bare=bare)
    except WRONG as error:
        if status >= 400:
            return Said(data.decode(errors="replace")[:LONGEST_LINE], error=f"HTTP {status}")
        return Said(error=_line(f"the answer cannot be read: {type(error).__name__}: {error}"))


def _understood(dialect: Dialect, status: int, kind: str, data: bytes, *, bare: bool) -> Said:
    if kind.startswith("text/event-stream"):
        return _of_stream(dialect, data, bare=bare)
    response = parsed(data)
    if isinstance(response, list):
        response = dialect.whole(response) if status < 400 else next(iter(response), None)
    if status >= 400:
        return Said(response, error=_line(f"HTTP {status}: {_reason(response)}"))
    return Said(response, dialect.usage(response), is_whole=True)


def _of_stream(dialect: Dialect, data: bytes, *, bare: bool) -> Said:
    heard, broken = _events(data)
    failed = None
    if b'"error"' in data or b"failed" in data:
        failed = next((_reason(event) for event in heard if _is_error(event)), None)
    response = dialect.whole(dialect.bare(heard) if bare else heard)
    usage = dialect.usage(response)
    if failed is not None:
        return Said(response, usage, _line(failed), is_whole=True)
    if broken:
        return Said(response, usage, "the stream is broken: some of it is no event")
    if not _is_whole(dialect.name, heard):
        return Said(response, usage, "the stream broke off")
    return Said(response, usage, is_whole=True)


def _events(data: bytes) -> tuple[list[Any], int]:
    """The events of a stream, and how much of it could not be read."""
    told = _DATA.findall(data)
    if told and told[-1].strip() == b"[DONE]":
        told.pop()
    try:
        # Nearly always each event has one line of data: then they are one list, which is read at once.
        heard = parsed_list(told)
    except ValueError:
        heard = []
    if heard and _PLAIN.fullmatch(data):
        return heard, 0
    reader = EventReader()
    return [*reader.feed(data), *reader.end()], reader.broken


def _is_error(event: Any) -> bool:
    said = fields(event)
    return said.get("type") in ("error", "response.failed") or bool(said.get("error"))


def _is_whole(name: str, events: list[Any]) -> bool:
    if ends := _ENDS.get(name):
        return any(fields(event).get("type") in ends for event in reversed(events))
    return any(map(_is_last, reversed(events)))


def _is_last(event: Any) -> bool:
    said = fields(event)
    choices = [fields(choice) for key in ("choices", "candidates") for choice in items(said.get(key))]
    finished = any(choice.get("finish_reason") or choice.get("finishReason") for choice in choices)
    return finished or "promptFeedback" in said


def _reason(response: Any) -> str:
    """What an answer or event that tells of a failure gives as its reason."""
    found = response
    for key in ("response", "error", "message"):
        if isinstance(found, dict) and found.get(key):
            found = found[key]
    return found if isinstance(found, str) else json.dumps(found)


def _line(text: str) -> str:
    # Halves of characters, which JSON can hold, are no text for anybody else.
    return " ".join(text.split())[:LONGEST_LINE].encode(errors="replace").decode()


def decoded(data: bytes, encoding: str | None) -> bytes:
    """The content of a body in an encoding that we read, as far as it came; raises ValueError."""
    if encoding in (None, "", "identity"):
        return data
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise ValueError(f"the encoding {encoding[:40]!r} is not read")
    inflating = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        content = inflating.decompress(data, MOST_DECODED)
    except zlib.error as error:
        raise ValueError(f"the compressed body is broken: {error}") from error
    if inflating.unconsumed_tail:
        raise ValueError("the compressed body comes to more than is read")
    return content
