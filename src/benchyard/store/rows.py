"""The rows of a table: what a record looks like there, and the statements that every request needs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Table, bindparam, insert, select, update

from benchyard.errors import UsageError
from benchyard.models.base import Record
from benchyard.store.statements import Applying, Statement

T = TypeVar("T", bound=Record)

MOST_NAME_BYTES = 2600


@dataclass(frozen=True)
class Putting(Applying):
    """What replaces a record that only one writer changes, as a part of a transaction.

    Of several for the same record in one transaction, all but the last must be left out.
    """

    id: str


class Rows(Generic[T]):
    """Records as rows of one table."""

    def __init__(self, table: Table) -> None:
        own_id = table.c.id == bindparam("own_id")
        names = [column.name for column in table.c if column.name != "seq"]
        values: dict[str, Any] = {name: bindparam(name) for name in names}
        found = select(table.c.id, table.c.body).where(own_id)
        self._ids = table.c.id
        self.insert = Statement(insert(table).values(values))
        self.find = Statement(found)
        self.find_to_change = Statement(found.with_for_update())
        del values["id"]
        self.update = Statement(update(table).where(own_id).values(values))

    def values(self, record: T, body: str | None = None) -> dict[str, Any]:
        """What is kept of a record, beside its id; `body` is its JSON, where that is there already."""
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
        """What adds new records, as a part of a transaction; those that are there stay as they are."""
        rows = [{"id": record.id, **self.values(record)} for record in records]

        def work(connection: Connection) -> None:
            known = select(self._ids).where(self._ids.in_([row["id"] for row in rows]))
            there = set(connection.execute(known).scalars())
            if new := [row for row in rows if row["id"] not in there]:
                self.insert.apply(connection, *new)

        return work

    def putting(self, record: T, body: str | None = None) -> Putting:
        """What replaces a record that only one writer changes."""
        return Putting(self.update, [{"own_id": record.id, **self.values(record, body)}], record.id)


def _name(text: str) -> str:
    # What an index of Postgres can hold; both databases refuse it alike.
    if len(text.encode()) > MOST_NAME_BYTES:
        raise UsageError(f"a name may have {MOST_NAME_BYTES} bytes in UTF-8", field="name")
    return clean(text)


def clean(text: str) -> str:
    """A text that both databases keep; raises UsageError."""
    # Postgres keeps no NUL in text; both databases refuse it alike.
    if "\0" in text:
        raise UsageError("a NUL character cannot be part of a name, an id or a filter")
    return text
