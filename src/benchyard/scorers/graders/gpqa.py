"""Grades answers to GPQA questions: the letter of the option that is right, as simple-evals takes it.

The first `Answer: X` of the text counts, by the same pattern. A letter that is not a capital is found by it,
and is wrong, as it is there.
"""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MAIN = "correct"
"""The reward that is the score."""
MOST_BYTES = 64 * 1024
"""Of an answer; a longer one is wrong."""

_ANSWER = re.compile(r"(?i)Answer[ \t]*:[ \t]*\$?([A-D])\$?")
_LETTERS = "ABCD"


def grade(answer_text: str, expected: Mapping[str, Any]) -> dict[str, float]:
    """`correct`: whether the answer is the `letter` of what is expected."""
    return {MAIN: 1.0 if extracted(answer_text) == expected["letter"] else 0.0}


def check(expected: Mapping[str, Any]) -> None:
    """Raise ValueError unless this is what `grade` needs."""
    letter = expected.get("letter")
    if not isinstance(letter, str) or len(letter) != 1 or letter not in _LETTERS:
        raise ValueError("`letter` must be one of A, B, C and D")


def extracted(text: str) -> str | None:
    """The letter that a text gives as its answer; None if there is none."""
    if len(text) > MOST_BYTES:
        return None
    found = _ANSWER.search(text)
    return found[1] if found else None


def text_of(content: bytes) -> str:
    """The text of an answer's file; nothing if it is too long, or no UTF-8."""
    try:
        return content.decode("utf-8-sig") if len(content) <= MOST_BYTES else ""
    except UnicodeDecodeError:
        return ""


def main(arguments: list[str]) -> int:
    """`EXPECTED.json ANSWER_FILE`: print the rewards; an answer that is not there is wrong."""
    expected = json.loads(Path(arguments[0]).read_bytes())
    content = b""
    if Path(arguments[1]).is_file():
        with Path(arguments[1]).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    sys.stdout.write(json.dumps(grade(text_of(content), expected)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
