"""Bytes through descriptors of devbox files, in threads and in bounded pieces."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager

from benchyard.errors import DevboxError, DiskFull, TooLarge, is_disk_full

PIECE_BYTES = 1024**2
_SMALL_BYTES = 64 * 1024
Pieces = AsyncIterator[bytes] | Iterator[bytes]


@contextmanager
def file_errors(path: str) -> Iterator[None]:
    """Turn the kernel's errors about a devbox's file into errors of Benchyard."""
    try:
        yield
    except OSError as error:
        if is_disk_full(error):
            # Nothing but the machine's disk limits a devbox's writes; its own limit ends it, see ADR 0010.
            raise DiskFull(f"there is no space left to write {path}; free some and try again") from error
        raise DevboxError(f"{path}: {os.strerror(error.errno or 0)}") from error


def write_all(descriptor: int, data: bytes) -> None:
    """Write all bytes; blocks."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


async def write_pieces(descriptor: int, path: str, pieces: Pieces) -> int:
    """Write pieces to a devbox's file and close it; returns how many bytes there were."""
    total = 0
    try:
        with file_errors(path):
            async for piece in _each(pieces):
                await asyncio.to_thread(write_all, descriptor, piece)
                total += len(piece)
    finally:
        os.close(descriptor)
    return total


async def write_content(descriptor: int, path: str, content: bytes) -> None:
    """Write a devbox's file from memory, and close it."""
    try:
        with file_errors(path):
            if len(content) <= _SMALL_BYTES and stat.S_ISREG(os.fstat(descriptor).st_mode):
                # Directly into the page cache, which is faster than the switch to a thread and back.
                write_all(descriptor, content)
            else:
                await asyncio.to_thread(write_all, descriptor, content)
    finally:
        os.close(descriptor)


async def write_contents(descriptors: Sequence[int], contents: Mapping[str, bytes]) -> None:
    """Write devbox's files from memory, by path, each to its descriptor; closes all of them."""
    left = list(descriptors)
    try:
        for path, content in contents.items():
            await write_content(left.pop(0), path, content)
    finally:
        for descriptor in left:
            os.close(descriptor)


async def read_all(descriptor: int, path: str, limit: int) -> bytes:
    """Read a devbox's file to its end and close it; raises TooLarge above the limit."""
    try:
        with file_errors(path):
            return await asyncio.to_thread(_read_all, descriptor, path, limit)
    finally:
        os.close(descriptor)


async def read_pieces(descriptor: int, path: str, limit: int) -> AsyncIterator[bytes]:
    """Read up to this many bytes of a file in pieces; the descriptor stays open."""
    own = os.dup(descriptor)
    try:
        with file_errors(path):
            while piece := await asyncio.to_thread(os.read, own, min(limit, PIECE_BYTES)):
                yield piece
                limit -= len(piece)
    finally:
        os.close(own)


async def _each(pieces: Pieces) -> AsyncIterator[bytes]:
    if isinstance(pieces, AsyncIterator):
        async for piece in pieces:
            yield piece
    else:
        while piece := await asyncio.to_thread(next, pieces, b""):
            yield piece


def _read_all(descriptor: int, path: str, limit: int) -> bytes:
    pieces = bytearray()
    while piece := os.read(descriptor, PIECE_BYTES):
        pieces += piece
        if len(pieces) > limit:
            raise TooLarge(f"{path} is larger than {limit} bytes; use download_file")
    return bytes(pieces)
