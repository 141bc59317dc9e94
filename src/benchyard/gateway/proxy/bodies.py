"""Bodies of requests in transit, bounded for each devbox."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from benchyard.gateway.proxy.requests import Refused

MOST_BODY_BYTES = 32 * 1024 * 1024
"""Largest size of one body, in bytes."""
MOST_BODIES_BYTES = 8 * MOST_BODY_BYTES
"""Largest total size of a devbox's bodies in transit, in bytes."""


class RequestBodies:
    """Bodies of one devbox's requests in transit."""

    def __init__(self, most: int = MOST_BODY_BYTES, together: int = MOST_BODIES_BYTES) -> None:
        self._most = most
        self._together = together
        self._held = 0

    @asynccontextmanager
    async def read(self, request: web.BaseRequest) -> AsyncIterator[bytes]:
        """Yield the body of a request, held until the block ends; raises Refused if it is too large."""
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
