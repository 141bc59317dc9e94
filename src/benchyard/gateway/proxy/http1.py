"""Connections to upstreams, kept for reuse: HTTP/1.1 with little work for each piece of an answer.

With a general HTTP library, passing on a stream of many small pieces would cost more than all other steps
together.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import cast

import httptools
from multidict import CIMultiDict
from yarl import URL

MOST_HEAD_BYTES = 64 * 1024
_MOST_AHEAD_BYTES = 256 * 1024
"""Most unread bytes of an answer; beyond that, reading from the upstream pauses."""
_IDLE_SECONDS = 15.0
_CLOSED = "the connection was closed"

Destination = tuple[str, str, int]
"""Scheme, host and port."""


class UpstreamConnection(asyncio.Protocol):
    """A connection, with the answer to the last request on it."""

    def __init__(self, read_seconds: float, let_go: "Callable[[UpstreamConnection], None]") -> None:
        self.status = 0
        self.reason = ""
        self.headers: CIMultiDict[str] = CIMultiDict()
        self.is_open = True
        self.idle_since = 0.0
        self._read_seconds = read_seconds
        self._let_go = let_go
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        """None before the first request and between requests."""
        self._pieces: list[bytes] = []
        self._ahead = 0
        self._head_bytes = 0
        self._has_begun = False
        self._has_ended = False
        self._may_go_on = False
        self._is_paused = False
        self._error: OSError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._heard = 0.0
        self._watch: asyncio.TimerHandle | None = None

    async def ask(self, head: bytes, body: bytes) -> None:
        """Send a request, and wait for the head of its answer; raises OSError."""
        assert self._transport is not None
        self.status, self.reason, self.headers = 0, "", CIMultiDict()
        self._has_begun = self._has_ended = False
        self._head_bytes = 0
        self._parser = httptools.HttpResponseParser(self)
        self._heard = self._loop.time()
        self._watch = self._loop.call_later(self._read_seconds, self._look)
        self._transport.writelines([head, body])
        while not self._has_begun:
            await self._more()

    async def read(self) -> bytes:
        """Return the next part of the answer's body, empty at its end; raises OSError."""
        while not self._pieces:
            if self._has_ended:
                return b""
            await self._more()
        content = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces = []
        self._ahead = 0
        if self._is_paused and self.is_open and self._transport is not None:
            self._is_paused = False
            self._heard = self._loop.time()
            self._transport.resume_reading()
        return content

    def release(self) -> None:
        """End reading the answer; the connection is kept only if the answer has ended."""
        if self._parser is None:
            return
        keep = self._has_ended and self._may_go_on and self.is_open and not self._pieces
        self._forget()
        if keep:
            self.idle_since = self._loop.time()
            self._let_go(self)
        else:
            self.close()

    def close(self) -> None:
        """Close the connection at once."""
        self._forget()
        self._drop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        if self._parser is None or self._has_ended:
            # Data beyond the answer makes the connection unusable; the answer itself may still be unread.
            self._drop()
            return
        self._heard = self._loop.time()
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(ConnectionError(f"the answer is not valid HTTP: {type(error).__name__}"))
            return
        if not self._has_begun:
            self._head_bytes += len(data)
        if self._head_bytes > MOST_HEAD_BYTES:
            self._fail(ConnectionError("the head of the answer is too long"))
        elif self._ahead > _MOST_AHEAD_BYTES and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        if self._parser is not None and not self._has_ended:
            has_length = "content-length" in self.headers or "transfer-encoding" in self.headers
            if exc is None and self._has_begun and not has_length:
                self._has_ended = True
            else:
                self._error = self._error or ConnectionResetError(_CLOSED)
        self._wake()

    def on_status(self, status: bytes) -> None:
        self._check()
        self.reason += status.decode(errors="surrogateescape")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value)
        self._check()
        self.headers.add(name.decode(errors="surrogateescape"), value.decode(errors="surrogateescape"))

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        self._check()
        self.status = self._parser.get_status_code()
        self._has_begun = self.status >= 200

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._ahead += len(body)

    def on_message_complete(self) -> None:
        assert self._parser is not None
        self._has_ended, self._may_go_on = self._has_begun, self._parser.should_keep_alive()
        if not self._has_begun:
            # This was an informational answer such as 100; the final answer follows.
            self.reason, self.headers = "", CIMultiDict()

    def _check(self) -> None:
        """Raise ValueError, which ends the parsing, if the head is too long or belongs to no request."""
        if self._has_ended or self._head_bytes > MOST_HEAD_BYTES:
            raise ValueError("an invalid head of an answer")

    async def _more(self) -> None:
        """Wait until more data has arrived; raises OSError."""
        if self._error is not None:
            raise self._error
        if not self.is_open:
            raise ConnectionResetError(_CLOSED)
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: OSError) -> None:
        self._error = self._error or error
        self._drop()
        self._wake()

    def _drop(self) -> None:
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def _look(self) -> None:
        """Fail if the upstream was silent for too long, not counting the time the agent did not read."""
        now = self._loop.time()
        if self._is_paused or self._pieces:
            self._heard = now
        left = self._heard + self._read_seconds - now
        if left > 0:
            self._watch = self._loop.call_later(left, self._look)
        else:
            self._fail(TimeoutError("no data arrived for too long"))

    def _forget(self) -> None:
        self._parser, self._pieces, self._ahead = None, [], 0
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None


class UpstreamConnections:
    """All connections to upstreams, by destination."""

    def __init__(self, trust: ssl.SSLContext, connect_seconds: float, read_seconds: float) -> None:
        self._trust = trust
        self._connect_seconds = connect_seconds
        self._read_seconds = read_seconds
        self._idle: dict[Destination, list[UpstreamConnection]] = {}
        self._sweeper: asyncio.TimerHandle | None = None

    async def ask(self, method: str, url: URL, headers: CIMultiDict[str], body: bytes) -> UpstreamConnection:
        """Send a request; return its connection once the answer's head came. Raises OSError, ValueError."""
        head = _head(method, url, headers, len(body))
        place = (url.scheme, url.raw_host or "", url.port or 0)
        connection = self._idle_connection(place) or await self._connect(place)
        try:
            await connection.ask(head, body)
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Close idle connections."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in [each for connections in self._idle.values() for each in connections]:
            connection.close()
        self._idle.clear()

    def _idle_connection(self, place: Destination) -> UpstreamConnection | None:
        connections = self._idle.get(place, [])
        while connections:
            connection = connections.pop()
            if connection.is_open:
                return connection
        return None

    async def _connect(self, place: Destination) -> UpstreamConnection:
        scheme, host, port = place

        def keep(connection: UpstreamConnection) -> None:
            self._idle.setdefault(place, []).append(connection)
            if self._sweeper is None:
                self._sweeper = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._sweep)

        trust = self._trust if scheme == "https" else None
        async with asyncio.timeout(self._connect_seconds):
            _transport, connection = await asyncio.get_running_loop().create_connection(
                lambda: UpstreamConnection(self._read_seconds, keep), host, port, ssl=trust
            )
        return connection

    def _sweep(self) -> None:
        """Close connections that were idle for long, before the server does so during the next request."""
        loop, self._sweeper = asyncio.get_running_loop(), None
        for place, connections in list(self._idle.items()):
            old = [
                each
                for each in connections
                if each.idle_since + _IDLE_SECONDS <= loop.time() or not each.is_open
            ]
            for connection in old:
                connection.close()
                connections.remove(connection)
            if not connections:
                del self._idle[place]
        if self._idle:
            self._sweeper = loop.call_later(_IDLE_SECONDS / 3, self._sweep)


def _head(method: str, url: URL, headers: CIMultiDict[str], size: int) -> bytes:
    """Return the head of a request; raises ValueError if a header contains a line break."""
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    lines.insert(0, f"{method} {url.raw_path_qs} HTTP/1.1\r\nHost: {url.host_port_subcomponent}\r\n")
    head = f"{''.join(lines)}Content-Length: {size}\r\n\r\n"
    breaks = len(lines) + 3
    if head.count("\n") != breaks or head.count("\r") != breaks:
        raise ValueError("a header holds a line break")
    return head.encode()
