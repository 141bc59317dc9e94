"""Waiting out rate limits: one pool per upstream and key, because a provider counts all that a key asks for.

While one request is told to come back later, the others of its pool wait too. Then they go one after the
other, so that a provider that says it again says it to one.
"""

import asyncio
import email.utils
import random
import time
from collections.abc import Mapping

LIMITED = frozenset({429, 503, 529})
"""Answers that say: not now."""
_FINAL = (b"insufficient_quota", b"billing_hard_limit_reached")
"""Words in such an answer that say: not later either."""
_FIRST_SECONDS = 0.5
_LONGEST_SECONDS = 60.0
_SPACING_SECONDS = 0.1
_JITTER = 0.25


class Pool:
    """Those who ask one upstream with one key."""

    def __init__(self) -> None:
        self._until = 0.0
        """When those who were told to wait may come back."""
        self._next = 0.0
        """When the next one may."""
        self._strikes = 0
        self._turn = asyncio.Lock()

    @property
    def is_waiting(self) -> bool:
        """Whether somebody was told to wait, or waits."""
        return self._left() > 0 or self._turn.locked()

    def told(self, seconds: float | None) -> float:
        """Note that an answer said to wait; returns for how long."""
        now = time.monotonic()
        if self._until <= now:
            self._strikes += 1
        delay = seconds
        if delay is None:
            delay = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2 ** min(self._strikes - 1, 16))
        self._until = max(self._until, now + delay * (1 + random.uniform(0, _JITTER)))  # noqa: S311
        return delay

    def answered(self) -> None:
        """Note that an answer did not say to wait."""
        self._strikes = 0

    async def turn(self) -> None:
        """Wait until it is this one's turn."""
        if not self.is_waiting:
            return
        async with self._turn:
            # Whoever is under way may be told to wait longer in the meantime.
            left = self._left()
            while left > 0:
                await asyncio.sleep(left)
                left = self._left()
            self._next = time.monotonic() + _SPACING_SECONDS * random.uniform(0.5, 1.5)  # noqa: S311

    def _left(self) -> float:
        return max(self._until, self._next) - time.monotonic()


def seconds_told(headers: Mapping[str, str]) -> float | None:
    """How long an answer says to wait; None if it does not."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if value.replace(".", "", 1).isdecimal() and len(value) < 12:
            return float(value) * unit
    try:
        moment = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - time.time())


def is_final(body: bytes) -> bool:
    """Whether waiting would not help."""
    return any(word in body for word in _FINAL)
