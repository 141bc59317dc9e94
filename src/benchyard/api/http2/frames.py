"""Frames of a client: separated, limited and counted before they are processed."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from h2.errors import ErrorCodes
from h2.exceptions import DenialOfServiceError, FrameTooLargeError
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    WindowUpdateFrame,
)

from benchyard.api.middleware.limits import MAX_HEADER_BYTES
from benchyard.api.middleware.rates import Buckets

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_FRAME_BYTES = 16 * 1024
MAX_BLOCK_BYTES = 2 * MAX_HEADER_BYTES
"""Limit for headers, packed or unpacked. Below it, headers over MAX_HEADER_BYTES still get an answer."""

_HEAD_BYTES = 9
_END_STREAM, _END_HEADERS = 0x1, 0x4
_SMALL_BYTES = 64
_CHATTER_PER_SECOND, _CHATTER_BURST = 1000, 5000
"""Limit for frames that cost more to process than to send: pings, settings, bodies in tiny pieces."""
_RESETS_PER_SECOND, _RESETS_BURST = 33, 1000
"""Limit for reset requests. A client may reset all of its requests at times, but not continually."""
_UPDATES_PER_FRAME = 2


@dataclass(frozen=True)
class Frame:
    """A frame as received, or the connection preface, which has no kind."""

    kind: int | None
    flags: int
    stream_id: int
    raw: bytes

    @property
    def is_goodbye(self) -> bool:
        """True if the client announces that it will send no more requests."""
        return self.kind == GoAwayFrame.type and self.stream_id == 0 and len(self.raw) >= _HEAD_BYTES + 8

    @property
    def is_failure(self) -> bool:
        """True if a goodbye reports an error of this server."""
        return int.from_bytes(self.raw[_HEAD_BYTES + 4 : _HEAD_BYTES + 8], "big") != ErrorCodes.NO_ERROR


class FrameMeter:
    """Counts frames beside requests; raises DenialOfServiceError if there are too many."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._chatter = Buckets(_CHATTER_PER_SECOND, _CHATTER_BURST, clock)
        self._resets = Buckets(_RESETS_PER_SECOND, _RESETS_BURST, clock)
        self._updates = 0
        self._block_bytes = 0

    def sent(self) -> None:
        """Note a sent piece of an answer: the client will acknowledge it with window updates."""
        self._updates += _UPDATES_PER_FRAME

    def reset(self) -> None:
        """Note a request that the client reset, or made us reset."""
        if self._resets.take(""):
            raise DenialOfServiceError("too many requests were reset")

    def frame(self, kind: int, flags: int, length: int) -> None:
        """Note the beginning of a frame; raise an error if the frame is over a limit."""
        if length > MAX_FRAME_BYTES:
            raise FrameTooLargeError("a frame is too large")
        if kind in (HeadersFrame.type, ContinuationFrame.type):
            self._block(flags, length)
        elif kind == WindowUpdateFrame.type and self._updates:
            self._updates -= 1
        elif kind != DataFrame.type or (length < _SMALL_BYTES and not flags & _END_STREAM):
            self._chat()

    def _block(self, flags: int, length: int) -> None:
        self._block_bytes += length
        if self._block_bytes > MAX_BLOCK_BYTES:
            raise DenialOfServiceError("the headers are too large")
        if flags & _END_HEADERS:
            self._block_bytes = 0

    def _chat(self) -> None:
        if self._chatter.take(""):
            raise DenialOfServiceError("too many frames without a request")


class FrameReader:
    """Splits received bytes into frames, refusing an oversized frame before it is buffered."""

    def __init__(self, meter: FrameMeter) -> None:
        self._meter = meter
        self._kept = bytearray()
        self._is_begun = False
        self._noted = False

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete now; raises h2's ProtocolError at a forbidden one."""
        self._kept += data
        while (frame := self._next()) is not None:
            yield frame

    def _next(self) -> Frame | None:
        if not self._is_begun:
            return self._preface()
        if len(self._kept) < _HEAD_BYTES:
            return None
        length, kind, flags = int.from_bytes(self._kept[:3], "big"), self._kept[3], self._kept[4]
        if not self._noted:
            self._meter.frame(kind, flags, length)
            self._noted = True
        if len(self._kept) < _HEAD_BYTES + length:
            return None
        self._noted = False
        stream_id = int.from_bytes(self._kept[5:9], "big") & 0x7FFFFFFF
        return Frame(kind, flags, stream_id, self._cut(_HEAD_BYTES + length))

    def _preface(self) -> Frame | None:
        if len(self._kept) < len(PREFACE):
            return None
        self._is_begun = True
        return Frame(None, 0, 0, self._cut(len(PREFACE)))

    def _cut(self, size: int) -> bytes:
        raw = bytes(self._kept[:size])
        del self._kept[:size]
        return raw
