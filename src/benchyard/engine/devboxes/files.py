"""Files of devboxes for the API: text and bytes, in and out."""

import asyncio
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.descriptors import PIECE_BYTES, read_all, write_pieces
from benchyard.engine.devboxes.service import Devboxes
from benchyard.errors import UsageError
from benchyard.models.executions import ExecutionResultView

MAX_TEXT_BYTES = 100 * 1000**2


@dataclass(frozen=True)
class ReadableFile:
    """A file of a devbox, open for reading; its holder closes the descriptor."""

    descriptor: int
    path: str
    size: int


class Files:
    """The files of all devboxes, read and written as each devbox's user."""

    def __init__(self, tools: EngineContext, devboxes: Devboxes) -> None:
        self._tools = tools
        self._devboxes = devboxes

    async def read_text(self, devbox_id: str, path: str) -> bytes:
        """Return the bytes of a text file; raises UsageError if it is not UTF-8, TooLarge above 100 MB."""
        await self._check(devbox_id, path)
        descriptor = await self._tools.host.open_read(devbox_id, path)
        data = await read_all(descriptor, path, MAX_TEXT_BYTES)
        try:
            await asyncio.to_thread(data.decode)
        except UnicodeDecodeError as error:
            raise UsageError(f"{path} is not UTF-8 text; use download_file for its bytes") from error
        return data

    async def write_text(self, devbox_id: str, path: str, text: str) -> ExecutionResultView:
        """Write text to a file, making its directories."""
        await self._write(devbox_id, path, _encode(text))
        return ExecutionResultView(devbox_id=devbox_id, exit_status=0)

    async def upload(self, devbox_id: str, path: str, content: BinaryIO) -> None:
        """Write the content of a local file to a file of the devbox."""
        await self._write(devbox_id, path, _pieces(content))

    async def open(self, devbox_id: str, path: str) -> ReadableFile:
        """Open a file to be read in pieces."""
        await self._check(devbox_id, path)
        descriptor = await self._tools.host.open_read(devbox_id, path)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise UsageError(f"{path} is not a regular file")
        return ReadableFile(descriptor, path, status.st_size)

    async def _write(self, devbox_id: str, path: str, pieces: Iterator[bytes]) -> None:
        await self._check(devbox_id, path)
        descriptor = await self._tools.host.open_write(devbox_id, path)
        size = await write_pieces(descriptor, path, pieces)
        self._tools.note(devbox_id, "files", f"wrote {size} bytes to {path}")

    async def _check(self, devbox_id: str, path: str) -> None:
        if not path or "\0" in path or len(path.encode()) > 4096:
            raise UsageError("a path has 1 to 4096 bytes and no NUL character", field="path")
        await self._devboxes.running(devbox_id)


def _pieces(content: BinaryIO) -> Iterator[bytes]:
    while piece := content.read(PIECE_BYTES):
        yield piece


def _encode(text: str) -> Iterator[bytes]:
    for at in range(0, len(text), PIECE_BYTES):
        yield text[at : at + PIECE_BYTES].encode()
