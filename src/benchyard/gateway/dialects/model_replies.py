"""Replies of models, read from their recorded bytes, which may be hostile. Pure."""

import json
import re
import zlib
from dataclasses import dataclass
from typing import Any

from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.dialects.base import Dialect
from benchyard.gateway.dialects.values import fields, items, parse_json, parse_json_list

MOST_EVENT_BYTES = 64 * 1024**2
"""Largest event, in bytes; the largest known ones carry a picture, or a whole reply once more."""
_MARK = b"\xef\xbb\xbf"
_QUIET = frozenset((b"event", b"id", b"retry"))
"""Fields that no dialect needs: each event's data names its own type."""
_DONE = b"[DONE]"


class EventReader:
    """Parser of event streams into JSON; invalid or oversized events are counted and left out."""

    broken: int
    """Number of events and lines that could not be read."""

    def __init__(self, most_bytes: int = MOST_EVENT_BYTES) -> None:
        self.broken = 0
        self._most = most_bytes
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._size = 0
        self._begun = False
        self._after_return = False

    def feed(self, data: bytes) -> list[Any]:
        """Return the events that these bytes complete."""
        if self._after_return and data:
            data = data.removeprefix(b"\n")
            self._after_return = False
        events: list[Any] = []
        for piece in data.splitlines(keepends=True):
            line = piece.rstrip(b"\r\n")
            self._take(line)
            if len(line) < len(piece):
                self._end_line(events)
        self._after_return = self._after_return or data.endswith(b"\r")
        return events

    def end(self) -> list[Any]:
        """Return the events left at the end of a stream; nothing may be fed afterwards."""
        events: list[Any] = []
        if self._line:
            self._end_line(events)
        self._end_event(events)
        return events

    def _take(self, piece: bytes) -> None:
        """Keep a piece of a line; of an oversized event keep only the beginning of the line."""
        self._size += len(piece)
        if piece and (self._size <= self._most or not self._line):
            self._line.append(piece[: self._most])

    def _end_line(self, events: list[Any]) -> None:
        line = b"".join(self._line)
        self._line = []
        if not self._begun:
            line, self._begun = line.removeprefix(_MARK), True
        if not line:
            self._end_event(events)
        elif self._size > self._most:
            self._data = []
        else:
            self._read(line)

    def _read(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name and name not in _QUIET:
            self.broken += 1

    def _end_event(self, events: list[Any]) -> None:
        data, too_large = self._data, self._size > self._most
        self._data, self._size = [], 0
        if too_large:
            self.broken += 1
        elif data and (whole := b"\n".join(data)).strip() != _DONE:
            try:
                events.append(parse_json(whole))
            except ValueError:
                self.broken += 1


LONGEST_LINE = 500
MOST_DECODED = 256 * 1024 * 1024
"""Largest size to which a compressed reply or request may expand."""
READABLE_ENCODINGS = ("gzip", "deflate", "identity")
"""Encodings that can be decoded for the record."""
READING_ERRORS = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    RecursionError,
    OverflowError,
    zlib.error,
)
"""Errors that reading hostile data can raise."""
_DATA = re.compile(rb"^data:(.*)", re.MULTILINE)
_LINE = rb"(?:(?:data|event|id|retry)?:[^\n]*|[^\S\n]*)"
_PLAIN = re.compile(rb"(?>" + _LINE + rb"\n)*+" + _LINE)
"""Lines of a stream that are fields or empty."""
_ENDS = {
    "anthropic": ("message_stop",),
    "responses": ("response.completed", "response.incomplete", "response.failed"),
}
"""Events that end a stream; in other dialects the reply holds a finish reason."""


@dataclass(frozen=True)
class ReplyContent:
    """Parsed content of a reply."""

    response: Any = None
    usage: TokenUsage | None = None
    """Reported usage; a reply that broke off may have used more."""
    error: str | None = None
    is_whole: bool = False
    """True if the reply came to its end, so that its usage is complete."""


def read_answer(dialect: Dialect, status: int, kind: str, data: bytes, *, bare: bool = False) -> ReplyContent:
    """Parse a reply of this status and content type; `bare` drops the content of a stream."""
    try:
        return _read_answer(dialect, status, kind, data, bare=bare)
    except READING_ERRORS as error:
        if status >= 400:
            return ReplyContent(data.decode(errors="replace")[:LONGEST_LINE], error=f"HTTP {status}")
        return ReplyContent(error=_line(f"the answer cannot be read: {type(error).__name__}: {error}"))


def _read_answer(dialect: Dialect, status: int, kind: str, data: bytes, *, bare: bool) -> ReplyContent:
    if kind.startswith("text/event-stream"):
        return _of_stream(dialect, data, bare=bare)
    response = parse_json(data)
    if isinstance(response, list):
        response = dialect.whole(response) if status < 400 else next(iter(response), None)
    if status >= 400:
        return ReplyContent(response, error=_line(f"HTTP {status}: {_reason(response)}"))
    return ReplyContent(response, dialect.usage(response), is_whole=True)


def _of_stream(dialect: Dialect, data: bytes, *, bare: bool) -> ReplyContent:
    heard, broken = _events(data)
    failed = None
    if b'"error"' in data or b"failed" in data:
        failed = next((_reason(event) for event in heard if _is_error(event)), None)
    response = dialect.whole(dialect.bare(heard) if bare else heard)
    usage = dialect.usage(response)
    if failed is not None:
        return ReplyContent(response, usage, _line(failed), is_whole=True)
    if broken:
        return ReplyContent(response, usage, "the stream is broken: a part of it is not an event")
    if not _is_whole(dialect.name, heard):
        return ReplyContent(response, usage, "the stream broke off")
    return ReplyContent(response, usage, is_whole=True)


def _events(data: bytes) -> tuple[list[Any], int]:
    """Return the events of a stream, and how many pieces of it could not be read."""
    pieces = _DATA.findall(data)
    if pieces and pieces[-1].strip() == b"[DONE]":
        pieces.pop()
    try:
        # Usually each event has one line of data, so that all of them can be parsed as one list.
        heard = parse_json_list(pieces)
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
    """Return the reason that a failed reply or event gives."""
    reason = response
    for key in ("response", "error", "message"):
        if isinstance(reason, dict) and reason.get(key):
            reason = reason[key]
    return reason if isinstance(reason, str) else json.dumps(reason)


def _line(text: str) -> str:
    # JSON can hold lone surrogates, which cannot be encoded as text.
    return " ".join(text.split())[:LONGEST_LINE].encode(errors="replace").decode()


def decode_body(data: bytes, encoding: str | None) -> bytes:
    """Decode a body as far as it arrived; raises ValueError for an unknown encoding or broken data."""
    if encoding in (None, "", "identity"):
        return data
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise ValueError(f"the encoding {encoding[:40]!r} is not supported")
    inflating = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        content = inflating.decompress(data, MOST_DECODED)
    except zlib.error as error:
        raise ValueError(f"the compressed body is broken: {error}") from error
    if inflating.unconsumed_tail:
        raise ValueError("the compressed body is too large when it is decompressed")
    return content
