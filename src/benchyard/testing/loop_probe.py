"""A probe of the event loop: the processor time of each callback."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

MOST_SECONDS = 0.05
"""Processor time that one callback of a server may take."""


@dataclass
class LoopProbe:
    """The callbacks that took longest, so far."""

    seconds: float = 0.0
    callback: str = ""
    slow: list[str] = field(default_factory=list)
    """Callbacks that took more than that."""

    def note(self, seconds: float, callback: str) -> None:
        """Take one callback into account."""
        if seconds > self.seconds:
            self.seconds, self.callback = seconds, callback
        if seconds > MOST_SECONDS:
            self.slow.append(f"{seconds:.3f} s of {callback[:300]}")


@contextmanager
def loop_probe() -> Iterator[LoopProbe]:
    """Measure every callback of asyncio's own loop, in this process, for the block."""
    probe, run = LoopProbe(), asyncio.Handle._run  # noqa: SLF001  (what the loop calls for each)

    def measured(handle: asyncio.Handle) -> None:
        begin = time.thread_time()
        try:
            run(handle)
        finally:
            # A callback is described only when it counts: describing costs more than most of them take.
            spent = time.thread_time() - begin
            if spent > probe.seconds or spent > MOST_SECONDS:
                probe.note(spent, repr(handle))

    asyncio.Handle._run = measured  # type: ignore[method-assign,assignment]  # noqa: SLF001
    try:
        yield probe
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]  # noqa: SLF001
