"""What a scorer is told in its environment: its own parameters, and facts of the run it grades."""

import json
import re
from collections.abc import Mapping
from typing import Any

from benchyard.errors import ScorerFailed
from benchyard.scorers.base import Context, Room

FACTS = "benchyard"
"""The key of the facts, beside the parameters."""
VARIABLES = ("RL_SCORER_CONTEXT", "RL_TEST_CONTEXT")
FILE_VARIABLE = "BENCHYARD_SCORER_CONTEXT_FILE"
MOST_VARIABLE_BYTES = 128 * 1024 - 1 - max(len(name) + 1 for name in VARIABLES)
"""The kernel takes no longer string than 128 KiB, with the name and the zero at its end."""

_LONG = "problem_statement"
_SHUTS_OUT = {"BASH_ENV": "", "ENV": ""}
"""Files that shells would read before a script: none."""
_SURROGATE = re.compile("[\ud800-\udfff]")


async def environment(
    room: Room, context: Context, params: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """The variables for a scorer's commands; the whole context goes to the room as a file too."""
    try:
        whole, shown = encoded(_whole(context, params or {})), _short(context, params or {})
    except ValueError as error:
        raise ScorerFailed(f"the facts of this run cannot be told to a scorer: {error}") from error
    path = await room.keep("context.json", whole.encode())
    return {**_SHUTS_OUT, **dict.fromkeys(VARIABLES, shown), FILE_VARIABLE: path}


def encoded(value: Any) -> str:
    """JSON in which letters of all languages are themselves; raises ValueError for what JSON cannot say."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _whole(context: Context, params: Mapping[str, Any]) -> dict[str, Any]:
    return {**params, FACTS: dict(context.facts)}


def _short(context: Context, params: Mapping[str, Any]) -> str:
    """The context as it fits into a variable: a long problem statement is cut, and said to be."""
    whole = encoded(_whole(context, params))
    too_long = len(whole.encode()) - MOST_VARIABLE_BYTES
    if too_long <= 0:
        return whole
    statement = context.facts.get(_LONG)
    marked = {**context.facts, f"{_LONG}_truncated": True}
    if isinstance(statement, str):
        without = encoded({**params, FACTS: {**marked, _LONG: ""}})
        space = MOST_VARIABLE_BYTES - len(without.encode())
        if space >= 0:
            return encoded({**params, FACTS: {**marked, _LONG: _cut(statement, space)}})
    return encoded({**params, FACTS: {"truncated": True}})


def _cut(text: str, space: int) -> str:
    """The longest beginning that takes this many bytes at most when it is encoded."""
    # Every letter takes a byte at least.
    low, high = 0, min(len(text), space)
    while low < high:
        middle = (low + high + 1) // 2
        if len(encoded(text[:middle]).encode()) - len('""') <= space:
            low = middle
        else:
            high = middle - 1
    return text[:low]
