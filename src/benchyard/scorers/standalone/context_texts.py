"""The texts that tell a scorer its parameters and facts; of the standard library alone, for workers too."""

import json
import marshal
import re
from collections.abc import Mapping
from typing import Any, BinaryIO

FACTS = "benchyard"
"""The key of the facts, beside the parameters."""
VARIABLES = ("RL_SCORER_CONTEXT", "RL_TEST_CONTEXT")
MOST_VARIABLE_BYTES = 128 * 1024 - 1 - max(len(name) + 1 for name in VARIABLES)
"""The kernel takes no longer string than 128 KiB, with the name and the zero at its end."""

_LENGTH_BYTES = 8
_LONG = "problem_statement"
_SURROGATE = re.compile("[\ud800-\udfff]")


def texts_of(content: BinaryIO) -> bytes:
    """Both texts of a context, for a worker: the length of the one that is shown, it, and the whole one."""
    facts, params = marshal.load(content)  # noqa: S302  (the server's own)
    whole, shown = (each.encode() for each in texts(facts, params))
    return len(shown).to_bytes(_LENGTH_BYTES, "big") + shown + whole


def split(made: bytes) -> tuple[str, bytes]:
    """What a worker made of a context: the text that is shown, and the whole one."""
    length = int.from_bytes(made[:_LENGTH_BYTES], "big")
    return made[_LENGTH_BYTES:][:length].decode(), made[_LENGTH_BYTES + length :]


def texts(facts: Mapping[str, object], params: Mapping[str, Any]) -> tuple[str, str]:
    """The whole context, and as much of it as fits into a variable; raises ValueError."""
    whole = encode({**params, FACTS: dict(facts)})
    return whole, _short(whole, facts, params)


def is_at_most(value: Any, most_bytes: int) -> bool:
    """Whether a value takes no more than this as JSON; of a large one, no more than that is looked at."""
    size = 0
    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for piece in encoder.iterencode(value):
        # Each letter takes a byte at least, and no piece is changed where it is small.
        size += len(piece) if len(piece) > most_bytes else len(_plain(piece).encode())
        if size > most_bytes:
            return False
    return True


def encode(value: Any) -> str:
    """JSON in which letters of all languages are themselves; raises ValueError for what JSON cannot say."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _plain(text)


def _plain(text: str) -> str:
    """A text of JSON with halves of characters, which no encoding has, in words."""
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _short(whole: str, facts: Mapping[str, object], params: Mapping[str, Any]) -> str:
    """The context as it fits into a variable: a long problem statement is cut, and said to be."""
    too_long = len(whole.encode()) - MOST_VARIABLE_BYTES
    if too_long <= 0:
        return whole
    statement = facts.get(_LONG)
    marked = {**facts, f"{_LONG}_truncated": True}
    if isinstance(statement, str):
        without = encode({**params, FACTS: {**marked, _LONG: ""}})
        space = MOST_VARIABLE_BYTES - len(without.encode())
        if space >= 0:
            return encode({**params, FACTS: {**marked, _LONG: _cut(statement, space)}})
    return encode({**params, FACTS: {"truncated": True}})


def _cut(text: str, space: int) -> str:
    """The longest beginning that takes this many bytes at most when it is encoded."""
    # Every letter takes a byte at least.
    low, high = 0, min(len(text), space)
    while low < high:
        middle = (low + high + 1) // 2
        if len(encode(text[:middle]).encode()) - len('""') <= space:
            low = middle
        else:
            high = middle - 1
    return text[:low]
