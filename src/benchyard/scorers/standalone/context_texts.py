"""Texts that give a scorer its parameters and facts; of the standard library alone, for workers too."""

import json
import marshal
import re
from collections.abc import Mapping
from typing import Any, BinaryIO

FACTS = "benchyard"
"""Key of the facts, beside the parameters."""
VARIABLES = ("RL_SCORER_CONTEXT", "RL_TEST_CONTEXT")
MOST_VARIABLE_BYTES = 128 * 1024 - 1 - max(len(name) + 1 for name in VARIABLES)
"""Most bytes of a variable: the kernel takes strings of at most 128 KiB, with the name and the final zero."""

_LENGTH_BYTES = 8
_LONG = "problem_statement"
_SURROGATE = re.compile("[\ud800-\udfff]")


def texts_of(content: BinaryIO) -> bytes:
    """Return both texts of a context, for a worker: the length of the short one, the short, the whole."""
    facts, params = marshal.load(content)  # noqa: S302  (the server's own)
    whole, shown = (text.encode() for text in texts(facts, params))
    return len(shown).to_bytes(_LENGTH_BYTES, "big") + shown + whole


def split(made: bytes) -> tuple[str, bytes]:
    """Split a worker's result into the short text for the variable and the whole text."""
    length = int.from_bytes(made[:_LENGTH_BYTES], "big")
    return made[_LENGTH_BYTES:][:length].decode(), made[_LENGTH_BYTES + length :]


def texts(facts: Mapping[str, object], params: Mapping[str, Any]) -> tuple[str, str]:
    """Return the whole context, and as much of it as fits into a variable; raises ValueError."""
    whole = encode({**params, FACTS: dict(facts)})
    return whole, _short(whole, facts, params)


def is_at_most(value: Any, most_bytes: int) -> bool:
    """Tell whether a value takes at most this many bytes as JSON; encodes no further than that."""
    size = 0
    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for piece in encoder.iterencode(value):
        # A letter takes at least one byte; small pieces are counted exactly.
        size += len(piece) if len(piece) > most_bytes else len(_plain(piece).encode())
        if size > most_bytes:
            return False
    return True


def encode(value: Any) -> str:
    """Return JSON with letters of all languages unescaped; raises ValueError for other values."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _plain(text)


def _plain(text: str) -> str:
    """Replace lone surrogates in a JSON text, which cannot be encoded, by escapes."""
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _short(whole: str, facts: Mapping[str, object], params: Mapping[str, Any]) -> str:
    """Fit the context into a variable; a long problem statement is cut, and marked as cut."""
    too_long = len(whole.encode()) - MOST_VARIABLE_BYTES
    if too_long <= 0:
        return whole
    statement = facts.get(_LONG)
    marked = {**facts, f"{_LONG}_truncated": True}
    if isinstance(statement, str):
        without = encode({**params, FACTS: {**marked, _LONG: ""}})
        space = MOST_VARIABLE_BYTES - len(without.encode())
        if space >= 0:
            return encode({**params, FACTS: {**marked, _LONG: _beginning(statement, space)}})
    return encode({**params, FACTS: {"truncated": True}})


def _beginning(text: str, space: int) -> str:
    """Return the longest beginning of a text that takes at most this many bytes when encoded."""
    # Every letter takes at least one byte.
    low, high = 0, min(len(text), space)
    while low < high:
        middle = (low + high + 1) // 2
        if len(encode(text[:middle]).encode()) - len('""') <= space:
            low = middle
        else:
            high = middle - 1
    return text[:low]
