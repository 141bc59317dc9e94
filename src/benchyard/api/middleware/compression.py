"""Compression and entity tags of answers that have none yet: those of lists, verdicts, differences."""

import asyncio
import gzip
from collections.abc import Callable
from typing import TypeVar

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from benchyard.api.report_cache import is_known, tag_of, takes_gzip

_LEAST_BYTES = 1024
_SMALL_BYTES = 64 * 1024
"""Size up to which an answer is compressed on the event loop."""
_TYPES = ("application/json", "text/x-diff")
_DEVBOXES = "/v1/devboxes/"
"""Paths of devboxes: what they print is read by programs that wait for it, mostly near by."""

T = TypeVar("T")


class ResponseCompression:
    """Compresses whole answers, and tells those that a client has; streams pass as they are."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not scope["path"].startswith(_DEVBOXES):
            send = _Response(scope, send).send
        await self._app(scope, receive, send)


class _Response:
    """An answer on its way to the client."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._headers = Headers(scope=scope)
        self._has_tag = scope["method"] == "GET"
        self._send = send
        self._begin: Message | None = None
        """The held status and headers, until it is known whether the answer comes in one piece."""

    async def send(self, message: Message) -> None:
        """Pass a message on, or hold it until the body comes."""
        if message["type"] == "http.response.start" and _is_meant(message):
            self._begin = message
            return
        if self._begin is not None:
            begin, self._begin = self._begin, None
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                await self._send_whole(begin, message.get("body", b""))
                return
            await self._send(begin)
        await self._send(message)

    async def _send_whole(self, begin: Message, body: bytes) -> None:
        headers = MutableHeaders(raw=list(begin["headers"]))
        headers.add_vary_header("accept-encoding")
        begin = {**begin, "headers": headers.raw}
        if self._has_tag:
            tag = await _made(tag_of, body)
            headers["etag"] = tag
            headers.setdefault("cache-control", "no-cache")
            if is_known(tag, self._headers.get("if-none-match", "")):
                for name in ("content-length", "content-type"):
                    del headers[name]
                begin["status"], body = 304, b""
        if body and takes_gzip(self._headers.get("accept-encoding", "")):
            body = await _made(_packed, body)
            headers["content-encoding"] = "gzip"
            headers["content-length"] = str(len(body))
        await self._send(begin)
        await self._send({"type": "http.response.body", "body": body})


async def _made(make: Callable[[bytes], T], body: bytes) -> T:
    return make(body) if len(body) <= _SMALL_BYTES else await asyncio.to_thread(make, body)


def _packed(body: bytes) -> bytes:
    return gzip.compress(body, 1, mtime=0)


def _is_meant(begin: Message) -> bool:
    if begin["status"] != 200:
        return False
    headers = Headers(raw=begin["headers"])
    if "content-encoding" in headers or "etag" in headers:
        return False
    size = headers.get("content-length", "")
    is_long = size.isdigit() and int(size) >= _LEAST_BYTES
    return is_long and headers.get("content-type", "").startswith(_TYPES)
