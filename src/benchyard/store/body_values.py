"""Values of records' JSON bodies by their paths, without a database."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

BodyPath = tuple[str | int, ...]
"""Keys of a value in a body, from the outermost inwards: of letters and underscores, or indexes of lists."""


def rows_of(bodies: Iterable[str], paths: Sequence[BodyPath]) -> Iterator[list[Any]]:
    """Yield the values of each body that is JSON; one that a body does not have is None."""
    for body in bodies:
        try:
            record = json.loads(body)
        except ValueError:
            continue
        yield [_value(record, path) for path in paths]


def _value(record: Any, path: BodyPath) -> Any:
    for key in path:
        if isinstance(key, int):
            record = record[key] if isinstance(record, list) and key < len(record) else None
        else:
            record = record.get(key) if isinstance(record, dict) else None
    return record
