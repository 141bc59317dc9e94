"""Records that change often, remembered: what was read or written last need not be read again.

Only for tables that nobody but this process writes, and only through this.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakValueDictionary

from sqlalchemy import Table

from benchyard.models.base import Record
from benchyard.store.collection import Collection, Database
from benchyard.store.connections import until_ended

T = TypeVar("T", bound=Record)

_REMEMBERED = 2048


class LiveCollection(Collection[T]):
    """A collection that remembers the records it was last asked for."""

    def __init__(self, database: Database, table: Table, model: type[T]) -> None:
        super().__init__(database, table, model)
        self._known: OrderedDict[str, T] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def insert(self, record: T) -> T:
        """Add a record; raises Conflict with `existing=True` if its id, or a unique name, is taken."""
        return self._remember(await super().insert(record))

    async def find(self, id: str) -> T | None:
        """The record of that id, or None."""
        known = self._known.get(id)
        if known is not None:
            return known
        # Not while somebody changes it: what is read before and remembered after would be old.
        async with self._lock(id):
            found = await super().find(id)
            return self._remember(found) if found else None

    async def change(self, id: str, change: Callable[[T], T]) -> T:
        """Replace a record by what `change` makes of it, with nobody in between; raises NotFound."""
        async with self._lock(id):
            old = self._known.get(id)
            if old is None:
                return await until_ended(asyncio.ensure_future(self._change(id, change)))
            new = change(old)
            if new is not old:
                # Whatever goes wrong, it is read again before anybody believes it.
                self._known.pop(id, None)
                await self._database.write_whole(self.rows.putting(new))
                self._remember(new)
            return new

    async def delete(self, id: str) -> None:
        """Remove a record; raises NotFound."""
        async with self._lock(id):
            self._known.pop(id, None)
            await super().delete(id)

    async def _change(self, id: str, change: Callable[[T], T]) -> T:
        return self._remember(await super().change(id, change))

    def _lock(self, id: str) -> asyncio.Lock:
        return self._locks.setdefault(id, asyncio.Lock())

    def _remember(self, record: T) -> T:
        self._known[record.id] = record
        self._known.move_to_end(record.id)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return record
