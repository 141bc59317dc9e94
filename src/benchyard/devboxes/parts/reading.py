"""A file piece by piece, read beside everything else."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

_PIECE = 1024 * 1024


async def chunks(path: Path) -> AsyncIterator[bytes]:
    """The content of a file."""
    file = await asyncio.to_thread(path.open, "rb")
    try:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece
    finally:
        file.close()
