"""Grades answers to GPQA questions: the letter of the right option, extracted as in simple-evals.

The first `Answer: X` of the text counts, by the same pattern. The pattern also finds a small letter, which
is wrong, as it is in simple-evals.
"""

import re
from collections.abc import Mapping
from typing import Any

MAIN = "correct"
"""The reward that is the score."""
MOST_BYTES = 64 * 1024
"""Most bytes of an answer; a longer one is wrong."""

_ANSWER = re.compile(r"(?i)Answer[ \t]*:[ \t]*\$?([A-D])\$?")
_LETTERS = "ABCD"


def grade(answer_text: str, expected: Mapping[str, Any]) -> dict[str, float]:
    """Return the reward `correct`: 1.0 if the answer is the `letter` of `expected`, else 0.0."""
    return {MAIN: 1.0 if extract(answer_text) == expected["letter"] else 0.0}


def check(expected: Mapping[str, Any]) -> None:
    """Raise ValueError unless `expected` has the fields that `grade` needs."""
    letter = expected.get("letter")
    if not isinstance(letter, str) or len(letter) != 1 or letter not in _LETTERS:
        raise ValueError("`letter` must be one of A, B, C and D")


def extract(text: str) -> str | None:
    """Return the letter that a text gives as its answer; None if there is none."""
    if len(text) > MOST_BYTES:
        return None
    found = _ANSWER.search(text)
    return found[1] if found else None
