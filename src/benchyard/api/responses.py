"""Answers that take long or are large: long-polls, streams, lists, archives and files of devboxes."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Protocol, TypeVar

from fastapi import Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from benchyard.api.deps import Services
from benchyard.api.report_cache import Report
from benchyard.engine.devboxes.descriptors import PIECE_BYTES, file_errors
from benchyard.engine.devboxes.files import ReadableFile
from benchyard.errors import BenchyardError, DevboxError, StillWaiting
from benchyard.models.pages import Page

KEEP_ALIVE_SECONDS = 10.0

_STOPPING = {"code": 408, "message": "the server is stopping; connect again"}

T = TypeVar("T")


async def wait_for_answer(
    services: Services, answer: Coroutine[Any, Any, T], client: Request | None = None
) -> T:
    """Wait for an answer; raise StillWaiting if the server begins to stop.

    With `client`, the work on the answer also ends when that client leaves.
    """
    task = asyncio.ensure_future(answer)
    stopping = asyncio.ensure_future(services.stopping.wait())
    leaving = [asyncio.ensure_future(_wait_until_left(client))] if client else []
    try:
        await asyncio.wait({task, stopping, *leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            is_stopping = stopping.done()
            raise StillWaiting(
                "the server is stopping; ask again in a moment" if is_stopping else "its client left"
            )
        return task.result()
    finally:
        await _cancel(task, stopping, *leaving)


async def _wait_until_left(client: Request) -> None:
    """Return once a client has gone; its request must be read completely."""
    while (await client.receive())["type"] != "http.disconnect":
        pass


async def _cancel(*tasks: "asyncio.Future[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def bytes_stream(
    services: Services, content: AsyncIterator[bytes], media_type: str = "application/octet-stream"
) -> StreamingResponse:
    """Return an answer with bytes as they arrive."""
    return StreamingResponse(_until_stop(services, content), media_type=media_type)


def event_stream(services: Services, events: AsyncIterator[BaseModel]) -> StreamingResponse:
    """Return an answer with events as they arrive, and comments in between that show it is alive."""
    return frame_stream(services, (_frame(each) async for each in events))


def frame_stream(services: Services, frames: AsyncIterator[bytes]) -> StreamingResponse:
    """Return an answer with whole frames of events as they arrive; see `event_stream`."""
    headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
    return StreamingResponse(_frames(services, frames), media_type="text/event-stream", headers=headers)


def _frame(event: BaseModel) -> bytes:
    return f"data: {event.model_dump_json(exclude_none=True)}\n\n".encode()


async def _frames(services: Services, frames: AsyncIterator[bytes]) -> AsyncIterator[bytes | str]:
    stopping = asyncio.ensure_future(services.stopping.wait())
    following = asyncio.ensure_future(_next(frames))
    try:
        while not stopping.done():
            await asyncio.wait(
                {following, stopping}, timeout=KEEP_ALIVE_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if not following.done():
                yield ": still here\n\n"
                continue
            frame = following.result()
            if frame is None:
                return
            yield frame
            following = asyncio.ensure_future(_next(frames))
        yield f"event: error\ndata: {json.dumps(_STOPPING)}\n\n"
    except BenchyardError as error:
        yield f"event: error\ndata: {json.dumps({**error.body(), 'code': error.http_status})}\n\n"
    finally:
        await _cancel(following, stopping)


async def _until_stop(services: Services, content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    stopping = asyncio.ensure_future(services.stopping.wait())
    following = asyncio.ensure_future(_next(content))
    try:
        while not stopping.done():
            await asyncio.wait({following, stopping}, return_when=asyncio.FIRST_COMPLETED)
            piece = following.result() if following.done() else None
            if piece is None:
                return
            yield piece
            following = asyncio.ensure_future(_next(content))
    finally:
        await _cancel(following, stopping)


async def _next(events: AsyncIterator[T]) -> T | None:
    return await anext(events, None)


async def list_answer(name: str, items: Sequence[BaseModel | Report], page: Page[Any]) -> Response:
    """Return a page of a list, under its name, as an answer that is written while the event loop goes on."""
    text = await asyncio.to_thread(_page_text, name, items, page)
    return Response(text, media_type="application/json")


def _page_text(name: str, items: Sequence[BaseModel | Report], page: Page[Any]) -> bytes:
    # Each thing by itself: one call of the library for all of them would hold the lock of all threads.
    texts = b",".join(map(_item_text, items))
    rest: dict[str, object] = {"has_more": page.has_more}
    if page.total_count is not None:
        rest["total_count"] = page.total_count
    return b'{"%s":[%s],%s' % (name.encode(), texts, json.dumps(rest)[1:].encode())


def _item_text(item: BaseModel | Report) -> bytes:
    if isinstance(item, Report):
        return item.text
    return item.model_dump_json(exclude_none=True, by_alias=True).encode()


TAR = "application/x-tar"
ZIP = "application/zip"


class SendableArchive(Protocol):
    """A packed archive, ready to be sent."""

    size: int

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the content in pieces that fit into memory."""


async def archive_response(
    services: Services, packing: AbstractAsyncContextManager[SendableArchive], media_type: str = TAR
) -> StreamingResponse:
    """Return the answer that sends an archive; its temporary files are removed afterwards."""
    stack = AsyncExitStack()
    archive = await wait_for_answer(services, stack.enter_async_context(packing))
    return _ArchiveResponse(archive, stack, media_type)


class _ArchiveResponse(StreamingResponse):
    """Sends an archive and then removes it, also if the client went away."""

    def __init__(self, archive: SendableArchive, stack: AsyncExitStack, media_type: str) -> None:
        headers = {"content-length": str(archive.size), "content-disposition": "attachment"}
        super().__init__(archive.chunks(), headers=headers, media_type=media_type)
        self._stack = stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._stack:
            await super().__call__(scope, receive, send)


class DevboxFileResponse(Response):
    """Sends an opened file and closes it, whatever happens on the way."""

    media_type = "application/octet-stream"

    def __init__(self, file: ReadableFile) -> None:
        super().__init__()
        self._file = file
        self.headers["content-length"] = str(file.size)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the headers, then as many bytes as they announce."""
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            left = self._file.size
            while left:
                with file_errors(self._file.path):
                    piece = await asyncio.to_thread(os.read, self._file.descriptor, min(left, PIECE_BYTES))
                if not piece:
                    raise DevboxError(f"{self._file.path} became shorter while it was read; try again")
                left -= len(piece)
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            os.close(self._file.descriptor)
