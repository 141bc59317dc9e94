"""Limits on size and speed of requests, enforced while they arrive, whatever their headers say."""

import asyncio
import time

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from benchyard.api.errors import error_response
from benchyard.errors import BenchyardError, StillWaiting, TooLarge, TooMany, UsageError
from benchyard.settings import Settings
from benchyard.workers.json_texts import ValueCount

MAX_HEADER_BYTES = 64 * 1024
MAX_JSON_VALUES = 200_000
SLOWEST_BYTES_PER_SECOND = 8 * 1024
_LARGE_BODIES_AT_ONCE = 4


class HeadersTooLarge(TooLarge):
    """The request's headers are over their limit."""

    http_status = 431


class NotDecoded(UsageError):
    """The body has an encoding that the server does not decode."""

    code = "not_decoded"
    http_status = 415


class RequestLimits:
    """Refuses requests that are too large, and gives up on bodies that do not arrive."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._bodies = _Bodies(_LARGE_BODIES_AT_ONCE * settings.max_body_bytes)

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
        arriving = _Arriving(receive, limit, self._settings.client_seconds)
        if upload:
            await self._app(scope, arriving.next, send)
            return
        body = _Json(arriving, self._bodies)
        try:
            await self._app(scope, body.next, send)
        finally:
            self._bodies.held -= arriving.received


class _Bodies:
    """Total size of the JSON bodies that are in memory."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0


class _Arriving:
    """A body that is counted and timed as it arrives."""

    def __init__(self, receive: Receive, limit: int, seconds: float) -> None:
        self._receive = receive
        self._limit = limit
        self._seconds = seconds
        self._began = time.monotonic()
        self._is_complete = False
        self.received = 0

    async def next(self) -> Message:
        if self._is_complete:
            return await self._receive()
        try:
            async with asyncio.timeout(self._seconds_left()):
                message = await self._receive()
        except TimeoutError as error:
            raise StillWaiting("the request's body did not arrive in time; send it again") from error
        if message["type"] == "http.request":
            self.received += len(message.get("body", b""))
            self._is_complete = not message.get("more_body", False)
        if self.received > self._limit:
            raise _too_large(self._limit)
        return message

    def _seconds_left(self) -> float:
        """Return the seconds until a pause is too long, or the whole body too slow."""
        earned = self._seconds + self.received / SLOWEST_BYTES_PER_SECOND
        return min(self._seconds, max(0.0, self._began + earned - time.monotonic()))


class _Json:
    """A JSON body, which will be in memory as a whole, and then again as parsed values."""

    def __init__(self, arriving: _Arriving, bodies: _Bodies) -> None:
        self._arriving = arriving
        self._bodies = bodies
        self._values = ValueCount()

    async def next(self) -> Message:
        before = self._arriving.received
        try:
            message = await self._arriving.next()
        finally:
            self._bodies.held += self._arriving.received - before
        if self._bodies.held > self._bodies.most:
            raise TooMany("too many large bodies arrive at once; send it again in a moment")
        if self._values.feed(message.get("body", b"")) > MAX_JSON_VALUES:
            raise TooLarge(
                f"the body holds more than {MAX_JSON_VALUES} values; send fewer, or text as one string",
                limit_values=MAX_JSON_VALUES,
            )
        return message


def headers_too_large() -> HeadersTooLarge:
    """Return the error for headers over their limit."""
    return HeadersTooLarge(f"the headers are over {MAX_HEADER_BYTES} bytes", limit_bytes=MAX_HEADER_BYTES)


def _check_headers(scope: Scope, limit: int) -> None:
    if sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > MAX_HEADER_BYTES:
        raise headers_too_large()
    headers = Headers(scope=scope)
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise UsageError("content-length must be a number")
    if int(length[:20]) > limit:
        raise _too_large(limit)
    if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise NotDecoded("encoded bodies are not supported; send it without content-encoding")


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"the body is over {limit} bytes; large contents go through /v1/objects", limit_bytes=limit
    )
