"""The records of one table: insert, look up, change, list."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    delete,
    func,
    insert,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.exc import IntegrityError

from benchyard.errors import Conflict, NotFound, UsageError
from benchyard.models.base import Record
from benchyard.models.pages import MAX_LIMIT, Page, Query, Where
from benchyard.store.bodies import body_field, metadata_items, metadata_value

R = TypeVar("R")
T = TypeVar("T", bound=Record)

_COLUMNS = frozenset({"id", "name", "status", "parent", "request_hash"})
_METADATA = "metadata."


class Database(Protocol):
    """Where a collection's work is done."""

    async def read(self, work: Callable[[Connection], R]) -> R:
        """Run statements that only read."""

    async def write(self, work: Callable[[Connection], R]) -> R:
        """Run a transaction."""


class Collection(Generic[T]):
    """The records of one table, newest first."""

    def __init__(self, database: Database, table: Table, model: type[T]) -> None:
        self._database = database
        self._table = table
        self._model = model

    async def insert(self, record: T) -> T:
        """Add a record; raises Conflict with `existing=True` if its id, or a unique name, is taken."""
        statement = insert(self._table).values(id=record.id, **self._row(record))
        try:
            await self._database.write(lambda connection: connection.execute(statement))
        except IntegrityError as error:
            raise Conflict(f"{record.id} is there already", existing=True) from error
        return record

    async def insert_once(self, record: T) -> tuple[T, bool]:
        """Add a record unless the same request did so before; returns what is stored, and whether it is new.

        Raises UsageError if its id was used for another request.
        """
        try:
            return await self.insert(record), True
        except Conflict:
            existing = await self.find(record.id)
            if existing is None:
                raise
        if existing.request_hash != record.request_hash:
            raise UsageError("this x-request-id was used with another body; send a new one")
        return existing, False

    async def get(self, id: str) -> T:
        """The record of that id; raises NotFound."""
        record = await self.find(id)
        if record is None:
            raise NotFound(f"no such thing in {self._table.name}: {id[:200]}", id=id[:200])
        return record

    async def find(self, id: str) -> T | None:
        """The record of that id, or None."""
        return await self._first(self._table.c.id == _clean(id))

    async def find_named(self, name: str) -> T | None:
        """The newest record of that name, or None."""
        return await self._first(self._table.c.name == _clean(name))

    async def change(self, id: str, change: Callable[[T], T]) -> T:
        """Replace a record by what `change` makes of it, with nobody in between; raises NotFound.

        `change` may raise to leave things as they are.
        """
        table = self._table
        query = select(table.c.body).where(table.c.id == _clean(id)).with_for_update()

        def work(connection: Connection) -> T:
            body = connection.execute(query).scalar_one_or_none()
            if body is None:
                raise NotFound(f"no such thing in {table.name}: {id[:200]}", id=id[:200])
            old = self._model.model_validate_json(body)
            new = change(old)
            if new is not old:
                connection.execute(update(table).where(table.c.id == id).values(**self._row(new)))
            return new

        return await self._database.write(work)

    async def delete(self, id: str) -> None:
        """Remove a record; raises NotFound."""
        statement = delete(self._table).where(self._table.c.id == _clean(id))
        if not await self._database.write(lambda connection: connection.execute(statement).rowcount):
            raise NotFound(f"no such thing in {self._table.name}: {id[:200]}", id=id[:200])

    async def page(self, query: Query) -> Page[T]:
        """One page; raises UsageError for a limit out of range or an unknown cursor."""
        if not 1 <= query.limit <= MAX_LIMIT:
            raise UsageError(f"limit must be between 1 and {MAX_LIMIT}", field="limit")
        wanted = self._conditions(query.where)
        if query.search:
            wanted.append(self._search(query.search))
        return await self._database.read(lambda connection: self._page(connection, query, wanted))

    async def all(self, where: Where) -> list[T]:
        """Every record that fits, newest first."""
        table = self._table
        query = select(table.c.body).where(*self._conditions(where)).order_by(table.c.seq.desc())
        return await self._database.read(lambda connection: self._records(connection, query))

    async def metadata_keys(self, where: Where) -> list[str]:
        """The metadata keys in use, in order."""
        items = metadata_items(self._table.c.body)
        query = select(items.c.key).select_from(self._table.join(items, true()))
        return await self._strings(query.where(*self._conditions(where)).distinct())

    async def metadata_values(self, key: str, where: Where) -> list[str]:
        """The values in use for one metadata key, in order."""
        items = metadata_items(self._table.c.body)
        query = select(items.c.value).select_from(self._table.join(items, true()))
        wanted = (items.c.key == _clean(key), *self._conditions(where))
        return await self._strings(query.where(*wanted).distinct())

    async def _first(self, condition: ColumnElement[bool]) -> T | None:
        query = select(self._table.c.body).where(condition).order_by(self._table.c.seq.desc()).limit(1)
        found = await self._database.read(lambda connection: self._records(connection, query))
        return found[0] if found else None

    async def _strings(self, query: Select[Any]) -> list[str]:
        return await self._database.read(
            lambda connection: sorted(str(value) for value in connection.execute(query).scalars())
        )

    def _records(self, connection: Connection, query: Select[Any]) -> list[T]:
        return [self._model.model_validate_json(body) for body in connection.execute(query).scalars()]

    def _page(self, connection: Connection, query: Query, wanted: list[ColumnElement[bool]]) -> Page[T]:
        table = self._table
        after = self._after(connection, query.starting_after)
        newest = select(table.c.body).where(*wanted, *after).order_by(table.c.seq.desc())
        found = self._records(connection, newest.limit(query.limit + 1))
        total = None
        if query.include_total_count:
            total = connection.execute(select(func.count()).select_from(table).where(*wanted)).scalar_one()
        return Page(items=found[: query.limit], has_more=len(found) > query.limit, total_count=total)

    def _after(self, connection: Connection, cursor: str | None) -> list[ColumnElement[bool]]:
        if cursor is None:
            return []
        query = select(self._table.c.seq).where(self._table.c.id == _clean(cursor))
        seq = connection.execute(query).scalar_one_or_none()
        if seq is None:
            raise UsageError(f"starting_after names nothing: {cursor[:200]}", field="starting_after")
        return [self._table.c.seq < seq]

    def _conditions(self, where: Where) -> list[ColumnElement[bool]]:
        return [self._condition(key, value) for key, value in where.items()]

    def _condition(self, key: str, value: str | Sequence[str]) -> ColumnElement[bool]:
        column = self._column(key)
        if isinstance(value, str):
            return column == _clean(value)
        return column.in_([_clean(each) for each in value])

    def _column(self, key: str) -> ColumnElement[Any]:
        if key in _COLUMNS:
            return self._table.c[key]
        if key.startswith(_METADATA):
            return metadata_value(self._table.c.body, _clean(key.removeprefix(_METADATA)))
        return body_field(self._table.c.body, key)

    def _search(self, text: str) -> ColumnElement[bool]:
        columns = self._table.c
        return or_(columns.id == _clean(text), columns.name.icontains(text, autoescape=True))

    def _row(self, record: T) -> dict[str, Any]:
        columns = record.columns()
        return {
            "create_time_ms": record.create_time_ms,
            "name": columns.name if columns.name is None else _clean(columns.name),
            "status": columns.status,
            "parent": columns.parent,
            "request_hash": record.request_hash,
            "body": record.model_dump_json(),
        }


def _clean(text: str) -> str:
    # Postgres keeps no NUL in text; both databases refuse it alike.
    if "\0" in text:
        raise UsageError("a NUL character cannot be part of a name, an id or a filter")
    return text
