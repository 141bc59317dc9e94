"""Reading the bodies of requests, and no more of them than one devbox may have in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from benchyard.gateway.refusals import Refused

MOST_BYTES = 32 * 1024 * 1024
"""Of one body."""
MOST_TOGETHER = 8 * MOST_BYTES
"""Of all bodies of a devbox that are being passed on."""


class Bodies:
    """The bodies of one devbox's requests."""

    def __init__(self, most: int = MOST_BYTES, together: int = MOST_TOGETHER) -> None:
        self._most = most
        self._together = together
        self._held = 0

    @asynccontextmanager
    async def read(self, request: web.BaseRequest) -> AsyncIterator[bytes]:
        """A request's body, held until the end; raises Refused for one that is too large."""
        mine = 0
        try:
            if (request.content_length or 0) > self._most:
                raise self._too_large()
            if request.headers.get("expect", "").lower() == "100-continue" and request.transport is not None:
                request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = bytearray()
            async for chunk in request.content.iter_any():
                mine += len(chunk)
                self._held += len(chunk)
                if mine > self._most:
                    raise self._too_large()
                if self._held > self._together:
                    raise Refused("too_large", "too much is being sent at once; wait for some of it")
                body += chunk
            yield bytes(body)
        finally:
            self._held -= mine

    def _too_large(self) -> Refused:
        return Refused("too_large", f"the request is larger than {self._most // 1024**2} MiB")
