"""Work that runs to its end although its caller was cancelled, and waits that end by themselves."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from benchyard.errors import BenchyardError

_log = logging.getLogger(__name__)

T = TypeVar("T")


async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Await work that must not be interrupted: a cancellation is delivered after its end."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        error = None if task.cancelled() else task.exception()
        if isinstance(error, BenchyardError):
            # The cancelled caller does not learn the result, and other work may have been in its way.
            _log.info("failed after its caller was cancelled: %s", error.message)
        elif error is not None:
            _log.error("failed after its caller was cancelled", exc_info=error)
        raise


async def wait_at_most(seconds: float, event: Awaitable[object]) -> None:
    """Wait for this, but no longer than this many seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event


_PATIENCE_SECONDS = 10.0


class PendingWork:
    """Work under way that must run to its end."""

    def __init__(self) -> None:
        self._work: set[asyncio.Task[None]] = set()

    async def whole(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work; if cancelled, let it go on in the background."""
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        await asyncio.shield(task)

    async def wait_until_ended(self) -> None:
        """Wait a while until all of it has ended; the next host takes up the rest."""
        if self._work:
            await asyncio.wait(self._work, timeout=_PATIENCE_SECONDS)
