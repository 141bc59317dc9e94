"""One request and its answer, on one stream of a connection."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from h2.errors import ErrorCodes
from starlette.types import ASGIApp, Message, Scope

from benchyard.api.http2.heads import Header, answered
from benchyard.api.http2.wire import Wire
from benchyard.api.log import logger

_MAX_UNWANTED_BYTES = 64 * 1024**2
_BODILESS = (204, 304)
_DISCONNECT: Message = {"type": "http.disconnect"}


@dataclass(frozen=True)
class Terms:
    """What holds for all streams of a connection."""

    wire: Wire
    seconds: float
    """How long a client may take nothing of an answer."""
    default_headers: Callable[[], list[Header]]
    on_change: Callable[["Stream"], None]
    """Called whenever one of the stream's sides has ended."""


class Stream:
    """What the app receives and sends; it holds what the client may send ahead, and a piece of the answer."""

    def __init__(self, stream_id: int, terms: Terms) -> None:
        self.id = stream_id
        self.is_whole = False
        """The request has come in to its end."""
        self.is_answered = False
        self.is_gone = False
        self._terms = terms
        self._wire = terms.wire
        self._body = bytearray()
        self._arrived = asyncio.Event()
        self._opened = asyncio.Event()
        self._unwanted_bytes = 0
        self._is_begun = False
        self._has_no_body = False
        self._awaits_go_on = False
        self._bytes_due: int | None = None
        self._unwanted_timer: asyncio.TimerHandle | None = None

    # What the connection tells.

    def feed(self, data: bytes, size: int) -> None:
        """A piece of the body came in, of that size with its padding."""
        if self.is_answered or self.is_gone:
            self._wire.taken(self.id, size)
            self._unwanted_bytes += size
            if self._unwanted_bytes > _MAX_UNWANTED_BYTES:
                self.refuse_rest()
            return
        self._wire.taken(self.id, size - len(data))
        if data:
            self._body += data
            self._arrived.set()

    def finish(self) -> None:
        """The request is whole."""
        self.is_whole = True
        self._arrived.set()
        self._terms.on_change(self)

    def open(self) -> None:
        """There may be room for more of the answer."""
        self._opened.set()

    def vanish(self) -> None:
        """Nobody is there any more."""
        self.is_gone = True
        self._arrived.set()
        self._opened.set()
        self._drop_unread()
        if self._unwanted_timer is not None:
            self._unwanted_timer.cancel()
        self._terms.on_change(self)

    def refuse_rest(self) -> None:
        """End a request that was answered before it was whole; a while later, so that the answer is read."""
        if not (self.is_gone or self.is_whole):
            self._end(ErrorCodes.NO_ERROR)

    def cut(self) -> None:
        """End a stream whose answer cannot be finished, so that nobody takes it for a whole one."""
        if not (self.is_gone or self.is_answered):
            self._end(ErrorCodes.INTERNAL_ERROR)

    # What the app sees.

    async def run(self, app: ASGIApp, scope: Scope) -> None:
        """Let the app answer."""
        self._has_no_body = scope.get("method") == "HEAD"
        headers = scope.get("headers", ())
        self._awaits_go_on = any(name == b"expect" and value == b"100-continue" for name, value in headers)
        try:
            await app(scope, self.receive, self.send)
        finally:
            self.cut()

    async def receive(self) -> Message:
        """The next piece of the request's body, or that the client has gone."""
        if self._awaits_go_on and not (self._is_begun or self.is_gone or self.is_whole):
            self._awaits_go_on = False
            self._wire.head(self.id, [(b":status", b"100")])
        if not (self.is_gone or self.is_answered):
            await self._arrived.wait()
            self._arrived.clear()
        if self.is_gone or self.is_answered:
            return dict(_DISCONNECT)
        body, self._body = bytes(self._body), bytearray()
        self._wire.taken(self.id, len(body))
        return {"type": "http.request", "body": body, "more_body": not self.is_whole}

    async def send(self, message: Message) -> None:
        """Send the next piece of the answer; what a client that has gone does not get is dropped."""
        await self._wire.writable()
        if self.is_gone:
            return
        kind = message["type"]
        if kind == "http.response.start" and not self._is_begun:
            self._begin(message)
        elif kind == "http.response.body" and self._is_begun and not self.is_answered:
            await self._send_body(message.get("body", b""), is_last=not message.get("more_body", False))
        else:
            raise RuntimeError(f"`{kind}` is out of turn")

    def _begin(self, message: Message) -> None:
        given: Any = message.get("headers", ())
        headers = answered(message["status"], [*self._terms.default_headers(), *given])
        lengths = [value for name, value in headers if name == b"content-length"]
        self._has_no_body = self._has_no_body or message["status"] in _BODILESS
        self._bytes_due = int(lengths[0]) if lengths and not self._has_no_body else None
        self._is_begun = True
        self._wire.head(self.id, headers)

    async def _send_body(self, body: bytes, *, is_last: bool) -> None:
        left = memoryview(b"" if self._has_no_body else body)
        self._count(len(left), is_last=is_last)
        while left:
            room = min(len(left), await self._room())
            if not room:
                return
            # The last piece may come with the word that it is.
            self._send(left[:room], is_last=is_last and room == len(left))
            left = left[room:]
        if is_last and not self.is_answered:
            self._send(b"", is_last=True)

    def _count(self, size: int, *, is_last: bool) -> None:
        if self._bytes_due is None:
            return
        self._bytes_due -= size
        if self._bytes_due < 0 or (is_last and self._bytes_due):
            raise RuntimeError("the answer's body is not as long as its content-length")

    def _send(self, data: bytes | memoryview, *, is_last: bool) -> None:
        self._wire.body(self.id, data, is_last=is_last)
        if not is_last:
            return
        self.is_answered = True
        self._arrived.set()
        self._drop_unread()
        if not self.is_whole:
            loop = asyncio.get_running_loop()
            self._unwanted_timer = loop.call_later(self._terms.seconds, self.refuse_rest)
        self._terms.on_change(self)

    async def _room(self) -> int:
        """How much the client takes now; 0 when it has gone, or takes nothing for too long."""
        deadline = asyncio.get_running_loop().time() + self._terms.seconds
        while True:
            await self._wire.writable()
            if self.is_gone:
                return 0
            if (room := self._wire.room(self.id)) > 0:
                return room
            self._opened.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._opened.wait()
            except TimeoutError:
                logger.info("a client that took nothing of its answer was dropped")
                self._end(ErrorCodes.CANCEL)

    def _end(self, code: ErrorCodes) -> None:
        self._wire.reset(self.id, code)
        self.vanish()

    def _drop_unread(self) -> None:
        unread, self._body = len(self._body), bytearray()
        self._wire.taken(self.id, unread)
