"""Statements that are run very often: made into text once for each kind of database."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ClauseElement, Connection, CursorResult

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

    def run_many(self, connection: Connection, rows: Sequence[Parameters]) -> None:
        """Run it once for each row."""
        text, order = self._text(connection)
        connection.exec_driver_sql(text, [_arranged(row, order) for row in rows])

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
