"""Records of scenario runs: atomic changes, and waiting for them."""

import asyncio
from collections.abc import Callable
from weakref import WeakValueDictionary

from benchyard.errors import StillWaiting
from benchyard.hosts.cancellation import wait_at_most
from benchyard.models.runs import ScenarioRun
from benchyard.store.collection import Collection

_LOOK_SECONDS = 1.0
"""Seconds between looks at a run during a wait, in addition to wake-ups."""

Change = Callable[[ScenarioRun], ScenarioRun]


class RunRecords:
    """Store of scenario runs that wakes waiting tasks."""

    def __init__(self, records: Collection[ScenarioRun]) -> None:
        self.records = records
        self._changed: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()

    async def change(self, id: str, change: Change) -> ScenarioRun:
        """Replace a record by the result of `change`; raises NotFound."""
        run = await self.records.change(id, change)
        if waiting := self._changed.pop(id, None):
            waiting.set()
        return run

    async def until(self, id: str, is_there: Callable[[ScenarioRun], bool], seconds: float) -> ScenarioRun:
        """Return the run once this is true; raises StillWaiting when the time is over."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not is_there(run := await self.records.get(id)):
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                raise StillWaiting(f"scenario run {id} is {run.state}; ask again", status=run.state)
            changed = self._changed.setdefault(id, asyncio.Event())
            await wait_at_most(min(left, _LOOK_SECONDS), changed.wait())
        return run
