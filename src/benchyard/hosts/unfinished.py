"""Work that goes on when whoever asked for it has gone, and is waited for before its host closes."""

import asyncio
from collections.abc import Coroutine
from typing import Any

_PATIENCE_SECONDS = 10.0


class Unfinished:
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
