"""uvicorn's HTTP protocol with a limit on the size of headers and on the time they may take."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from benchyard.api.limits import MAX_HEADER_BYTES

_HEADER_SECONDS = 30.0
_REFUSAL = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b"
)
_REFUSAL_BODY = (
    b'{"code":"too_large","message":"the headers are over %d bytes","details":{}}' % MAX_HEADER_BYTES
)


class BoundedHttp(HttpToolsProtocol):
    """Closes connections whose headers grow or dawdle without end."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._header_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_headers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # A chunk that only begins the headers is let through: it may hold the end of another request's body.
        if self._timer is not None:
            self._header_bytes += len(data)
        super().data_received(data)
        if self._header_bytes > MAX_HEADER_BYTES and not self.transport.is_closing():
            self.transport.write(_REFUSAL % (len(_REFUSAL_BODY), _REFUSAL_BODY))
            self.transport.close()

    def on_message_begin(self) -> None:
        self._start_headers()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._end_headers()
        super().on_headers_complete()

    def _start_headers(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(_HEADER_SECONDS, self.transport.close)

    def _end_headers(self) -> None:
        self._header_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
