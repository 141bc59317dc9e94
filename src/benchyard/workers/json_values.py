"""How many values a JSON text holds, counted piece by piece: a small text can stand for much memory."""

import re

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
