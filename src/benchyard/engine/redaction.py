"""Takes the values of secrets out of what is kept and shown: texts, and files of any size and kind.

A value is known by its very bytes, and as base64 (alone or within something longer), URL-encoded and escaped
for JSON. What is compressed, encrypted, or spelled in another way is not found.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from urllib.parse import quote, quote_plus

from benchyard.models.blueprints import HIDDEN

LEAST_CHARACTERS = 8
"""A shorter value is left alone: it could be guessed anyway, and is found in every other text by chance."""
LEAST_LINE = 16
"""Lines of a value are looked for by themselves from this length on: keys in PEM are printed line by line."""
BATCH_BYTES = 256 * 1024
"""What a stream gathers before it is looked through."""

_HIDDEN = HIDDEN.encode()
_ALIGNMENTS = 3
"""In how many ways base64 can cut bytes that stand within others."""
_WIDTHS = (64, 76)
"""Of the lines in which base64 is printed."""


class Scrubber:
    """Knows some values, and takes them out."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.values = tuple(values)
        """What it knows, to make another one like it in a worker."""
        found = {form for value in self.values for part in _parts(value) for form in _forms(part)}
        self._forms = tuple(sorted(found))
        self.longest = max(map(len, self._forms), default=0)
        """Of all forms, in bytes."""

    def data(self, data: bytes, begin: int = 0) -> bytes:
        """The bytes without the values, from `begin` on; a value that begins before it is known too."""
        return b"".join(_pieces(data, self.places(data, len(data)), begin, len(data)))

    def text(self, text: str) -> str:
        """The text without the values, nor the beginning or end of one where the text was cut off."""
        if not self._forms:
            return text
        data = text.encode(errors="surrogatepass")
        places = [*self._edges(data), *self.places(data, len(data))]
        # No form begins or ends within a character, so that none is left in half.
        return b"".join(_pieces(data, places, 0, len(data))).decode(errors="surrogatepass")

    def stream(self, batch_bytes: int = BATCH_BYTES) -> "ScrubbedStream":
        """For bytes that come piece by piece, looked through so many at a time."""
        return ScrubbedStream(self, batch_bytes)

    async def pieces(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """What comes, without the values."""
        stream = self.stream()
        async for piece in pieces:
            # In a thread: each value is looked for in several forms.
            if clean := await asyncio.to_thread(stream.feed, piece) if self.longest else piece:
                yield clean
        if clean := await asyncio.to_thread(stream.finish):
            yield clean

    def places(self, data: bytes, until: int) -> list[tuple[int, int]]:
        """Where a value is, as begin and end: all that begin before `until`."""
        found = []
        for form in self._forms:
            # One may begin within another.
            at = data.find(form)
            while 0 <= at < until:
                found.append((at, at + len(form)))
                at = data.find(form, at + 1)
        return found

    def _edges(self, data: bytes) -> list[tuple[int, int]]:
        """Where the end of the data is the beginning of a value, or its beginning the end of one."""
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
    """Bytes on their way: however they are cut into pieces, what comes out is the same."""

    def __init__(self, scrubber: Scrubber, batch_bytes: int) -> None:
        self._scrubber = scrubber
        self._batch_bytes = batch_bytes
        self._left = bytearray()
        self._hidden = 0
        """How many bytes at the beginning of what is left belong to a value that was already told of."""

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes; returns what is sure by now."""
        longest = self._scrubber.longest
        if not longest:
            return data
        self._left += data
        if len(self._left) < longest + self._batch_bytes:
            return b""
        # A value that begins before this is there to its end.
        return self._take(len(self._left) - longest + 1)

    def finish(self) -> bytes:
        """There are no more; returns the rest."""
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
    """The places in order, those that overlap as one."""
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
    """The value itself, and its long lines if it has several."""
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
        # A text in JSON within a text in JSON, as logs of calls have it.
        yield json.dumps(once, ensure_ascii=in_ascii)[1:-1]
    for encoded in (quote(text, safe="", errors="replace"), quote(text, errors="replace")):
        yield encoded
        yield _lower_hex(encoded)
    yield quote_plus(text, errors="replace")


def _lower_hex(encoded: str) -> str:
    first, *rest = encoded.split("%")
    return "%".join([first, *(each[:2].lower() + each[2:] for each in rest)])


def _lines(encoded: bytes, width: int) -> Iterator[bytes]:
    """What programs that print base64 make of it."""
    if len(encoded) > width:
        lines = (encoded[at : at + width] for at in range(0, len(encoded), width))
        yield from (line for line in lines if len(line) >= LEAST_LINE)


def _inner(encoded: bytes, shift: int, size: int) -> bytes:
    """The characters that follow from the value alone, whatever stands before and after it."""
    begin = -(-shift * 8 // 6)
    return encoded[begin : (shift + size) * 8 // 6]
