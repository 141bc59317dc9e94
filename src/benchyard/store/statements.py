"""Frequent statements, compiled to text once for each kind of database."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ClauseElement, Connection, CursorResult, Insert, Update
from sqlalchemy.exc import DBAPIError

Parameters = Mapping[str, Any]

_MOST_AT_ONCE = 32
"""Most rows that one statement adds or changes."""


class Statement:
    """A statement with named parameters, all of which the caller gives.

    A statement that changes rows finds each by the parameter `own_id`, with which its condition compares the
    id.
    """

    def __init__(self, element: ClauseElement) -> None:
        self._element = element
        self._texts: dict[str, _Text] = {}

    def run(self, connection: Connection, parameters: Parameters) -> CursorResult[Any]:
        """Run the statement once, and return its result."""
        text = self._text(connection)
        return connection.exec_driver_sql(text.text, text.arranged(parameters))

    def apply(self, connection: Connection, *rows: Parameters) -> None:
        """Run the statement for each row, without a result."""
        found = self._text(connection)
        own = connection.connection.driver_connection
        if not isinstance(own, sqlite3.Connection):
            if rows:
                connection.exec_driver_sql(found.text, [found.arranged(row) for row in rows])
            return
        # SQLAlchemy's bookkeeping for a result takes longer than the statement itself.
        try:
            for text, parameters in self._together(found, [found.arranged(row) for row in rows]):
                own.execute(text, parameters)
        except sqlite3.Error as error:
            wrapped = DBAPIError.instance(
                found.text, None, error, sqlite3.Error, True, dialect=connection.dialect
            )
            raise wrapped from error

    def _together(self, text: "_Text", rows: Sequence[Any]) -> Iterator[tuple[str, Any]]:
        """Combine rows into few statements: each run makes its thread wait for Python's other threads."""
        make = self._several(text) if len(rows) > 1 else None
        if make is None:
            yield from ((text.text, row) for row in rows)
            return
        at, size = 0, _MOST_AT_ONCE
        while at < len(rows):
            # Use few sizes, so that the database parses few different texts.
            while size > len(rows) - at:
                size //= 2
            if size not in text.several:
                text.several[size] = make(size)
            yield text.several[size], [value for row in rows[at : at + size] for value in row]
            at += size

    def _several(self, text: "_Text") -> Callable[[int], str] | None:
        """Return a function from a number of rows to a text for all; None if rows must run one by one."""
        if text.order is None or text.own:
            return None
        values = f"({', '.join('?' * len(text.order))})"
        if isinstance(self._element, Insert) and text.text.endswith(f"VALUES {values}"):
            return lambda size: text.text + f", {values}" * (size - 1)
        if isinstance(self._element, Update) and text.order[-1] == "own_id":
            table = self._element.table.description
            changed = ", ".join(f"{name} = v.column{at}" for at, name in enumerate(text.order[:-1], 1))
            head = f"UPDATE {table} SET {changed} FROM (VALUES {values}"  # noqa: S608  (names of our own)
            tail = f") AS v WHERE {table}.id = v.column{len(text.order)}"
            return lambda size: head + f", {values}" * (size - 1) + tail
        return None

    def _text(self, connection: Connection) -> "_Text":
        dialect = connection.dialect
        text = self._texts.get(dialect.name)
        if text is None:
            compiled: Any = self._element.compile(dialect=dialect)
            order = list(compiled.positiontup) if compiled.positional else None
            own = {name: value for name, value in compiled.params.items() if value is not None}
            text = self._texts[dialect.name] = _Text(str(compiled), order, own)
        return text


@dataclass(frozen=True)
class _Text:
    """The text of a statement for one kind of database."""

    text: str
    order: Sequence[str] | None
    own: Parameters
    """Parameters that the statement itself sets."""
    several: dict[int, str] = field(default_factory=dict)
    """Number of rows -> text of the statement for them."""

    def arranged(self, parameters: Parameters) -> Any:
        if self.own:
            parameters = {**self.own, **parameters}
        return dict(parameters) if self.order is None else tuple(parameters[name] for name in self.order)


@dataclass(frozen=True)
class StatementRows:
    """A statement and its rows, as a part of a transaction, without a result.

    No two of one transaction may change the same row.
    """

    statement: Statement
    rows: Sequence[Parameters]

    def __call__(self, connection: Connection) -> None:
        self.statement.apply(connection, *self.rows)


def apply_together(connection: Connection, parts: Iterable[StatementRows]) -> None:
    """Run parts of a transaction, combining all rows of each statement."""
    rows: dict[Statement, list[Parameters]] = {}
    for part in parts:
        rows.setdefault(part.statement, []).extend(part.rows)
    for statement, each in rows.items():
        statement.apply(connection, *each)
