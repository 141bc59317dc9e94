"""Reading JSON that anybody may have written: the wanted kind comes out, whatever it is."""

import json
import math
from typing import Any

from benchyard.models.base import MAX_INT

MOST_DEPTH = 128
"""Of objects and lists inside each other; what walks through JSON fails at some depth of its own."""


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


def parsed(data: str | bytes) -> Any:
    """The JSON in it; raises ValueError, also where it is nested too deeply."""
    try:
        value = json.loads(data, parse_constant=_refused)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not shallow(value):
        raise ValueError("nested too deeply")
    return value


def shallow(value: Any, most: int = MOST_DEPTH) -> bool:
    """Whether no more than so many objects and lists are inside each other."""
    level = [value]
    for _ in range(most + 1):
        level = [inner for each in level if isinstance(each, dict | list) for inner in _inside(each)]
        if not level:
            return True
    return False


def _inside(value: dict[str, Any] | list[Any]) -> list[Any]:
    inner = list(value.values()) if isinstance(value, dict) else value
    return [each for each in inner if isinstance(each, dict | list)]


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
