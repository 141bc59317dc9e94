"""Work that must not be cut in half."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from benchyard.errors import BenchyardError

_log = logging.getLogger(__name__)

T = TypeVar("T")


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Await something that must not be cut in half: a cancellation is delivered after it has ended."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        error = None if task.cancelled() else task.exception()
        if isinstance(error, BenchyardError):
            # Who gave up does not ask how it went, and others may have been in its way.
            _log.info("failed after nobody waited for it any more: %s", error.message)
        elif error is not None:
            _log.error("failed after nobody waited for it any more", exc_info=error)
        raise
