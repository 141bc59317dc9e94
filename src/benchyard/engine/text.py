"""Bytes of a devbox as text: cut where a character ends, what is not UTF-8 as U+FFFD."""

import codecs
from collections.abc import AsyncIterator

from benchyard.models.executions import OutputChunk

CHUNK_BYTES = 64 * 1024


class Cutter:
    """Turns bytes into text and knows the byte offset at the end of what it has given out."""

    def __init__(self, offset: int) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._read = offset

    def feed(self, data: bytes, *, final: bool = False) -> OutputChunk | None:
        """The next piece of text, or None while only the start of a character is there."""
        text = self._decoder.decode(data, final)
        self._read += len(data)
        if not text:
            return None
        return OutputChunk(output=text, offset=self._read - len(self._decoder.getstate()[0]))


async def chunks(output: AsyncIterator[bytes], offset: int) -> AsyncIterator[OutputChunk]:
    """The text of an output stream, in bounded pieces."""
    cutter = Cutter(offset)
    async for data in output:
        for start in range(0, len(data), CHUNK_BYTES):
            chunk = cutter.feed(data[start : start + CHUNK_BYTES])
            if chunk:
                yield chunk
    last = cutter.feed(b"", final=True)
    if last:
        yield last
