"""How much is left of devboxes that do not run: looked at now and then, when somebody asks."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from benchyard.api.log import logger
from benchyard.hosts.leaks import KINDS, Leak

EVERY_SECONDS = 60.0


class Leakage:
    """Counts leaks, in a thread and at most once per `every` seconds: a look reads much of `/proc`."""

    def __init__(
        self,
        find: Callable[[], Sequence[Leak]],
        every: float = EVERY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find = find
        self._every = every
        self._clock = clock
        self._counts: Mapping[str, int] | None = None
        self._looked_at = 0.0
        self._look: asyncio.Task[None] | None = None

    async def counts(self) -> Mapping[str, int]:
        """Leaks by kind, as they were at the last look; only the first one is waited for."""
        is_old = self._counts is None or self._clock() - self._looked_at >= self._every
        if is_old and (self._look is None or self._look.done()):
            self._look = asyncio.create_task(self._count())
        if self._counts is None and self._look is not None:
            await asyncio.shield(self._look)
        return self._counts or {}

    async def _count(self) -> None:
        began = self._clock()
        try:
            found = await asyncio.to_thread(self._find)
        except (OSError, ValueError) as error:
            # The machine changed under the look; the next one finds it still.
            logger.warning("leaks could not be counted, will try again: %s", error)
            return
        counted = Counter(leak.kind for leak in found)
        self._counts = {kind: counted[kind] for kind in KINDS}
        self._looked_at = began
