"""Waits as long as it takes: a server holds a request for a while, and is asked again."""

import time
from collections.abc import Callable
from typing import TypeVar

from benchyard.client.core import Steps, pause
from benchyard.errors import StillWaiting

T = TypeVar("T")

HOLD_SECONDS = 20.0
PAUSE_SECONDS = 0.05


def insist(ask: Callable[[float], Steps[T]], timeout: float | None) -> Steps[T]:
    """Ask, telling how many seconds to hold, until there is an answer.

    Raises StillWaiting when there is none and the timeout is over; without one, it never gives up.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        hold = HOLD_SECONDS if deadline is None else min(HOLD_SECONDS, deadline - time.monotonic())
        try:
            return (yield from ask(max(hold, 0.0)))
        except StillWaiting:
            if deadline is not None and time.monotonic() >= deadline:
                raise
            # A server that stops does not hold.
            yield from pause(PAUSE_SECONDS)
