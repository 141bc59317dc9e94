"""Work that comes to its end although whoever waited for it was cancelled."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from benchyard.errors import BenchyardError

_log = logging.getLogger(__name__)

T = TypeVar("T")


async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
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


_PATIENCE_SECONDS = 10.0


class PendingWork:
    """What was begun and has to come to its end."""

    def __init__(self) -> None:
        self._work: set[asyncio.Task[None]] = set()

    async def whole(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it; a cancellation leaves it to itself."""
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        await asyncio.shield(task)

    async def ended(self) -> None:
        """Wait until all of it has ended, for a while: what has not by then is taken up by the next host."""
        if self._work:
            await asyncio.wait(self._work, timeout=_PATIENCE_SECONDS)
