"""Archives as answers: packed first, so that their size is known, and gone however the sending ends."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Protocol

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from benchyard.api.deps import Services
from benchyard.api.holding import held

TAR = "application/x-tar"
ZIP = "application/zip"


class Archive(Protocol):
    """Something packed that waits to be sent."""

    size: int

    def chunks(self) -> AsyncIterator[bytes]:
        """All of it, in pieces that fit into memory."""


async def archive_response(
    services: Services, packing: AbstractAsyncContextManager[Archive], media_type: str = TAR
) -> StreamingResponse:
    """The answer that sends an archive; what it was packed into is gone afterwards."""
    stack = AsyncExitStack()
    archive = await held(services, stack.enter_async_context(packing))
    return _ArchiveResponse(archive, stack, media_type)


class _ArchiveResponse(StreamingResponse):
    """Sends an archive and lets go of it, also when the client went away."""

    def __init__(self, archive: Archive, stack: AsyncExitStack, media_type: str) -> None:
        headers = {"content-length": str(archive.size), "content-disposition": "attachment"}
        super().__init__(archive.chunks(), headers=headers, media_type=media_type)
        self._stack = stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._stack:
            await super().__call__(scope, receive, send)
