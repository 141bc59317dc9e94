"""Work that is asked for several times at once and done once."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from benchyard.images.build import Log

T = TypeVar("T")
_REPLAYED_LINES = 10_000


class _Job(Generic[T]):
    """One piece of work under way, and everybody who waits for it."""

    def __init__(self, work: Callable[[Log], Awaitable[T]]) -> None:
        self.listeners: list[Log] = []
        self.lines: deque[str] = deque(maxlen=_REPLAYED_LINES)
        self.task = asyncio.ensure_future(work(self.tell))

    def tell(self, line: str) -> None:
        self.lines.append(line)
        for listener in self.listeners:
            listener(line)


class Sharing(Generic[T]):
    """Jobs by key. The work is cancelled when nobody waits for it any more."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job[T]] = {}

    async def run(self, key: str, work: Callable[[Log], Awaitable[T]], log: Log) -> T:
        """Do the work, or wait for whoever does; all are told the same lines."""
        job = self._jobs.get(key)
        if job is None:
            job = self._jobs[key] = _Job(work)
            job.task.add_done_callback(lambda _done: self._jobs.pop(key, None))
        for line in job.lines:
            log(line)
        job.listeners.append(log)
        try:
            return await asyncio.shield(job.task)
        finally:
            job.listeners.remove(log)
            if not job.listeners and not job.task.done():
                # Whoever asks from now on begins anew, rather than with what is being cancelled.
                if self._jobs.get(key) is job:
                    del self._jobs[key]
                job.task.cancel()
                await asyncio.gather(job.task, return_exceptions=True)
