"""Statements that are run very often: made into text once for each kind of database."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ClauseElement, Connection, CursorResult
from sqlalchemy.exc import DBAPIError

Parameters = Mapping[str, Any]


class Statement:
    """One statement with named parameters, all of which its caller gives."""

    def __init__(self, element: ClauseElement) -> None:
        self._element = element
        self._texts: dict[str, _Text] = {}

    def run(self, connection: Connection, parameters: Parameters) -> CursorResult[Any]:
        """Run it once."""
        text = self._text(connection)
        return connection.exec_driver_sql(text.text, text.arranged(parameters))

    def apply(self, connection: Connection, *rows: Parameters) -> None:
        """Run it once for each row; it answers nothing."""
        found = self._text(connection)
        text, arranged = found.text, [found.arranged(row) for row in rows]
        own = connection.connection.driver_connection
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

    def _text(self, connection: Connection) -> "_Text":
        dialect = connection.dialect
        found = self._texts.get(dialect.name)
        if found is None:
            compiled: Any = self._element.compile(dialect=dialect)
            order = list(compiled.positiontup) if compiled.positional else None
            own = {name: value for name, value in compiled.params.items() if value is not None}
            found = self._texts[dialect.name] = _Text(str(compiled), order, own)
        return found


@dataclass(frozen=True)
class _Text:
    """A statement for one kind of database."""

    text: str
    order: Sequence[str] | None
    own: Parameters
    """Parameters that the statement itself gives."""

    def arranged(self, parameters: Parameters) -> Any:
        if self.own:
            parameters = {**self.own, **parameters}
        return dict(parameters) if self.order is None else tuple(parameters[name] for name in self.order)
