"""The watch on disks: where no quota holds a devbox's changed layer, it is measured again and again."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable

from benchyard.devboxes.base import DevboxSpec, Driver, Limits
from benchyard.errors import BenchyardError

_logger = logging.getLogger(__name__)

_PAUSE_SECONDS = 2.0
_SHARE = 20
"""A tree that takes long to measure is measured seldom: at most this fraction of the time goes into it."""


async def overfull(running: Callable[[], list[DevboxSpec]], driver: Driver) -> AsyncIterator[tuple[str, str]]:
    """Devboxes over a limit of their disk, and which one it is, for ever."""
    due: dict[str, float] = {}
    while True:
        specs = running()
        due = {spec.id: due.get(spec.id, 0.0) for spec in specs}
        for spec in specs:
            began = time.monotonic()
            if due[spec.id] > began or not spec.changes.exists():
                continue
            try:
                async with driver.storage.changes(spec) as changes:
                    used, entries = await driver.trees.usage(changes)
            except (OSError, BenchyardError) as error:
                _logger.warning("the disk of %s could not be measured: %s", spec.id, error)
                continue
            ended = time.monotonic()
            due[spec.id] = ended + (ended - began) * _SHARE
            excess = _excess(used, entries, spec.limits)
            if excess:
                yield spec.id, excess
        await asyncio.sleep(_PAUSE_SECONDS)


def _excess(used: int, entries: int, limits: Limits) -> str | None:
    if used > limits.disk_bytes:
        return f"the disk holds {used} bytes, more than the devbox's size allows; create a larger one"
    if entries > limits.disk_entries:
        return f"the disk holds {entries} new files; {limits.disk_entries} are allowed: remove some sooner"
    return None
