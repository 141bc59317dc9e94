"""Grades answers to AIME problems: an integer from 0 to 999, taken from a text and compared exactly.

What counts is the last `\\boxed{...}`; where there is none, the last line `ANSWER: n`; else the last integer.
Signs of dollars, commas between thousands, `\\text` and leading zeros do not matter.
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

_LARGEST = 999
_BOX = "\\boxed"
_NUMBER = r"[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+"
_ENDS = r"(?!\.?[0-9]|,[0-9]{3}(?![0-9]))"
_INTEGER = re.compile(rf"[+-]?(?:{_NUMBER})")
_LINE = re.compile(
    rf"^[ \t>*_#]*(?:final[ \t]+)?answer[*_]*[ \t]*:[*_ \t]*([+-]?(?:{_NUMBER})){_ENDS}",
    re.IGNORECASE | re.MULTILINE,
)
_ANY = re.compile(rf"(?<![0-9.])(?:(?<![\w)\]}}])[+-])?(?:{_NUMBER}){_ENDS}")
_STYLE = r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|bf|rm)\b"
_STYLED = re.compile(rf"{_STYLE}\s*\{{[^{{}}]*\}}")
_STYLES = re.compile(_STYLE)
_BLANKS = re.compile(r"\\[,;:!()\[\] ]|\^\s*\{?\s*\\circ\b|°|[\s{}$~]|\\(?:left|right|quad)\b")


def grade(answer_text: str, expected: Mapping[str, Any]) -> dict[str, float]:
    """`correct`: whether the answer is the number `answer` of what is expected."""
    found = extracted(answer_text)
    return {MAIN: 1.0 if found is not None and found == expected["answer"] else 0.0}


def check(expected: Mapping[str, Any]) -> None:
    """Raise ValueError unless this is what `grade` needs."""
    answer = expected.get("answer")
    if type(answer) is not int or not 0 <= answer <= _LARGEST:
        raise ValueError("`answer` must be an integer from 0 to 999")


def extracted(text: str) -> int | None:
    """The integer from 0 to 999 that a text gives as its answer; None if there is none."""
    if len(text) > MOST_BYTES:
        return None
    plain = text.replace("$", "").replace("{,}", ",")
    if _BOX in text:
        return _whole(_boxed(text))
    found = _LINE.findall(plain) or _ANY.findall(plain)
    return _value(found[-1]) if found else None


def _boxed(text: str) -> str:
    """What is in the last box; nothing if it has no end."""
    inside = text[text.rfind(_BOX) + len(_BOX) :].lstrip()
    if not inside.startswith("{"):
        return inside.split(None, 1)[0] if inside else ""
    depth = 0
    for at, letter in enumerate(inside):
        depth += (letter == "{") - (letter == "}")
        if depth == 0:
            return inside[1:at]
    return ""


def _whole(text: str) -> int | None:
    """The integer that a text is, units and signs of typesetting aside."""
    text = text.replace("{,}", ",").replace("\\$", "")
    for plain in (_STYLED.sub("", text), _STYLES.sub("", text)):
        stripped = _BLANKS.sub("", plain).rstrip(".")
        if stripped.startswith("(") and stripped.endswith(")"):
            stripped = stripped[1:-1]
        if _INTEGER.fullmatch(stripped):
            return _value(stripped)
    return None


def _value(number: str) -> int | None:
    digits = number.replace(",", "").removeprefix("+").lstrip("0") or "0"
    return int(digits) if digits.isdecimal() and len(digits) <= len(str(_LARGEST)) else None


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
