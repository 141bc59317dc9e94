"""The contents of objects: streamed in and out of a folder, whole or not at all."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import obstore
from obstore.store import LocalStore

from benchyard.errors import NotFound, StoreError

_PIECE = 1024**2
_PARTS_AT_ONCE = 2


class Contents:
    """Contents by path, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder
        self._store = LocalStore(folder)

    async def put(self, path: str, pieces: AsyncIterator[bytes]) -> int:
        """Keep everything that comes, on disk when this returns; an error in between leaves nothing."""
        with _store_errors(path):
            await obstore.put_async(
                self._store, path, pieces, chunk_size=4 * _PIECE, max_concurrency=_PARTS_AT_ONCE
            )
            await asyncio.to_thread(_sync, self._folder / path)
            return (await obstore.head_async(self._store, path))["size"]

    async def read(self, path: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The bytes from `start` up to (not including) `end`."""
        if end is not None and end <= start:
            return
        with _store_errors(path):
            if end is None:
                found = await obstore.get_async(self._store, path, options={"range": {"offset": start}})
            else:
                found = await obstore.get_async(self._store, path, options={"range": (start, end)})
            async for piece in found.stream(min_chunk_size=_PIECE):
                yield bytes(piece)

    async def delete(self, path: str) -> None:
        """Remove a content; no error if it is not there."""
        with _store_errors(path):
            try:
                await obstore.delete_async(self._store, path)
            except FileNotFoundError:
                return

    async def paths(self) -> list[str]:
        """Everything that is kept."""
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
        raise StoreError(f"the object store failed: {reason}") from error


def _sync(file: Path) -> None:
    for path in (file, file.parent):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
