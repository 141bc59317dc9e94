"""Statements that are run very often: made into text once for each kind of database."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ClauseElement, Connection, CursorResult
from sqlalchemy.exc import DBAPIError

Parameters = Mapping[str, Any]


class Statement:
    """One statement with named parameters, all of which its caller gives."""

    def __init__(self, element: ClauseElement) -> None:
        self._element = element
        self._texts: dict[str, tuple[str, Sequence[str] | None]] = {}

    def run(self, connection: Connection, parameters: Parameters) -> CursorResult[Any]:
        """Run it once."""
        text, order = self._text(connection)
        return connection.exec_driver_sql(text, _arranged(parameters, order))

    def apply(self, connection: Connection, *rows: Parameters) -> None:
        """Run it once for each row; it answers nothing."""
        text, order = self._text(connection)
        own = connection.connection.driver_connection
        arranged = [_arranged(row, order) for row in rows]
        if not isinstance(own, sqlite3.Connection):
            if arranged:
                connection.exec_driver_sql(text, arranged)
            return
        # All that SQLAlchemy keeps for a result takes longer than the statement itself.
        try:
            for row in arranged:
                own.execute(text, row)
        except sqlite3.Error as error:
            told = DBAPIError.instance(text, None, error, sqlite3.Error, True, dialect=connection.dialect)
            raise told from error

    def _text(self, connection: Connection) -> tuple[str, Sequence[str] | None]:
        dialect = connection.dialect
        found = self._texts.get(dialect.name)
        if found is None:
            compiled: Any = self._element.compile(dialect=dialect)
            order = list(compiled.positiontup) if compiled.positional else None
            found = self._texts[dialect.name] = (str(compiled), order)
        return found


def _arranged(parameters: Parameters, order: Sequence[str] | None) -> Any:
    return dict(parameters) if order is None else tuple(parameters[name] for name in order)
