"""The contents of objects: streamed in and out of a folder, whole or not at all."""

import asyncio
import errno
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import obstore
from obstore.store import LocalStore

from benchyard.errors import DiskFull, NotFound, StoreError, is_disk_full

_PIECE = 1024**2
_PARTS_AT_ONCE = 2
_NO_SPACE = f"os error {errno.ENOSPC}"
_HALF_SENT = re.compile(r".*#\d+")
"""Names that the store gives to unfinished uploads; it does not list them."""


class ObjectContents:
    """Contents by path, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder
        self._store = LocalStore(folder)

    async def put(self, path: str, pieces: AsyncIterator[bytes]) -> int:
        """Store all pieces, synced to disk when this returns; an error in between leaves nothing behind."""
        with _store_errors(path):
            await obstore.put_async(
                self._store, path, pieces, chunk_size=4 * _PIECE, max_concurrency=_PARTS_AT_ONCE
            )
            file = self._folder / path
            await asyncio.to_thread(_sync, file, file.parent, self._folder)
            return (await obstore.head_async(self._store, path))["size"]

    async def read(self, path: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Yield the bytes from `start` up to (not including) `end`."""
        if end is not None and end <= start:
            return
        with _store_errors(path):
            if end is None:
                answer = await obstore.get_async(self._store, path, options={"range": {"offset": start}})
            else:
                answer = await obstore.get_async(self._store, path, options={"range": (start, end)})
            async for piece in answer.stream(min_chunk_size=_PIECE):
                yield bytes(piece)

    async def open(self, path: str) -> int:
        """Open a content for reading, and return the descriptor, which the caller closes."""
        with _store_errors(path):
            return await asyncio.to_thread(os.open, self._folder / path, os.O_RDONLY | os.O_CLOEXEC)

    async def delete(self, path: str) -> None:
        """Remove a content; a missing one is no error."""
        with _store_errors(path):
            try:
                await obstore.delete_async(self._store, path)
            except FileNotFoundError:
                return

    async def clear(self) -> None:
        """Remove the rest of uploads that the server's end interrupted; call before the first `put`."""
        with _store_errors(""):
            await asyncio.to_thread(_clear_half_sent, self._folder)

    async def paths(self) -> list[str]:
        """Return the paths of all contents."""
        with _store_errors(""):
            return [meta["path"] async for batch in obstore.list(self._store) for meta in batch]


@contextmanager
def _store_errors(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"the content of {path} is gone") from error
    except (obstore.exceptions.BaseError, OSError) as error:
        reason = str(error).partition("\n")[0]
        if is_disk_full(error) or _NO_SPACE in reason:
            raise DiskFull("the disk of the object store is full; free space there and try again") from error
        raise StoreError(f"the object store failed: {reason}") from error


def _clear_half_sent(folder: Path) -> None:
    for file in folder.rglob("*"):
        if _HALF_SENT.fullmatch(file.name):
            file.unlink(missing_ok=True)
    for path in folder.iterdir():
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def _sync(*paths: Path) -> None:
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
