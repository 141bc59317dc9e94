"""Texts in JSON, parsed by workers and counted piece by piece: of the standard library alone.

A worker hands on what a text says in the interpreter's own form, which is read in a fraction of the time.
"""

import hashlib
import json
import marshal
import re
from dataclasses import dataclass
from typing import Any, BinaryIO, Self


@dataclass(frozen=True)
class ParsedJson:
    """What a worker made of a body."""

    digest: str
    """The same for every way of writing it; of the bytes where they are no JSON."""
    value: Any = None
    reason: str | None = None
    """Why it is no JSON, if it is none."""
    place: int = 0
    """Where that was found."""

    @classmethod
    def of(cls, data: bytes) -> Self:
        """As a worker handed it on, a process of our own: nobody else can write this form."""
        return cls(**marshal.loads(data))  # noqa: S302


def parse(content: BinaryIO) -> bytes:
    """A body, parsed."""
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


# The closing quote may be missing: then the string goes on in the next piece. No step is ever tried twice.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_END = b"\0"


class ValueCount:
    """Counts brackets and commas outside of strings; there are never more values than those, plus one."""

    def __init__(self) -> None:
        self._count = 1
        self._open = b""

    def feed(self, data: bytes) -> int:
        """Take the next piece; returns how many values there can be so far."""
        data = self._open + data
        outside = _STRING.sub(b"", data + _END)
        is_in_string = not outside.endswith(_END)
        backslashes = len(data) - len(data.rstrip(b"\\"))
        self._open = (b'"\\' if backslashes % 2 else b'"') if is_in_string else b""
        self._count += outside.count(b",") + outside.count(b"[") + outside.count(b"{")
        return self._count
