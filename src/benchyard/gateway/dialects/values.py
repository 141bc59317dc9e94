"""Reading JSON that anybody may have written: the wanted kind comes out, whatever it is."""

import json
import math
from collections.abc import Sequence
from typing import Any

from benchyard.models.base import MAX_INT

MOST_DEPTH = 128
"""Of objects and lists inside each other; what walks through JSON fails at some depth of its own."""
_NESTED = frozenset({dict, list})


def fields(value: Any) -> dict[str, Any]:
    """An object's fields; of anything else none."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """A list's items; of anything else none."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """A string; of anything else the empty one."""
    return value if isinstance(value, str) else ""


def count(value: Any) -> int:
    """How many; 0 for what is no number of things."""
    if isinstance(value, float) and math.isfinite(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return min(max(value, 0), MAX_INT)


def is_count(value: Any) -> bool:
    """Whether it is a number at all: an answer without any says nothing of what it used."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def parse_json(data: str | bytes) -> Any:
    """The JSON in it; raises ValueError, also where it is nested too deeply."""
    value = _load(data)
    if may_be_deep(data) and not is_shallow(value):
        raise ValueError("nested too deeply")
    return value


def parse_json_list(pieces: Sequence[bytes]) -> list[Any]:
    """The JSON in each, if each is one value; raises ValueError if not, or one is nested too deeply."""
    found: list[Any] = _load(b"[" + b",".join(pieces) + b"]")
    if len(found) != len(pieces):
        raise ValueError("some are not one value each")
    if any(may_be_deep(each) for each in pieces if len(each) > MOST_DEPTH) and not is_shallow(
        found, MOST_DEPTH + 1
    ):
        raise ValueError("nested too deeply")
    return found


def _load(data: str | bytes) -> Any:
    try:
        if isinstance(data, bytes):
            data = data.decode(json.detect_encoding(data), "surrogatepass")
        return _DECODER.decode(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def may_be_deep(data: str | bytes) -> bool:
    """Whether JSON could be nested too deeply, by what it could begin: a look at each value costs more."""
    if isinstance(data, str):
        return data.count("{") + data.count("[") > MOST_DEPTH
    return data.count(b"{") + data.count(b"[") > MOST_DEPTH


def is_shallow(value: Any, most: int = MOST_DEPTH) -> bool:
    """Whether no more than so many objects and lists are inside each other."""
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


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refused)
"""Made once: the library makes another for each text that it is told more about."""
