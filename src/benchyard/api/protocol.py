"""uvicorn's protocols, with limits on a connection's bytes and time, and on the number of connections."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from benchyard.api.connections import ConnectionLimits, carrier_extensions
from benchyard.api.errors import error_response
from benchyard.api.http2.connection import Http2Connection, refusal
from benchyard.api.http2.frames import PREFACE
from benchyard.api.middleware.limits import MAX_HEADER_BYTES, headers_too_large
from benchyard.api.tls import is_http2
from benchyard.api.tunnels.addresses import address_of
from benchyard.errors import BenchyardError, TooMany, UsageError

_MAX_PIPELINED = 32
_MAX_UNREAD_BYTES = 1024**2
_LINGER_SECONDS = 1.0
_MAX_LINGERING = 256
"""Limit for refused connections that are still told the reason."""
_MAX_EARLY_BYTES = 64 * 1024
_PHRASES = {400: b"Bad Request", 429: b"Too Many Requests", 431: b"Request Header Fields Too Large"}


class TooManyPipelined(UsageError):
    """More requests at once on one connection than any client needs."""


class BoundedHttp(HttpToolsProtocol):
    """HTTP/1.1 that closes connections with too large or too slow headers, and those over the limit."""

    def __init__(
        self,
        *args: Any,
        crowd: ConnectionLimits,
        others: Callable[["BoundedHttp"], bool] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._crowd = crowd
        self._others = others
        self._header_bytes = 0
        self._is_in_headers = True
        self._is_answered = False
        self._is_refused = False
        self._timer: asyncio.TimerHandle | None = None
        self._is_tunnel = False
        self._arrived = b""
        self._early: bytearray | None = None
        self._is_half_closed = False
        self._opening: bytes | None = b""
        """Bytes received so far, while they may still be the beginning of HTTP/2; None afterwards."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self._crowd.has_room(len(self.connections)):
            self._refuse(TooMany("the server has as many connections as it can; try again in a moment"))
            return
        if self._others is not None and self._others(self):
            # Another handler serves this connection from its first byte on.
            return
        if is_http2(transport):
            self._speak_http2(b"")
            return
        self._crowd.waits(self)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.works(self)
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_over():
            return
        if self._opening is not None:
            data = self._opening + data
            if self._is_undecided(data):
                return
        if self._early is not None:
            self._keep_early(data)
            return
        self._arrived = data
        # A chunk in which headers only begin is not counted: it may hold the end of another request's body.
        if self._is_in_headers:
            self._header_bytes += len(data)
        if self._is_answered:
            # An unwanted rest of a body must also end in time.
            self._start_timer()
        super().data_received(data)
        if self._header_bytes > MAX_HEADER_BYTES and not self._is_over():
            self._refuse(headers_too_large())

    def _is_undecided(self, data: bytes) -> bool:
        """Tell whether this is not, or not yet, known to be HTTP/1.1; switch to HTTP/2 on its preface."""
        if data.startswith(PREFACE):
            self._speak_http2(data)
            return True
        self._opening = data if PREFACE.startswith(data) else None
        return self._opening is not None

    def _speak_http2(self, data: bytes) -> None:
        self._crowd.works(self)
        self._stop_timer()
        self.connections.discard(self)
        successor = Http2Connection(self, self._crowd)
        self.transport.set_protocol(successor)
        successor.begin(data)

    def _is_over(self) -> bool:
        return self._is_refused or self.transport.is_closing()

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= _MAX_PIPELINED:
            raise TooManyPipelined("too many requests at once on one connection")
        self._is_in_headers = True
        self._start_timer()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        address = address_of(httptools.parse_url(self.url).path or b"", self.headers)
        self._is_tunnel = address is not None and not address.is_terminal
        self._is_in_headers = False
        self._is_answered = False
        self._header_bytes = 0
        self._crowd.works(self)
        self._stop_timer()
        self.scope["extensions"] = carrier_extensions(self)
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        self._is_answered = not self.pipeline
        super().on_response_complete()
        if self._is_answered:
            self._crowd.waits(self)

    def _should_upgrade(self) -> bool:
        # A socket to a tunnel is not opened here: its request is passed on unchanged.
        return not self._is_tunnel and super()._should_upgrade()

    def _unsupported_upgrade_warning(self) -> None:
        """Keep further bytes for a tunnel's other protocol; the connection closes if its program declines."""
        if not self._is_tunnel:
            super()._unsupported_upgrade_warning()
            return
        reached = sys.exception()
        self._early = bytearray()
        if isinstance(reached, httptools.HttpParserUpgrade):
            self._keep_early(self._arrived[reached.args[0] :])
        self._arrived = b""

    def _keep_early(self, data: bytes) -> None:
        assert self._early is not None
        self._early += data
        if len(self._early) > _MAX_EARLY_BYTES:
            self.transport.pause_reading()

    def eof_received(self) -> bool:  # type: ignore[override]
        # A client about to speak another protocol may have sent all of its bytes, and still wants the answer.
        self._is_half_closed = self._early is not None
        return self._is_half_closed

    def take_over(self) -> tuple[bytes, bool]:
        """Hand the connection over to another reader; return early bytes, and whether the input has ended."""
        self.cycle.disconnected = True
        self._unset_keepalive_if_required()
        early, self._early = bytes(self._early or b""), bytearray()
        return early, self._is_half_closed

    def leave(self) -> None:
        """Forget a connection that was handed over and has ended."""
        self.connections.discard(self)

    def cut(self) -> None:
        """End a connection whose answer cannot be finished, so that the client does not take it for whole."""
        self.cycle.disconnected = True
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        self._refuse(UsageError("this is not a request the server can read; it speaks HTTP/1.1 and HTTP/2"))

    def _refuse(self, error: BenchyardError) -> None:
        self.transport.write(refusal(error) if is_http2(self.transport) else _answer(error))
        self._is_refused = True
        self._stop_timer()
        if len(self.connections) > self._crowd.most + _MAX_LINGERING or not self.transport.can_write_eof():
            self.transport.close()
            return
        # Closing at once would reset the connection if more bytes arrive, and lose the answer.
        self.transport.write_eof()
        self._timer = self.loop.call_later(_LINGER_SECONDS, self.transport.close)

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self._crowd.seconds, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _answer(error: BenchyardError) -> bytes:
    body = bytes(error_response(error).body)
    head = (
        b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
    )
    return head % (error.http_status, _PHRASES[error.http_status], len(body)) + body


class BoundedSocket(WebSocketsSansIOProtocol):
    """WebSocket that drops a client whose pings ask for more than the client reads."""

    def data_received(self, data: bytes) -> None:
        if self.transport.get_write_buffer_size() > _MAX_UNREAD_BYTES:
            self.transport.abort()
            return
        super().data_received(data)
