"""Grades answers to GPQA questions: the letter of the right option, extracted as in simple-evals.

The first `Answer: X` of the text counts, by the same pattern. The pattern also finds a small letter, which
is wrong, as it is in simple-evals.
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
"""Most bytes of an answer; a longer one is wrong."""

_ANSWER = re.compile(r"(?i)Answer[ \t]*:[ \t]*\$?([A-D])\$?")
_LETTERS = "ABCD"


def grade(answer_text: str, expected: Mapping[str, Any]) -> dict[str, float]:
    """Return the reward `correct`: 1.0 if the answer is the `letter` of `expected`, else 0.0."""
    return {MAIN: 1.0 if extracted(answer_text) == expected["letter"] else 0.0}


def check(expected: Mapping[str, Any]) -> None:
    """Raise ValueError unless `expected` has what `grade` needs."""
    letter = expected.get("letter")
    if not isinstance(letter, str) or len(letter) != 1 or letter not in _LETTERS:
        raise ValueError("`letter` must be one of A, B, C and D")


def extracted(text: str) -> str | None:
    """Return the letter that a text gives as its answer; None if there is none."""
    if len(text) > MOST_BYTES:
        return None
    match = _ANSWER.search(text)
    return match[1] if match else None


def text_of(content: bytes) -> str:
    """Return the text of an answer's file; empty if it is too long or not UTF-8."""
    try:
        return content.decode("utf-8-sig") if len(content) <= MOST_BYTES else ""
    except UnicodeDecodeError:
        return ""


def main(arguments: list[str]) -> int:
    """Take `EXPECTED.json ANSWER_FILE` and print the rewards; a missing answer is wrong."""
    expected = json.loads(Path(arguments[0]).read_bytes())
    content = b""
    if Path(arguments[1]).is_file():
        with Path(arguments[1]).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    sys.stdout.write(json.dumps(grade(text_of(content), expected)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
