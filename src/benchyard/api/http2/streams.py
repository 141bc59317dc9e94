"""Requests and their answers, each on one stream of a connection."""

import asyncio
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import httptools
from h2.connection import ConnectionState, H2Connection
from h2.errors import ErrorCodes
from starlette.types import ASGIApp, Message, Scope

from benchyard.api.http2.frames import FrameMeter
from benchyard.api.log import logger
from benchyard.errors import UsageError

Header = tuple[bytes, bytes]

_METHODS = frozenset(
    b"ACL BIND CHECKOUT COPY DELETE GET HEAD LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL MOVE "
    b"NOTIFY OPTIONS PATCH POST PROPFIND PROPPATCH PURGE PUT QUERY REBIND REPORT SEARCH SOURCE SUBSCRIBE "
    b"TRACE UNBIND UNLINK UNLOCK UNSUBSCRIBE".split()
)
"""Methods that the HTTP/1.1 parser knows: metrics are kept by method, so their number must be limited."""
_ONE_HOP = frozenset([b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"])
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_CONTROLS = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_TARGET = re.compile(rb"/[!-~]*|\*")


def scope_from_headers(scope: Scope, given: Iterable[Header], *, is_whole: bool) -> Scope:
    """Build the scope of a request from its headers; raises UsageError if they are invalid.

    `scope` holds the connection's part of the scope; `is_whole` means that there is no body.
    """
    pairs = [(bytes(name), bytes(value)) for name, value in given]
    pseudo = {name: value for name, value in pairs if name.startswith(b":")}
    method, target = pseudo.get(b":method", b""), pseudo.get(b":path", b"")
    if method not in _METHODS or _TARGET.fullmatch(target) is None or b":protocol" in pseudo:
        raise _unreadable()
    if any(_CONTROLS.search(value) or (is_whole and _tells_a_body(name, value)) for name, value in pairs):
        raise _unreadable()
    path, query = _target_parts(target)
    return {
        **scope,
        "type": "http",
        "http_version": "2",
        "method": method.decode(),
        "path": scope["root_path"] + unquote(path.decode()),
        "raw_path": scope["root_path"].encode() + path,
        "query_string": query,
        "headers": _headers(pairs, pseudo.get(b":authority"), is_whole=is_whole),
    }


def _tells_a_body(name: bytes, value: bytes) -> bool:
    return name == b"content-length" and value.strip(b"0") != b""


def _target_parts(target: bytes) -> tuple[bytes, bytes]:
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError as error:
        raise _unreadable() from error
    return url.path or b"", url.query or b""


def _headers(pairs: list[Header], authority: bytes | None, *, is_whole: bool) -> list[Header]:
    headers = [(name, value) for name, value in pairs if not name.startswith(b":")]
    if authority is not None:
        headers = [(b"host", authority), *(header for header in headers if header[0] != b"host")]
    if not is_whole and not any(name == b"content-length" for name, _ in headers):
        # The body's length is unknown so far; code that passes the request on must mark its end.
        headers.append((b"transfer-encoding", b"chunked"))
    return headers


def answer_headers(status: int, given: Iterable[Header]) -> list[Header]:
    """Return the headers of an answer as they are sent; raises RuntimeError for an invalid one.

    All of them are checked first: a failure while they are packed would corrupt all later headers.
    """
    headers = [(name.lower(), value.strip(b" \t")) for name, value in given]
    for name, value in headers:
        if _NAME.fullmatch(name) is None or _CONTROLS.search(value):
            raise RuntimeError("an answer has an invalid header")
    return [(b":status", b"%d" % status), *(header for header in headers if header[0] not in _ONE_HOP)]


def _unreadable() -> UsageError:
    return UsageError("this is not a request the server can read; it speaks HTTP/1.1 and HTTP/2")


class FrameWriter:
    """Sends frames; after its end it sends nothing, and waiting senders continue."""

    def __init__(self, http: H2Connection, transport: asyncio.Transport, meter: FrameMeter) -> None:
        self._http = http
        self._transport = transport
        self._meter = meter
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_over = False

    def flush(self) -> None:
        """Write pending frames to the transport."""
        data = self._http.data_to_send()
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def pause(self) -> None:
        """Note that the client reads more slowly than the server sends."""
        if not self._is_over:
            self._writable.clear()

    def resume(self) -> None:
        """Note that the client has caught up."""
        self._writable.set()

    async def writable(self) -> None:
        """Wait until the client has caught up; `ConnectionLimits.watch` drops a client that reads nothing."""
        await self._writable.wait()

    def room(self, stream_id: int) -> int:
        """Return how many bytes of a body the client accepts now."""
        return min(self._http.local_flow_control_window(stream_id), self._http.max_outbound_frame_size)

    def head(self, stream_id: int, headers: Iterable[Header]) -> None:
        """Send the head of an answer."""
        self._http.send_headers(stream_id, headers)
        self.flush()

    def body(self, stream_id: int, data: bytes | memoryview, *, is_last: bool) -> None:
        """Send a piece of an answer that fits into the client's window."""
        self._http.send_data(stream_id, data, end_stream=is_last)
        self._meter.sent()
        self.flush()

    def taken(self, stream_id: int, size: int) -> None:
        """Let the client send this many more bytes, since so many were processed."""
        if size and not self._is_over:
            self._http.acknowledge_received_data(size, stream_id)
            self.flush()

    def reset(self, stream_id: int, code: ErrorCodes) -> None:
        """Reset one stream."""
        if not self._is_over:
            self._http.reset_stream(stream_id, code)
            self.flush()

    def goodbye(self, code: ErrorCodes) -> None:
        """Send a GOAWAY frame with its reason, unless one was sent; nothing is sent after it."""
        if self._http.state_machine.state is not ConnectionState.CLOSED:
            self._http.close_connection(code)
        self.flush()
        self.end()

    def end(self) -> None:
        """Stop sending."""
        self._is_over = True
        self._writable.set()


_MAX_UNWANTED_BYTES = 64 * 1024**2
_BODILESS = (204, 304)
_DISCONNECT: Message = {"type": "http.disconnect"}


@dataclass(frozen=True)
class StreamTerms:
    """Settings that all streams of a connection share."""

    wire: FrameWriter
    seconds: float
    """Seconds that a client may leave an answer untouched."""
    default_headers: Callable[[], list[Header]]
    on_change: Callable[["Http2Stream"], None]
    """Callback for the end of the stream's request or answer."""


class Http2Stream:
    """ASGI side of one stream; buffers the received part of the request's body."""

    def __init__(self, stream_id: int, terms: StreamTerms) -> None:
        self.id = stream_id
        self.is_whole = False
        """True after the end of the request."""
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

    # Events of the connection.

    def feed(self, data: bytes, size: int) -> None:
        """Take a piece of the body; `size` includes its padding."""
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
        """Mark the request as complete."""
        self.is_whole = True
        self._arrived.set()
        self._terms.on_change(self)

    def open(self) -> None:
        """Note that the client may accept more of the answer."""
        self._opened.set()

    def vanish(self) -> None:
        """End the stream because the client is gone or the stream was reset."""
        self.is_gone = True
        self._arrived.set()
        self._opened.set()
        self._drop_unread()
        if self._unwanted_timer is not None:
            self._unwanted_timer.cancel()
        self._terms.on_change(self)

    def refuse_rest(self) -> None:
        """End a request answered before its body was complete; called late, so that the answer is read."""
        if not (self.is_gone or self.is_whole):
            self._end(ErrorCodes.NO_ERROR)

    def cut(self) -> None:
        """End a stream whose answer cannot be finished, so that the client does not take it for complete."""
        if not (self.is_gone or self.is_answered):
            self._end(ErrorCodes.INTERNAL_ERROR)

    # Interface to the app.

    async def run(self, app: ASGIApp, scope: Scope) -> None:
        """Run the app to answer the request."""
        self._has_no_body = scope.get("method") == "HEAD"
        headers = scope.get("headers", ())
        self._awaits_go_on = any(name == b"expect" and value == b"100-continue" for name, value in headers)
        try:
            await app(scope, self.receive, self.send)
        finally:
            self.cut()

    async def receive(self) -> Message:
        """Return the next piece of the request's body, or the message that the client has gone."""
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
        """Send the next piece of the answer; it is dropped if the client has gone."""
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
        headers = answer_headers(message["status"], [*self._terms.default_headers(), *given])
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
            # The last piece may carry the end mark itself.
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
        """Return how many bytes the client accepts; 0 if it has gone, or accepted none for too long."""
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
                logger.info("dropped a client that did not read its answer")
                self._end(ErrorCodes.CANCEL)

    def _end(self, code: ErrorCodes) -> None:
        self._wire.reset(self.id, code)
        self.vanish()

    def _drop_unread(self) -> None:
        unread, self._body = len(self._body), bytearray()
        self._wire.taken(self.id, unread)
