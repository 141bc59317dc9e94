"""Answers that take their time: long-polls and streams, which all end when the server stops."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from fastapi import Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from benchyard.api.deps import Services
from benchyard.errors import BenchyardError, StillWaiting

KEEP_ALIVE_SECONDS = 10.0

_STOPPING = {"code": 408, "message": "the server is stopping; connect again"}

T = TypeVar("T")


async def held(services: Services, answer: Coroutine[Any, Any, T], client: Request | None = None) -> T:
    """Wait for an answer, or raise StillWaiting when the server begins to stop.

    With `client` the work on the answer ends when that client leaves.
    """
    task = asyncio.ensure_future(answer)
    stopping = asyncio.ensure_future(services.stopping.wait())
    leaving = [asyncio.ensure_future(_left(client))] if client else []
    try:
        await asyncio.wait({task, stopping, *leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            is_stopping = stopping.done()
            raise StillWaiting(
                "the server is stopping; ask again in a moment" if is_stopping else "its client left"
            )
        return task.result()
    finally:
        await _cancelled(task, stopping, *leaving)


async def _left(client: Request) -> None:
    """Return once a client is gone whose request has come whole."""
    while (await client.receive())["type"] != "http.disconnect":
        pass


async def _cancelled(*tasks: "asyncio.Future[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def bytes_stream(services: Services, content: AsyncIterator[bytes]) -> StreamingResponse:
    """Bytes as they come."""
    return StreamingResponse(_until_stop(services, content), media_type="application/octet-stream")


def event_stream(services: Services, events: AsyncIterator[BaseModel]) -> StreamingResponse:
    """Events as they come, with comments in between so that nobody takes silence for death."""
    headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
    return StreamingResponse(_frames(services, events), media_type="text/event-stream", headers=headers)


async def _frames(services: Services, events: AsyncIterator[BaseModel]) -> AsyncIterator[str]:
    stopping = asyncio.ensure_future(services.stopping.wait())
    following = asyncio.ensure_future(_next(events))
    try:
        while not stopping.done():
            await asyncio.wait(
                {following, stopping}, timeout=KEEP_ALIVE_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if not following.done():
                yield ": still here\n\n"
                continue
            event = following.result()
            if event is None:
                return
            yield f"data: {event.model_dump_json(exclude_none=True)}\n\n"
            following = asyncio.ensure_future(_next(events))
        yield f"event: error\ndata: {json.dumps(_STOPPING)}\n\n"
    except BenchyardError as error:
        yield f"event: error\ndata: {json.dumps({**error.body(), 'code': error.http_status})}\n\n"
    finally:
        await _cancelled(following, stopping)


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
        await _cancelled(following, stopping)


async def _next(events: AsyncIterator[T]) -> T | None:
    return await anext(events, None)
