"""Requests for logprobs and token ids on an agent's behalf, kept from the agent; dialect `chat`. Pure."""

import json
from typing import Any

from benchyard.gateway.dialects.values import fields, is_dense, items, parse_json

_MOST_EVENT = 16 * 1024 * 1024
"""Largest event that is parsed, in bytes; a larger one passes unchanged."""
_MOST_WHOLE = 64 * 1024 * 1024
_ASKED = ("logprobs", "return_token_ids")


def request_with_logprobs(body: bytes) -> tuple[bytes, frozenset[str]]:
    """Add the fields to a request; return the new body, and the fields that the agent had not set itself.

    What is no request, or has more values than any, passes unchanged.
    """
    if is_dense(body):
        return body, frozenset()
    try:
        request = parse_json(body)
    except ValueError:
        return body, frozenset()
    if not isinstance(request, dict):
        return body, frozenset()
    added = frozenset(name for name in _ASKED if name not in request)
    if not added:
        return body, added
    if json.detect_encoding(body) != "utf-8":
        return json.dumps({**request, **dict.fromkeys(added, True)}).encode(), added
    # Written behind the others: a request is large, and to write it anew takes as long as to parse it.
    fields_added = ", ".join(f'"{name}": true' for name in sorted(added)).encode()
    return body.rstrip()[:-1] + (b", " if request else b"") + fields_added + b"}", added


def answer_without(answer: bytes, added: frozenset[str]) -> bytes:
    """Return an answer without the data that the agent did not ask for."""
    try:
        read = parse_json(answer)
    except ValueError:
        return answer
    return json.dumps(read).encode() if _strip(read, added) else answer


def _strip(answer: Any, added: frozenset[str]) -> bool:
    """Remove data that the agent did not ask for; tell whether there was any."""
    was_changed = False
    for choice in map(fields, items(fields(answer).get("choices"))):
        if "logprobs" in added and choice.get("logprobs") is not None:
            choice["logprobs"] = None
            was_changed = True
        if "return_token_ids" in added:
            was_changed = choice.pop("token_ids", None) is not None or was_changed
    if "return_token_ids" in added:
        was_changed = fields(answer).pop("prompt_token_ids", None) is not None or was_changed
    return was_changed


def stripper_of(added: frozenset[str], kind: str) -> "EventStripper | WholeStripper | None":
    """Return a stripper for an answer of this content type; None if nothing must be removed."""
    if not added:
        return None
    return EventStripper(added) if kind.startswith("text/event-stream") else WholeStripper(added)


class WholeStripper:
    """Stripper for an answer that is one JSON value."""

    def __init__(self, added: frozenset[str]) -> None:
        self._added = added
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> bytes:
        """Return the bytes to pass on: empty before the end, unless the answer is too large to be held."""
        self._pieces.append(chunk)
        self._size += len(chunk)
        if self._size <= _MOST_WHOLE:
            return b""
        return self._take_pieces()

    def end(self) -> bytes:
        """Return the rest of the answer, stripped."""
        return answer_without(self._take_pieces(), self._added)

    def _take_pieces(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


class EventStripper:
    """Stripper for a stream, event by event."""

    def __init__(self, added: frozenset[str]) -> None:
        self._added = added
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> bytes:
        """Return the bytes to pass on."""
        self._rest += chunk
        end = self._rest.rfind(b"\n") + 1
        if not end and len(self._rest) > _MOST_EVENT:
            end = len(self._rest)
        whole, self._rest = bytes(self._rest[:end]), self._rest[end:]
        return b"".join(self._line(line) for line in whole.splitlines(keepends=True))

    def end(self) -> bytes:
        """Return the rest of a stream that ended."""
        rest, self._rest = bytes(self._rest), bytearray()
        return self._line(rest)

    def _line(self, line: bytes) -> bytes:
        if not line.startswith(b"data:"):
            return line
        content = line[5:].rstrip(b"\r\n")
        stripped = answer_without(content, self._added)
        if stripped == content:
            return line
        return b"data: " + stripped + line[len(line.rstrip(b"\r\n")) :]
