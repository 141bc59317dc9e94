"""JSON texts, parsed by workers and counted piece by piece, with the standard library alone.

A worker returns the value in the interpreter's own format, which is read in a fraction of the time.
"""

import hashlib
import json
import marshal
import re
from dataclasses import dataclass
from typing import Any, BinaryIO, Self


@dataclass(frozen=True)
class ParsedJson:
    """The value or the error of a body parsed by a worker."""

    digest: str
    """Digest of the value, equal for every spelling of it; for invalid JSON, digest of the bytes."""
    value: Any = None
    reason: str | None = None
    """Error message if the body is invalid JSON."""
    place: int = 0
    """Position of the error."""

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Read a worker's result, made by one of our own processes: no other party can write this form."""
        return cls(**marshal.loads(data))  # noqa: S302


def parse(content: BinaryIO) -> bytes:
    """Parse a body."""
    data = content.read()
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        place = error.pos if isinstance(error, json.JSONDecodeError) else 0
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)[:200]
        digest = hashlib.sha256(data).hexdigest()
        return marshal.dumps({"digest": digest, "reason": reason, "place": place})
    del data
    canonical = hashlib.sha256()
    for piece in json.JSONEncoder(sort_keys=True, separators=(",", ":")).iterencode(value):
        canonical.update(piece.encode())
    return marshal.dumps({"digest": canonical.hexdigest(), "value": value})


# The closing quote may be missing if the string continues in the next piece. The pattern never backtracks.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_END = b"\0"


class ValueCount:
    """Counter of brackets and commas outside of strings; a text has at most that many values, plus one."""

    def __init__(self) -> None:
        self._count = 1
        self._open = b""

    def feed(self, data: bytes) -> int:
        """Read the next piece; return the largest number of values there can be so far."""
        data = self._open + data
        outside = _STRING.sub(b"", data + _END)
        is_in_string = not outside.endswith(_END)
        backslashes = len(data) - len(data.rstrip(b"\\"))
        self._open = (b'"\\' if backslashes % 2 else b'"') if is_in_string else b""
        self._count += outside.count(b",") + outside.count(b"[") + outside.count(b"{")
        return self._count
