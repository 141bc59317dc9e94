"""Records of live devboxes in memory, written through to the store; changes wake waiting tasks."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from benchyard.engine.devboxes.states import ENDED
from benchyard.hosts.cancellation import run_to_end
from benchyard.models.devboxes import Devbox, DevboxStatus
from benchyard.store.collection import Collection

LIVE = tuple(status.value for status in DevboxStatus if status not in ENDED)


@dataclass
class _Entry:
    record: Devbox
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class LiveDevboxes:
    """All devbox records; those of live devboxes are read from memory."""

    def __init__(
        self, records: Collection[Devbox], on_move: Callable[[Devbox], None] = lambda devbox: None
    ) -> None:
        self.records = records
        self._on_move = on_move
        self._live: dict[str, _Entry] = {}

    async def load(self) -> None:
        """Load the live records from the store."""
        self._live = {record.id: _Entry(record) for record in await self.records.all({"status": LIVE})}

    def live(self) -> list[Devbox]:
        """Return all devboxes that have not ended."""
        return [entry.record for entry in self._live.values()]

    def living(self, devbox_id: str) -> Devbox | None:
        """Return the record with this id, if it has not ended."""
        entry = self._live.get(devbox_id)
        return entry.record if entry else None

    async def add(self, devbox: Devbox) -> tuple[Devbox, bool]:
        """Add a record unless the same request did before; returns the stored one, and whether it is new."""
        kept, is_new = await run_to_end(self.records.insert_once(devbox))
        if is_new:
            self._live[kept.id] = _Entry(kept)
        return kept, is_new

    async def get(self, devbox_id: str) -> Devbox:
        """Return the record with this id; raises NotFound."""
        entry = self._live.get(devbox_id)
        return entry.record if entry else await self.records.get(devbox_id)

    async def change(self, devbox_id: str, change: Callable[[Devbox], Devbox]) -> Devbox:
        """Change a record in store and memory, and wake the tasks that wait for it; raises NotFound."""
        record, _ = await self.move(devbox_id, change)
        return record

    async def move(self, devbox_id: str, change: Callable[[Devbox], Devbox]) -> tuple[Devbox, bool]:
        """Change a record as `change` does; returns also whether its status was another in memory."""
        entry = self._live.get(devbox_id)
        if entry is None:
            return await self.records.change(devbox_id, change), False
        return await run_to_end(self._change(entry, change))

    async def wait(self, devbox_id: str, is_reached: Callable[[Devbox], bool], timeout: float) -> Devbox:
        """Return the record once the condition holds or the time is over; raises NotFound."""
        entry = self._live.get(devbox_id) or _Entry(await self.records.get(devbox_id))
        try:
            async with asyncio.timeout(timeout):
                while not is_reached(entry.record):
                    await entry.changed.wait()
        except TimeoutError:
            pass
        return entry.record

    async def _change(self, entry: _Entry, change: Callable[[Devbox], Devbox]) -> tuple[Devbox, bool]:
        async with entry.lock:
            before = entry.record.status
            entry.record = await self.records.change(entry.record.id, change)
            # Compare with memory: after a lost connection, a change that seemed to fail may have been stored.
            is_moved = entry.record.status is not before
            if is_moved:
                self._on_move(entry.record)
            if entry.record.status in ENDED:
                self._live.pop(entry.record.id, None)
            entry.changed.set()
            entry.changed = asyncio.Event()
            return entry.record, is_moved
