"""What ended on this machine, on its way to whoever reads it."""

import asyncio
import logging

from benchyard.devboxes.base import Event

_logger = logging.getLogger(__name__)

_MOST = 100_000


class Events:
    """A queue that does not grow for ever where nobody reads it."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Event] = asyncio.Queue(_MOST)

    def tell(self, event: Event) -> None:
        """Add one."""
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            # Events are hints: a reader that is this far behind looks at the state anyway.
            _logger.warning("an event was dropped because nobody reads them: %s", event)

    async def next(self) -> Event:
        """Wait for the next one."""
        return await self._queue.get()
