"""Ordered events of jobs and other things that clients follow: rows that are only ever added."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from sqlalchemy import Connection, Integer, bindparam, insert, select

from benchyard.store.statements import Statement, StatementRows
from benchyard.store.tables import EVENTS

R = TypeVar("R")
MOST_AT_ONCE = 1000

_ADD = Statement(insert(EVENTS).values(parent=bindparam("parent"), body=bindparam("body")))

_AFTER = Statement(
    select(EVENTS.c.seq, EVENTS.c.body)
    .where(EVENTS.c.parent == bindparam("own_parent"), EVENTS.c.seq > bindparam("last"))
    .order_by(EVENTS.c.seq)
    .limit(bindparam("most", type_=Integer))
)


class DatabaseReader(Protocol):
    """Database that events are read from."""

    async def read(self, work: Callable[[Connection], R]) -> R:
        """Run statements that only read."""


class EventLog:
    """The events of all things that have some."""

    def __init__(self, database: DatabaseReader) -> None:
        self._database = database

    def adding(self, parent: str, bodies: Sequence[str]) -> StatementRows:
        """Return the statement that adds events, as a part of a transaction."""
        return StatementRows(_ADD, [{"parent": parent, "body": body} for body in bodies])

    async def after(self, parent: str, seq: int) -> list[tuple[int, str]]:
        """Return the next events of a thing, with their numbers; at most `MOST_AT_ONCE` of them."""
        values = {"own_parent": parent, "last": seq, "most": MOST_AT_ONCE}
        return await self._database.read(
            lambda connection: [(row.seq, row.body) for row in _AFTER.run(connection, values)]
        )
