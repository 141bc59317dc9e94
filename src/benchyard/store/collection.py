"""Records of one table: insert, look up, change, list; cached in memory where they change often."""

import asyncio
import json
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from pydantic import ValidationError
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.exc import IntegrityError

from benchyard.errors import Conflict, NotFound, StoreError, Unreadable, UsageError
from benchyard.models.base import Record
from benchyard.models.pages import MAX_LIMIT, Page, Query, Where
from benchyard.store.body_values import BodyPath, rows_of
from benchyard.store.connections import until_ended
from benchyard.store.json_columns import (
    body_field,
    body_rows,
    metadata_items,
    metadata_value,
    parsed_body,
)
from benchyard.store.statements import Statement, StatementRows
from benchyard.store.tables import ONE, TAGS

T = TypeVar("T", bound=Record)

MOST_NAME_BYTES = 2600
_ROWS_AT_ONCE = 1000
_SMALL_CHARACTERS = 64 * 1024
"""Size up to which the event loop itself reads a record."""
_SCATTERED = 2**32
_SCATTER = 2654435761
"""Factor that spreads following numbers evenly, whatever part of them is taken."""


@dataclass(frozen=True)
class RecordUpdate(StatementRows):
    """Statement that replaces a record with a single writer, as a part of a transaction.

    If one transaction has several for the same record, all but the last must be left out.
    """

    id: str


class RecordRows(Generic[T]):
    """Records as rows of one table."""

    def __init__(self, table: Table) -> None:
        own_id = table.c.id == bindparam("own_id")
        names = [column.name for column in table.c if column.name != "seq"]
        values: dict[str, Any] = {name: bindparam(name) for name in names}
        columns = select(table.c.id, table.c.body).where(own_id)
        self._ids = table.c.id
        self.insert = Statement(insert(table).values(values))
        self.find = Statement(columns)
        self.find_to_change = Statement(columns.with_for_update())
        del values["id"]
        self.update = Statement(update(table).where(own_id).values(values))

    def values(self, record: T, body: str | None = None) -> dict[str, Any]:
        """Return the columns of a record except its id; `body` is its JSON if it exists already."""
        columns = record.columns()
        return {
            "create_time_ms": record.create_time_ms,
            "name": columns.name if columns.name is None else _name(columns.name),
            "status": columns.status,
            "parent": columns.parent,
            "request_hash": record.request_hash,
            "body": record.model_dump_json() if body is None else body,
        }

    def adding(self, records: Sequence[T]) -> Callable[[Connection], None]:
        """Return work for a transaction that adds new records; existing ones stay as they are."""
        rows = [{"id": record.id, **self.values(record)} for record in records]

        def work(connection: Connection) -> None:
            known = select(self._ids).where(self._ids.in_([row["id"] for row in rows]))
            there = set(connection.execute(known).scalars())
            if new := [row for row in rows if row["id"] not in there]:
                self.insert.apply(connection, *new)

        return work

    def putting(self, record: T, body: str | None = None) -> RecordUpdate:
        """Return the statement that replaces a record with a single writer."""
        return RecordUpdate(self.update, [{"own_id": record.id, **self.values(record, body)}], record.id)


def _name(text: str) -> str:
    # An index of Postgres holds no more; both databases refuse longer names alike.
    if len(text.encode()) > MOST_NAME_BYTES:
        raise UsageError(f"a name may have {MOST_NAME_BYTES} bytes in UTF-8", field="name")
    return check_text(text)


def check_text(text: str) -> str:
    """Return a text that both databases can store; raises UsageError for any other."""
    # Postgres stores no NUL in text; both databases refuse it alike.
    if "\0" in text:
        raise UsageError("a NUL character cannot be part of a name, an id or a filter")
    return text


def _append(descriptor: int, line: str) -> None:
    with open(os.dup(descriptor), "ab") as file:  # noqa: PTH123  (a descriptor)
        file.write(line.encode(errors="replace") + b"\n")


R = TypeVar("R")

_logger = logging.getLogger(__name__)

_COLUMNS = frozenset({"id", "name", "status", "parent", "request_hash"})
_METADATA = "metadata."
_LABELLED = "labelled."
_TAGGED = "tagged"


class Database(Protocol):
    """Database that runs the work of a collection."""

    async def read(self, work: Callable[[Connection], R]) -> R:
        """Run statements that only read."""

    async def write(self, work: Callable[[Connection], R]) -> R:
        """Run a transaction."""

    async def write_whole(self, work: Callable[[Connection], R]) -> R:
        """Run a transaction; a cancellation is delivered only after its end."""


class Collection(Generic[T]):
    """The records of one table, newest first."""

    def __init__(self, database: Database, table: Table, model: type[T]) -> None:
        self._database = database
        self._table = table
        self._model = model
        self.rows: RecordRows[T] = RecordRows(table)

    async def insert(self, record: T) -> T:
        """Add a record; raises Conflict with `existing=True` if its id, or a unique name, is taken."""
        row = {"id": record.id, **self.rows.values(record)}
        try:
            await self._database.write(StatementRows(self.rows.insert, [row]))
        except IntegrityError as error:
            raise Conflict(f"{record.id} is there already", existing=True) from error
        return record

    async def insert_once(self, record: T) -> tuple[T, bool]:
        """Add a record unless the same request did so before; return the stored one, and whether it is new.

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
        """Return the record with an id; raises NotFound."""
        record = await self.find(id)
        if record is None:
            raise self._missing(id)
        return record

    def _missing(self, id: str) -> NotFound:
        return NotFound(f"there is no {self._table.info[ONE]} {id[:200]}", id=id[:200])

    async def find(self, id: str) -> T | None:
        """Return the record with an id; None if there is none."""
        key = {"own_id": check_text(id)}
        row = await self._database.read(lambda connection: self.rows.find.run(connection, key).first())
        return None if row is None else await self._read_record(row.id, row.body)

    async def find_named(self, name: str) -> T | None:
        """Return the newest record of a name; None if there is none."""
        return await self._first(self._table.c.name == check_text(name))

    async def change(self, id: str, change: Callable[[T], T]) -> T:
        """Replace a record by the result of `change`, without other changes in between; raises NotFound.

        `change` may raise to leave the record as it is. Raises Conflict with `existing=True` if a unique name
        is taken.
        """
        key = {"own_id": check_text(id)}

        def work(connection: Connection) -> T:
            row = self.rows.find_to_change.run(connection, key).first()
            if row is None:
                raise self._missing(id)
            old = self._record(id, row.body)
            new = change(old)
            if new is not old:
                self.rows.update.apply(connection, {**key, **self.rows.values(new)})
            return new

        try:
            return await self._database.write(work)
        except IntegrityError as error:
            if "unique" not in str(error.orig).lower():
                raise
            raise Conflict(f"{id[:200]} cannot have the same name as another", existing=True) from error

    async def delete(self, id: str) -> None:
        """Remove a record; raises NotFound."""
        statement = delete(self._table).where(self._table.c.id == check_text(id))
        if not await self._database.write(lambda connection: connection.execute(statement).rowcount):
            raise self._missing(id)

    async def page(self, query: Query) -> Page[T]:
        """Return one page; raises UsageError for a limit out of range or an unknown cursor."""
        if not 1 <= query.limit <= MAX_LIMIT:
            raise UsageError(f"limit must be between 1 and {MAX_LIMIT}", field="limit")
        conditions = self._conditions(query.where)
        conditions += [self._column(key).is_(None) for key in query.without]
        if query.search:
            conditions.append(self._search(query.search))
        return await self._database.read(lambda connection: self._page(connection, query, conditions))

    async def all(self, where: Where) -> list[T]:
        """Return every matching record that can be read, newest first."""
        query = self._newest(self._conditions(where))
        return await self._database.read(lambda connection: list(self._readable(connection.execute(query))))

    async def write_bodies(self, where: Where, descriptor: int) -> None:
        """Append the JSON of every matching record to a file as it is, newest first, a line each."""
        conditions = self._conditions(where)

        def work(connection: Connection) -> None:
            with open(os.dup(descriptor), "ab") as file:  # noqa: PTH123  (a descriptor)
                file.writelines(body.encode() + b"\n" for body in self._bodies(connection, conditions))

        await self._database.read(work)

    async def write_rows(
        self, where: Where, paths: Sequence[BodyPath], descriptor: int, share: float = 1.0
    ) -> None:
        """Append some values of every matching record to a file, as one line: a JSON array of arrays.

        The database itself makes it, in a fraction of the time that reading the records takes. A record whose
        body is no JSON is left out. Of a share below 1, records are chosen as if by chance, always the same.
        """
        chosen = self._conditions(where)
        if share < 1.0:
            chosen.append(self._table.c.seq * _SCATTER % _SCATTERED < int(share * _SCATTERED))
        wanted = select(parsed_body(self._table.c.body).label("body")).where(*chosen)
        parsed = wanted.cte("parsed").prefix_with("MATERIALIZED", dialect="postgresql")
        query = select(body_rows(parsed.c.body, paths))

        def work(connection: Connection) -> None:
            _append(descriptor, connection.execute(query).scalar_one())

        def slowly(connection: Connection) -> None:
            _append(descriptor, json.dumps(list(rows_of(self._bodies(connection, chosen), paths))))

        try:
            await self._database.read(work)
        except (StoreError, UsageError):
            # A broken body fails the whole statement, and must not hide all the others.
            await self._database.read(slowly)

    async def containing(self, text: str, limit: int | None = None) -> list[T]:
        """Return every record with a text, such as an id, anywhere in its body, newest first."""
        query = self._newest([self._table.c.body.contains(check_text(text), autoescape=True)]).limit(limit)
        return await self._database.read(lambda connection: list(self._readable(connection.execute(query))))

    async def before(self, time_ms: int, where: Where, *, without_parent: bool = False) -> list[T]:
        """Return every record that was made before a time, oldest first."""
        conditions = [*self._conditions(where), self._table.c.create_time_ms < time_ms]
        if without_parent:
            conditions.append(self._table.c.parent.is_(None))
        query = self._newest(conditions)
        records = await self._database.read(
            lambda connection: list(self._readable(connection.execute(query)))
        )
        return records[::-1]

    async def ids(self, where: Where) -> set[str]:
        """Return the ids of all matching records, including those that cannot be read."""
        query = select(self._table.c.id).where(*self._conditions(where))
        return await self._database.read(lambda connection: set(connection.execute(query).scalars()))

    async def metadata_keys(self, where: Where) -> list[str]:
        """Return the metadata keys in use, sorted."""
        items = metadata_items(self._table.c.body)
        query = select(items.c.key).select_from(self._table.join(items, true()))
        return await self._strings(query.where(*self._conditions(where)).distinct())

    async def metadata_values(self, key: str, where: Where) -> list[str]:
        """Return the values in use for one metadata key, sorted."""
        items = metadata_items(self._table.c.body)
        query = select(items.c.value).select_from(self._table.join(items, true()))
        conditions = (items.c.key == check_text(key), *self._conditions(where))
        return await self._strings(query.where(*conditions).distinct())

    async def _first(self, condition: ColumnElement[bool]) -> T | None:
        query = self._newest([condition]).limit(1)
        row = await self._database.read(lambda connection: connection.execute(query).first())
        return None if row is None else await self._read_record(row.id, row.body)

    async def _read_record(self, id: str, body: str) -> T:
        if len(body) <= _SMALL_CHARACTERS:
            return self._record(id, body)
        return await asyncio.to_thread(self._record, id, body)

    def _bodies(self, connection: Connection, wanted: Sequence[ColumnElement[bool]]) -> Iterator[str]:
        """Yield bodies, newest first, some at a time: a cursor would need a transaction with Postgres."""
        query = self._newest(wanted)
        while rows := connection.execute(query.limit(_ROWS_AT_ONCE)).all():
            yield from (row.body for row in rows)
            query = self._newest([*wanted, self._table.c.seq < rows[-1].seq])

    def _newest(self, wanted: Sequence[ColumnElement[bool]]) -> Select[tuple[int, str, str]]:
        columns = self._table.c
        return select(columns.seq, columns.id, columns.body).where(*wanted).order_by(columns.seq.desc())

    async def _strings(self, query: Select[Any]) -> list[str]:
        return await self._database.read(
            lambda connection: sorted(str(value) for value in connection.execute(query).scalars())
        )

    def _record(self, id: str, body: str) -> T:
        try:
            return self._model.model_validate_json(body)
        except ValidationError as error:
            # Show the place of the error only, never the value: it may be a secret.
            first = error.errors(include_input=False, include_url=False, include_context=False)[0]
            place = ".".join(str(part) for part in first["loc"]) or "its body"
            raise Unreadable(
                f"the record of {id[:200]} in {self._table.name} cannot be read ({place}: {first['type']}); "
                "restore it from a backup, or remove its row",
                id=id[:200],
            ) from error

    def _readable(self, rows: Iterable[Row[tuple[int, str, str]]]) -> Iterator[T]:
        for row in rows:
            try:
                yield self._record(row.id, row.body)
            except Unreadable as error:
                # One broken record must not hide all the others.
                _logger.error("left out of a list: %s", error.message)

    def _page(self, connection: Connection, query: Query, wanted: list[ColumnElement[bool]]) -> Page[T]:
        records: list[T] = []
        rest = self._newest([*wanted, *self._after(connection, query.starting_after)])
        while missing := query.limit + 1 - len(records):
            rows = connection.execute(rest.limit(missing)).all()
            records += self._readable(rows)
            if len(rows) < missing:
                break
            rest = self._newest([*wanted, self._table.c.seq < rows[-1].seq])
        total = None
        if query.include_total_count:
            counted = select(func.count()).select_from(self._table).where(*wanted)
            total = connection.execute(counted).scalar_one()
        return Page(items=records[: query.limit], has_more=len(records) > query.limit, total_count=total)

    def _after(self, connection: Connection, cursor: str | None) -> list[ColumnElement[bool]]:
        if cursor is None:
            return []
        query = select(self._table.c.seq).where(self._table.c.id == check_text(cursor))
        seq = connection.execute(query).scalar_one_or_none()
        if seq is None:
            raise UsageError(f"starting_after names nothing: {cursor[:200]}", field="starting_after")
        return [self._table.c.seq < seq]

    def _conditions(self, where: Where) -> list[ColumnElement[bool]]:
        return [self._condition(key, value) for key, value in where.items()]

    def _condition(self, key: str, value: str | Sequence[str]) -> ColumnElement[bool]:
        if key.startswith(_LABELLED):
            # Condition on the existence of a metadata key: "yes" or "no".
            label = metadata_value(self._table.c.body, check_text(key.removeprefix(_LABELLED)))
            return label.is_not(None) if value == "yes" else label.is_(None)
        if key == _TAGGED:
            return self._table.c.id.in_(select(TAGS.c.subject).where(TAGS.c.tag == check_text(str(value))))
        column = self._column(key)
        if isinstance(value, str):
            return column == check_text(value)
        return column.in_([check_text(item) for item in value])

    def _column(self, key: str) -> ColumnElement[Any]:
        if key in _COLUMNS:
            return self._table.c[key]
        if key.startswith(_METADATA):
            return metadata_value(self._table.c.body, check_text(key.removeprefix(_METADATA)))
        return body_field(self._table.c.body, key)

    def _search(self, text: str) -> ColumnElement[bool]:
        columns = self._table.c
        return or_(columns.id == check_text(text), columns.name.icontains(text, autoescape=True))


_REMEMBERED = 2048


class LiveCollection(Collection[T]):
    """A collection that caches its most recently used records."""

    def __init__(self, database: Database, table: Table, model: type[T]) -> None:
        super().__init__(database, table, model)
        self._known: OrderedDict[str, T] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def insert(self, record: T) -> T:
        """Add a record; raises Conflict with `existing=True` if its id, or a unique name, is taken."""
        return self._remember(await super().insert(record))

    async def find(self, id: str) -> T | None:
        """Return the record with an id; None if there is none."""
        known = self._known.get(id)
        if known is not None:
            return known
        # Wait for a change under way: a record read before it and cached after it would be stale.
        async with self._lock(id):
            record = await super().find(id)
            return self._remember(record) if record else None

    async def change(self, id: str, change: Callable[[T], T]) -> T:
        """Replace a record by the result of `change`, without other changes in between; raises NotFound."""
        async with self._lock(id):
            old = self._known.get(id)
            if old is None:
                return await until_ended(asyncio.ensure_future(self._change(id, change)))
            new = change(old)
            if new is not old:
                # Drop the cached record first, so that it is read again if the write fails.
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
