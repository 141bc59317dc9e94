"""Removes the values of secrets from stored and shown data: texts, and files of any size and kind.

A value is found as its very bytes, and as base64 (alone or within something longer), URL-encoded and escaped
for JSON. Values that are compressed, encrypted or spelled in another way are not found.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from urllib.parse import quote, quote_plus

from benchyard.models.blueprints import HIDDEN

LEAST_CHARACTERS = 8
"""Fewest characters of a redacted value: a shorter one can be guessed, and is found in any text by chance."""
LEAST_LINE = 16
"""Fewest characters of a line of a value that is redacted by itself: keys in PEM are printed line by line."""
BATCH_BYTES = 256 * 1024
"""Bytes that a stream gathers before it searches them."""

_HIDDEN = HIDDEN.encode()
_ALIGNMENTS = 3
"""Ways in which base64 can split bytes that are part of a longer text."""
_WIDTHS = (64, 76)
"""Widths of the lines in which base64 is printed."""


class Scrubber:
    """Finds and removes some values."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.values = tuple(values)
        """The values, to make an equal scrubber in a worker."""
        found = {form for value in self.values for part in _parts(value) for form in _forms(part)}
        self._forms = tuple(sorted(found))
        self.longest = max(map(len, self._forms), default=0)
        """Length of the longest form of any value, in bytes."""

    def data(self, data: bytes, begin: int = 0) -> bytes:
        """Return the bytes from `begin` on without the values; also without one that begins before it."""
        return self.part(data, begin, len(data))

    def part(self, data: bytes, begin: int, end: int) -> bytes:
        """Return a part of the bytes without the values; also without those that only begin or end in it."""
        return b"".join(_pieces(data, self.places(data, len(data)), begin, end))

    def text(self, text: str) -> str:
        """Return the text without the values; also without parts of a value where the text was cut off."""
        if not self._forms:
            return text
        data = text.encode(errors="surrogatepass")
        places = [*self._edges(data), *self.places(data, len(data))]
        # No form begins or ends within a character, so no character is left in half.
        return b"".join(_pieces(data, places, 0, len(data))).decode(errors="surrogatepass")

    def stream(self, batch_bytes: int = BATCH_BYTES) -> "ScrubbedStream":
        """Return a scrubber for bytes that come piece by piece, searched in batches of this size."""
        return ScrubbedStream(self, batch_bytes)

    async def pieces(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the pieces without the values."""
        stream = self.stream()
        async for piece in pieces:
            # In a thread: each value is searched in several forms.
            if clean := await asyncio.to_thread(stream.feed, piece) if self.longest else piece:
                yield clean
        if clean := await asyncio.to_thread(stream.finish):
            yield clean

    def places(self, data: bytes, until: int) -> list[tuple[int, int]]:
        """Return begin and end of each value that begins before `until`."""
        found = []
        for form in self._forms:
            # Values may overlap.
            at = data.find(form)
            while 0 <= at < until:
                found.append((at, at + len(form)))
                at = data.find(form, at + 1)
        return found

    def _edges(self, data: bytes) -> list[tuple[int, int]]:
        """Return where the data ends with the beginning of a value, or begins with the end of one."""
        found = []
        for form in self._forms:
            for size in range(min(len(form) - 1, len(data)), LEAST_CHARACTERS - 1, -1):
                if data.endswith(form[:size]):
                    found.append((len(data) - size, len(data)))
                    break
            for size in range(min(len(form) - 1, len(data)), LEAST_CHARACTERS - 1, -1):
                if data.startswith(form[-size:]):
                    found.append((0, size))
                    break
        return found


class ScrubbedStream:
    """Scrubber for a stream of bytes; the result does not depend on how they are cut into pieces."""

    def __init__(self, scrubber: Scrubber, batch_bytes: int) -> None:
        self._scrubber = scrubber
        self._batch_bytes = batch_bytes
        self._left = bytearray()
        self._hidden = 0
        """Number of bytes at the beginning of the rest that belong to a value already replaced."""

    def feed(self, data: bytes) -> bytes:
        """Add the next bytes; return those that cannot be part of a longer value any more."""
        longest = self._scrubber.longest
        if not longest:
            return data
        self._left += data
        if len(self._left) < longest + self._batch_bytes:
            return b""
        # A value that begins before this index is complete.
        return self._take(len(self._left) - longest + 1)

    def finish(self) -> bytes:
        """End the stream; return the rest."""
        return self._take(len(self._left))

    def _take(self, until: int) -> bytes:
        data = bytes(self._left)
        before = [(0, self._hidden)] if self._hidden else []
        merged = list(_merge([*before, *self._scrubber.places(data, until)]))
        out = b"".join(_pieces(data, merged, 0, until))
        if self._hidden:
            out = out.removeprefix(_HIDDEN)
        self._hidden = max(0, merged[-1][1] - until) if merged else 0
        del self._left[:until]
        return out


def _pieces(data: bytes, places: Iterable[tuple[int, int]], begin: int, end: int) -> Iterator[bytes]:
    at = begin
    for start, stop in _merge(places):
        if stop <= begin or start >= end:
            continue
        yield data[at : max(at, start)]
        yield _HIDDEN
        at = max(at, stop)
    yield data[at:end]


def _merge(places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the places in order, with overlapping ones joined."""
    current: tuple[int, int] | None = None
    for start, stop in sorted(places):
        if current is not None and start < current[1]:
            current = (current[0], max(current[1], stop))
            continue
        if current is not None:
            yield current
        current = (start, stop)
    if current is not None:
        yield current


def _parts(value: str) -> set[str]:
    """Return the value itself, and its long lines if it has several."""
    lines = value.splitlines()
    found = {value, value.strip()}
    if len(lines) > 1:
        found |= {line.strip() for line in lines if len(line.strip()) >= LEAST_LINE}
    return {each for each in found if len(each.strip()) >= LEAST_CHARACTERS}


def _forms(text: str) -> Iterator[bytes]:
    data = text.encode(errors="surrogatepass")
    yield data
    for escaped in _escapes(text):
        yield escaped.encode(errors="surrogatepass")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        alone = encode(data)
        yield alone
        yield alone.rstrip(b"=")
        for width in _WIDTHS:
            yield from _lines(_inner(alone, 0, len(data)), width)
        for shift in range(_ALIGNMENTS):
            yield _inner(encode(bytes(shift) + data), shift, len(data))


def _escapes(text: str) -> Iterator[str]:
    for in_ascii in (True, False):
        once = json.dumps(text, ensure_ascii=in_ascii)[1:-1]
        yield once
        yield once.replace("/", "\\/")
        # JSON text within JSON text, as in logs of calls.
        yield json.dumps(once, ensure_ascii=in_ascii)[1:-1]
    for encoded in (quote(text, safe="", errors="replace"), quote(text, errors="replace")):
        yield encoded
        first, *rest = encoded.split("%")
        yield "%".join([first, *(part[:2].lower() + part[2:] for part in rest)])
    yield quote_plus(text, errors="replace")


def _lines(encoded: bytes, width: int) -> Iterator[bytes]:
    """Yield the lines in which programs print base64 at this width."""
    if len(encoded) > width:
        lines = (encoded[at : at + width] for at in range(0, len(encoded), width))
        yield from (line for line in lines if len(line) >= LEAST_LINE)


def _inner(encoded: bytes, shift: int, size: int) -> bytes:
    """Return the base64 characters that depend on the value alone, whatever bytes surround it."""
    begin = -(-shift * 8 // 6)
    return encoded[begin : (shift + size) * 8 // 6]
