"""The frames that come in: cut out one by one, bounded and counted before anybody works on them."""

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
"""Of headers, packed and unpacked. Up to here, what is over MAX_HEADER_BYTES still gets an answer."""

_HEAD_BYTES = 9
_END_STREAM, _END_HEADERS = 0x1, 0x4
_SMALL_BYTES = 64
_CHATTER_PER_SECOND, _CHATTER_BURST = 1000, 5000
"""Frames that cost us more than they cost the client: pings, settings, a body in crumbs."""
_RESETS_PER_SECOND, _RESETS_BURST = 33, 1000
"""Requests taken back. A client may change its mind about all it has asked for, but not all the time."""
_UPDATES_PER_FRAME = 2


@dataclass(frozen=True)
class Frame:
    """One frame as it came, or the preface, which is not one."""

    kind: int | None
    flags: int
    stream_id: int
    raw: bytes

    @property
    def is_goodbye(self) -> bool:
        """Whether the client says that it will ask for nothing more."""
        return self.kind == GoAwayFrame.type and self.stream_id == 0 and len(self.raw) >= _HEAD_BYTES + 8

    @property
    def is_failure(self) -> bool:
        """Of a goodbye: whether the client found fault with us."""
        return int.from_bytes(self.raw[_HEAD_BYTES + 4 : _HEAD_BYTES + 8], "big") != ErrorCodes.NO_ERROR


class FrameMeter:
    """Counts what a client sends beside its requests; raises DenialOfServiceError on too much."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._chatter = Buckets(_CHATTER_PER_SECOND, _CHATTER_BURST, clock)
        self._resets = Buckets(_RESETS_PER_SECOND, _RESETS_BURST, clock)
        self._updates = 0
        self._block_bytes = 0

    def sent(self) -> None:
        """Note that a piece of an answer went out: its taking will be told."""
        self._updates += _UPDATES_PER_FRAME

    def reset(self) -> None:
        """Note that a request was taken back, or that the client made us drop it."""
        if self._resets.take(""):
            raise DenialOfServiceError("too many requests were taken back")

    def frame(self, kind: int, flags: int, length: int) -> None:
        """Note that a frame begins."""
        if length > MAX_FRAME_BYTES:
            raise FrameTooLargeError("a frame is over its limit")
        if kind in (HeadersFrame.type, ContinuationFrame.type):
            self._block(flags, length)
        elif kind == WindowUpdateFrame.type and self._updates:
            self._updates -= 1
        elif kind != DataFrame.type or (length < _SMALL_BYTES and not flags & _END_STREAM):
            self._chat()

    def _block(self, flags: int, length: int) -> None:
        self._block_bytes += length
        if self._block_bytes > MAX_BLOCK_BYTES:
            raise DenialOfServiceError("the headers are over their limit")
        if flags & _END_HEADERS:
            self._block_bytes = 0

    def _chat(self) -> None:
        if self._chatter.take(""):
            raise DenialOfServiceError("too many frames that ask for nothing")


class FrameReader:
    """Bytes in, whole frames out; what is announced as too much is refused before it is kept."""

    def __init__(self, meter: FrameMeter) -> None:
        self._meter = meter
        self._kept = bytearray()
        self._is_begun = False
        self._noted = False

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are whole now; raises h2's ProtocolError at one that must not be."""
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
