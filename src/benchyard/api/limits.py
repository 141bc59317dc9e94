"""How much and how slowly a client may send: enforced while it arrives, whatever its headers say."""

import asyncio
import time

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from benchyard.api.errors import error_response
from benchyard.errors import BenchyardError, StillWaiting, TooLarge, UsageError
from benchyard.settings import Settings

MAX_HEADER_BYTES = 64 * 1024
_JSON_SECONDS = 60.0
_IDLE_SECONDS = 60.0


class HeadersTooLarge(TooLarge):
    """The request's headers are over their limit."""

    http_status = 431


class RequestLimits:
    """Refuses what is too large, and gives up on bodies that do not arrive."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        upload = scope["path"].startswith("/objects/upload/") or scope["path"].endswith("/upload_file")
        limit = self._settings.max_upload_bytes if upload else self._settings.max_body_bytes
        try:
            _check_headers(scope, limit)
        except BenchyardError as error:
            response = error_response(error)
            response.headers["connection"] = "close"
            await response(scope, receive, send)
            return
        await self._app(scope, _Body(receive, limit, None if upload else _JSON_SECONDS).next, send)


class _Body:
    """A body that is counted and timed as it comes in."""

    def __init__(self, receive: Receive, limit: int, seconds: float | None) -> None:
        self._receive = receive
        self._limit = limit
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._received = 0
        self._complete = False

    async def next(self) -> Message:
        if self._complete:
            return await self._receive()
        try:
            async with asyncio.timeout(self._seconds_left()):
                message = await self._receive()
        except TimeoutError as error:
            raise StillWaiting("the request's body did not arrive in time; send it again") from error
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
            self._complete = not message.get("more_body", False)
        if self._received > self._limit:
            raise _too_large(self._limit)
        return message

    def _seconds_left(self) -> float:
        if self._deadline is None:
            return _IDLE_SECONDS
        return min(_IDLE_SECONDS, max(0.0, self._deadline - time.monotonic()))


def _check_headers(scope: Scope, limit: int) -> None:
    if sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > MAX_HEADER_BYTES:
        raise HeadersTooLarge(f"the headers are over {MAX_HEADER_BYTES} bytes", limit_bytes=MAX_HEADER_BYTES)
    length = Headers(scope=scope).get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise UsageError("content-length must be a number")
    if int(length[:20]) > limit:
        raise _too_large(limit)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"the body is over {limit} bytes; large contents go through /v1/objects", limit_bytes=limit
    )
