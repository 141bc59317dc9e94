"""What a grant has used, counted as it goes."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from benchyard.gateway.grants import Spent
from benchyard.gateway.reading import Kept, is_unmetered, is_unpriced
from benchyard.gateway.recording import Metered


class Tally:
    """The count of one grant; it goes on where its file ended."""

    def __init__(self, kept: Kept | None = None) -> None:
        self._spent = kept.spent if kept else Spent()
        self.unmetered = kept.unmetered if kept else 0
        """Calls that may have used what nobody told us of."""
        self._last_number = kept.last_number if kept else 0
        self._held = 0
        self._held_since = 0.0
        self._settling: set[asyncio.Future[Any]] = set()

    @property
    def spent(self) -> Spent:
        """What was used until now, with a wait that goes on."""
        waiting = time.monotonic() - self._held_since if self._held else 0.0
        return replace(self._spent, rate_limited_ms=self._spent.rate_limited_ms + round(waiting * 1000))

    def begin(self) -> int:
        """Count a call, and number it."""
        self._last_number += 1
        self._spent = replace(self._spent, calls=self._spent.calls + 1)
        return self._last_number

    def pass_on(self) -> int:
        """Count a request that is no call of a model; how many there are."""
        self._spent = replace(self._spent, others=self._spent.others + 1)
        return self._spent.others

    def end(self, metering: "asyncio.Future[Metered]") -> None:
        """Count what a call comes to, as soon as that is known."""
        self._settling.add(metering)
        metering.add_done_callback(self._settle)

    async def settled(self) -> None:
        """Wait until every call that ended is counted."""
        while self._settling:
            await asyncio.wait(list(self._settling))

    def refuse(self, words: str) -> None:
        """Note which budget refused a request."""
        self._spent = replace(self._spent, over_budget=words)

    @contextmanager
    def held(self) -> Iterator["Wait"]:
        """While the provider lets us wait; requests that wait at the same time count once."""
        wait = Wait(time.monotonic())
        if not self._held:
            self._held_since = wait.since
        self._held += 1
        try:
            yield wait
        finally:
            now = time.monotonic()
            self._held -= 1
            wait.waited_ms = round((now - wait.since) * 1000)
            if not self._held:
                wait.limited_ms = round((now - self._held_since) * 1000)
                total = self._spent.rate_limited_ms + wait.limited_ms
                self._spent = replace(self._spent, rate_limited_ms=total)

    def _settle(self, metering: "asyncio.Future[Metered]") -> None:
        self._settling.discard(metering)
        if metering.cancelled() or metering.exception() is not None:
            self.unmetered += 1
            return
        metered = metering.result()
        spent = replace(self._spent, last_error=metered.error, last_status=metered.status)
        self.unmetered += is_unmetered(metered.status, metered.error, told=metered.usage is not None)
        if metered.usage is not None:
            cost = _sum(spent.cost_usd, metered.cost_usd)
            spent = replace(spent, usage=spent.usage + metered.usage, cost_usd=cost)
        elif is_unpriced(metered.status):
            spent = replace(spent, cost_usd=None)
        self._spent = spent


class Wait:
    """One time that a request was held."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.waited_ms = 0
        self.limited_ms = 0
        """What it adds to its grant's: 0 while others are held, too."""


def _sum(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left + right
