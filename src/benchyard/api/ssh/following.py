"""Output of a command as it comes, read more eagerly right after somebody has typed."""

import asyncio
from collections.abc import AsyncIterator

from benchyard.hosts.host import Host

_EAGER_SECONDS = 0.004
_LAZY_SECONDS = 0.1


class Following:
    """One execution whose output is read by those who feed it."""

    def __init__(self, host: Host, devbox_id: str, execution_id: str) -> None:
        self._host = host
        self._devbox_id = devbox_id
        self._execution_id = execution_id
        self._fed = asyncio.Event()

    def fed(self) -> None:
        """Note that the command was sent something, to which it may answer at once."""
        self._fed.set()

    async def output(self, stream: str, offset: int = 0) -> AsyncIterator[bytes]:
        """Everything of a stream from an offset on, until the command has ended."""
        delay = _EAGER_SECONDS
        while True:
            is_last = await self.has_ended()
            before = offset
            pieces = self._host.output(self._devbox_id, self._execution_id, stream, offset, follow=False)
            async for piece in pieces:
                offset += len(piece)
                yield piece
            if is_last:
                return
            delay = _EAGER_SECONDS if offset > before else min(delay * 1.5, _LAZY_SECONDS)
            if await self._was_fed(delay):
                delay = _EAGER_SECONDS

    async def has_ended(self) -> bool:
        """Whether the command has ended."""
        state = await self._host.execution(self._devbox_id, self._execution_id)
        return state.status == "completed"

    async def _was_fed(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._fed.wait()
        except TimeoutError:
            return False
        self._fed.clear()
        return True
