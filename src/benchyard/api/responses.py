"""An answer that is a file of a devbox, sent piece by piece."""

import asyncio
import os

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from benchyard.engine.devboxes.descriptors import PIECE_BYTES, file_errors
from benchyard.engine.devboxes.files import ReadableFile
from benchyard.errors import DevboxError


class DevboxFileResponse(Response):
    """Sends an opened file and closes it, whatever happens on the way."""

    media_type = "application/octet-stream"

    def __init__(self, file: ReadableFile) -> None:
        super().__init__()
        self._file = file
        self.headers["content-length"] = str(file.size)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the headers, then as many bytes as were promised."""
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
