"""Server-sent events, read as they come, in whatever pieces."""

from typing import Any

from benchyard.gateway.dialects.values import parsed

MOST_BYTES = 64 * 1024**2
"""Of one event; the largest that was ever seen carry a picture, or a whole answer once more."""
_MARK = b"\xef\xbb\xbf"
_QUIET = frozenset((b"event", b"id", b"retry"))
"""Fields that say nothing a dialect needs: each event's data names its own type."""
_DONE = b"[DONE]"


class EventReader:
    """Makes JSON of a stream of events; what is no JSON, or too large, is counted and left out."""

    broken: int
    """Events and lines that could not be read."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.broken = 0
        self._most = most_bytes
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._size = 0
        self._begun = False
        self._after_return = False

    def feed(self, data: bytes) -> list[Any]:
        """The events that these bytes complete."""
        if self._after_return and data:
            data = data.removeprefix(b"\n")
            self._after_return = False
        found: list[Any] = []
        for piece in data.splitlines(keepends=True):
            line = piece.rstrip(b"\r\n")
            self._take(line)
            if len(line) < len(piece):
                self._end_line(found)
        self._after_return = self._after_return or data.endswith(b"\r")
        return found

    def end(self) -> list[Any]:
        """What a stream held that ended without saying so; nothing is fed after that."""
        found: list[Any] = []
        if self._line:
            self._end_line(found)
        self._end_event(found)
        return found

    def _take(self, piece: bytes) -> None:
        """Keep a piece of a line; of an event that is too large only the line's beginning."""
        self._size += len(piece)
        if piece and (self._size <= self._most or not self._line):
            self._line.append(piece[: self._most])

    def _end_line(self, found: list[Any]) -> None:
        line = b"".join(self._line)
        self._line = []
        if not self._begun:
            line, self._begun = line.removeprefix(_MARK), True
        if not line:
            self._end_event(found)
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

    def _end_event(self, found: list[Any]) -> None:
        data, too_large = self._data, self._size > self._most
        self._data, self._size = [], 0
        if too_large:
            self.broken += 1
        elif data and (whole := b"\n".join(data)).strip() != _DONE:
            try:
                found.append(parsed(whole))
            except ValueError:
                self.broken += 1
