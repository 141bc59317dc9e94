"""Safe access to JSON of unknown origin: each function returns its type, whatever the value is."""

import json
import math
from collections.abc import Sequence
from typing import Any

from benchyard.models.base import MAX_INT

MOST_DEPTH = 128
"""Deepest nesting of objects and lists; code that walks through JSON recursively fails at some depth."""
MOST_NESTED = 200_000
MOST_VALUES = 1_000_000
"""Objects and lists, and values, of an agent's request that is parsed: far more than any client sends."""
_NESTED = frozenset({dict, list})


def fields(value: Any) -> dict[str, Any]:
    """Return the fields of an object; empty for any other value."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """Return the items of a list; empty for any other value."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """Return a string; empty for any other value."""
    return value if isinstance(value, str) else ""


def count(value: Any) -> int:
    """Return a count of things as an integer; 0 for a value that is not a count."""
    if isinstance(value, float) and math.isfinite(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return min(max(value, 0), MAX_INT)


def is_count(value: Any) -> bool:
    """Tell whether a value is a number: usage without any number is not reported usage."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def parse_json(data: str | bytes) -> Any:
    """Parse JSON; raises ValueError for invalid JSON, also if it is nested too deeply."""
    value = _load(data)
    if may_be_deep(data) and not is_shallow(value):
        raise ValueError("nested too deeply")
    return value


def is_dense(data: bytes) -> bool:
    """Tell whether JSON text may have so many values that nothing else gets its turn while it is parsed."""
    return data.count(b"{") + data.count(b"[") > MOST_NESTED or data.count(b",") > MOST_VALUES


def parse_json_list(pieces: Sequence[bytes]) -> list[Any]:
    """Parse each piece as one JSON value; raises ValueError if a piece is not, or is nested too deeply."""
    values: list[Any] = _load(b"[" + b",".join(pieces) + b"]")
    if len(values) != len(pieces):
        raise ValueError("some pieces are not one value")
    if any(may_be_deep(piece) for piece in pieces if len(piece) > MOST_DEPTH) and not is_shallow(
        values, MOST_DEPTH + 1
    ):
        raise ValueError("nested too deeply")
    return values


def _load(data: str | bytes) -> Any:
    try:
        if isinstance(data, bytes):
            data = data.decode(json.detect_encoding(data), "surrogatepass")
        return _DECODER.decode(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def may_be_deep(data: str | bytes) -> bool:
    """Tell whether JSON text may be nested too deeply, by its opening brackets: cheaper than `is_shallow`."""
    if isinstance(data, str):
        return data.count("{") + data.count("[") > MOST_DEPTH
    return data.count(b"{") + data.count(b"[") > MOST_DEPTH


def is_shallow(value: Any, most: int = MOST_DEPTH) -> bool:
    """Tell whether at most this many objects and lists are nested in each other."""
    level = [value] if type(value) in _NESTED else []
    for _ in range(most + 1):
        if not level:
            return True
        level = [
            inner
            for each in level
            for inner in (each.values() if type(each) is dict else each)
            if type(inner) in _NESTED
        ]
    return False


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
"""Shared decoder: `json.loads` would create another for each call with options."""
