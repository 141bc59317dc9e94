"""Requests whose bodies never block the event loop: a large one is kept in a file and parsed by a worker."""

import asyncio
import json
import os
from collections.abc import Callable
from typing import Any

from fastapi import Request

from benchyard.api.deps import services_of
from benchyard.errors import TooLarge, WorkerFailed
from benchyard.workers import json_texts
from benchyard.workers.workers import SMALL_BYTES, WorkerLimits

_PARSE = "benchyard.workers.json_texts:parse"
_LIMITS = WorkerLimits(seconds=60, memory_bytes=4 * 1024**3, output_bytes=1024**3)


class JsonRequest(Request):
    """A FastAPI request whose `json` lets a worker process parse a large body."""

    digest: str | None = None
    """Digest of a large body's content once it is parsed, independent of JSON formatting."""
    _large: int | None = None
    """Descriptor of a large body, in a file in memory."""

    async def body(self) -> bytes:
        """Return the body, or only a placeholder for a large one, to show that there is one."""
        if not hasattr(self, "_body"):
            pieces: list[bytes] = []
            size = 0
            async for piece in self.stream():
                size += len(piece)
                if size > SMALL_BYTES and self._large is None:
                    self._large = os.memfd_create("body", os.MFD_CLOEXEC)
                    _write(self._large, b"".join(pieces))
                if self._large is None:
                    pieces.append(piece)
                else:
                    _write(self._large, piece)
            self._body = b"".join(pieces) or (b"{" if size else b"")
        return self._body

    async def is_large(self) -> bool:
        """Tell whether the body is too large to be parsed in this process."""
        await self.body()
        return self._large is not None

    async def json(self) -> Any:
        """Return the parsed body; raises JSONDecodeError."""
        if not hasattr(self, "_json"):
            body = await self.body()
            self._json = json.loads(body) if self._large is None else await self._parsed(self._large)
        return self._json

    def close_body(self) -> None:
        """Release a large body."""
        if self._large is not None:
            os.close(self._large)

    async def _parsed(self, descriptor: int) -> Any:
        try:
            result = await services_of(self).workers.call(_PARSE, descriptor, limits=_LIMITS)
        except WorkerFailed as error:
            raise TooLarge(f"the body is too costly to parse: {error.message}") from error
        parsed = await asyncio.to_thread(json_texts.ParsedJson.of, result)
        self.digest = parsed.digest
        if parsed.reason is not None:
            raise json.JSONDecodeError(parsed.reason, "", parsed.place)
        return parsed.value


Handler = Callable[[Request], Any]


def with_large_bodies(handler: Handler) -> Handler:
    """Wrap a route's handler so that it gets a JsonRequest."""

    async def handle(request: Request) -> Any:
        own = JsonRequest(request.scope, request.receive)
        try:
            return await handler(own)
        finally:
            own.close_body()

    return handle


def _write(descriptor: int, piece: bytes) -> None:
    view = memoryview(piece)
    while view:
        view = view[os.write(descriptor, view) :]
