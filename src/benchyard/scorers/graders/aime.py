"""Grades answers to AIME problems: an integer from 0 to 999, taken from a text and compared exactly.

The last `\\boxed{...}` counts; without one, the last line `ANSWER: n`; without that, the last integer.
Dollar signs, commas between thousands, `\\text` and leading zeros do not matter.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

MAIN = "correct"
"""The reward that is the score."""
MOST_BYTES = 64 * 1024
"""Most bytes of an answer; a longer one is wrong."""

_LARGEST = 999
_ASCII_DIGITS = tuple("0123456789")
_BOX = "\\boxed"
_NUMBER = r"[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+"
_ENDS = r"(?!\.?[0-9]|,[0-9]{3}(?![0-9]))"
_INTEGER = re.compile(rf"[+-]?(?:{_NUMBER})")
_LINE = re.compile(
    rf"^[ \t>*_#]*(?:final[ \t]+)?answer[*_]*[ \t]*:[*_ \t]*([+-]?(?:{_NUMBER})){_ENDS}",
    re.IGNORECASE | re.MULTILINE,
)
_DIGITS = re.compile(r"[0-9]++(?:,[0-9]++)*+")
_THOUSAND = 3
"""Digits between commas."""
_BEFORE_SIGN = re.compile(r"[\w.)\]}]")
"""Character before a sign that makes the sign an operator."""
_STYLE = r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|bf|rm)\b"
_STYLED = re.compile(rf"{_STYLE}\s*\{{[^{{}}]*\}}")
_STYLES = re.compile(_STYLE)
_BLANKS = re.compile(r"\\[,;:!()\[\] ]|\^\s*+(?:\{\s*+)?\\circ\b|°|[\s{}$~]|\\(?:left|right|quad)\b")


def grade(answer_text: str, expected: Mapping[str, Any]) -> dict[str, float]:
    """Return the reward `correct`: 1.0 if the answer is the number `answer` of `expected`, else 0.0."""
    answer = extract(answer_text)
    return {MAIN: 1.0 if answer is not None and answer == expected["answer"] else 0.0}


def check(expected: Mapping[str, Any]) -> None:
    """Raise ValueError unless `expected` has the fields that `grade` needs."""
    answer = expected.get("answer")
    if type(answer) is not int or not 0 <= answer <= _LARGEST:
        raise ValueError("`answer` must be an integer from 0 to 999")


def extract(text: str) -> int | None:
    """Return the integer from 0 to 999 that a text gives as its answer; None if there is none."""
    if len(text) > MOST_BYTES:
        return None
    plain = text.replace("$", "").replace("{,}", ",")
    if _BOX in text:
        return _whole(_boxed(text))
    answers = _LINE.findall(plain)
    last = answers[-1] if answers else _last_integer(plain)
    return None if last is None else _value(last)


def _last_integer(text: str) -> str | None:
    """Return the last integer of a text, with its sign; None if there is none.

    Each run of digits and commas is scanned once, from left to right: a pattern for a whole number with
    commas would start again at each part.
    """
    last = None
    for match in _DIGITS.finditer(text):
        begin, end = match.span()
        is_decimal = text[end : end + 1] == "." and text[end + 1 : end + 2] in _ASCII_DIGITS
        is_fraction = text[begin - 1 : begin] == "." if begin else False
        for at, size in _integers(match[0].split(","), is_fraction=is_fraction, is_decimal=is_decimal):
            number = match[0][at : at + size]
            last = _sign(text, begin) + number if at == 0 else number
    return last


def _integers(parts: "list[str]", *, is_fraction: bool, is_decimal: bool) -> "Iterator[tuple[int, int]]":
    """Yield the place and length of each integer in digits split at commas.

    `is_fraction` says whether a point stands before the first part, `is_decimal` whether the last part
    continues with a point and a digit.
    """
    thousands = [0] * (len(parts) + 1)
    for index in range(len(parts) - 1, 0, -1):
        thousands[index] = thousands[index + 1] + 1 if len(parts[index]) == _THOUSAND else 0
    index = at = 0
    while index < len(parts):
        more = thousands[index + 1]
        taken = 1 + more if len(parts[index]) <= _THOUSAND else 1
        is_cut = taken == 1 and more > 0
        is_last = index + taken == len(parts)
        if is_cut or (is_last and is_decimal) or (index == 0 and is_fraction):
            # The next part may begin an integer.
            taken, size = 1, len(parts[index])
        else:
            size = len(parts[index]) + (taken - 1) * (_THOUSAND + 1)
            yield at, size
        index += taken
        at += size + 1


def _sign(text: str, begin: int) -> str:
    """Return the sign of the number that begins there; empty if it has none, or the sign is an operator."""
    sign = text[begin - 1 : begin] if begin else ""
    if sign not in ("+", "-"):
        return ""
    return "" if begin > 1 and _BEFORE_SIGN.match(text[begin - 2]) else sign


def _boxed(text: str) -> str:
    """Return the content of the last box; empty if the box is not closed."""
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
    """Return the integer that a text consists of, apart from units and typesetting; None if it is not one."""
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
