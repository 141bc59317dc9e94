"""Grades ReplicationBench submissions: numbers within an absolute tolerance, task by task.

A task is right or wrong as a whole. A tolerance has the shape of the expected value, or is one number for
all of it; a missing one is 0. Lists must have the same length; objects must have every expected key, and may
have more. `task_fraction` is the fraction of tasks that are right.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

MAIN = "task_fraction"
"""The reward that is the score; every task also has a separate reward, `task.ID`."""
MOST_BYTES = 1024**2
"""Most bytes of an answer; a longer one is wrong."""

_FENCE = "```"


def grade(answer_text: str, expected: Mapping[str, Any]) -> dict[str, float]:
    """Return the rewards of a submission; `expected` has `values` and `tolerances`, both by task id."""
    answer = submission(answer_text)
    answers = answer if isinstance(answer, dict) else {}
    values, tolerances = expected["values"], expected["tolerances"]
    right = {
        task: task in answers and _close(answers[task], value, tolerances.get(task, 0))
        for task, value in values.items()
    }
    rewards = {f"task.{task}": float(is_right) for task, is_right in right.items()}
    return {MAIN: sum(right.values()) / len(values), **rewards}


def check(expected: Mapping[str, Any]) -> None:
    """Raise ValueError unless `expected` has the fields that `grade` needs."""
    if not isinstance(expected.get("values"), dict) or not expected["values"]:
        raise ValueError("`values` must be an object: the id of each task, and what is expected")
    if not isinstance(expected.get("tolerances"), dict):
        raise ValueError("`tolerances` must be an object: the id of each task, and its tolerance")


def submission(text: str) -> Any:
    """Return the JSON value of a text, read as tolerantly as by the official scorer; None if there is none.

    Tries the whole text, then the pieces in braces, between fences and in brackets, and takes the first that
    is JSON once its single quotes are replaced by double ones.
    """
    if len(text) > MOST_BYTES:
        return None
    for piece in _pieces(text):
        try:
            return json.loads(piece)
        except json.JSONDecodeError:
            continue
        except (ValueError, RecursionError):
            return None
    return None


def _pieces(text: str) -> Iterator[str]:
    yield text
    plain = text.replace("'", '"')
    yield from _enclosed(plain, "{", "}")
    yield from _fenced(plain, f"{_FENCE}json")
    yield from _fenced(plain, _FENCE)
    yield from _enclosed(plain, "[", "]")


def _enclosed(text: str, opening: str, closing: str) -> Iterator[str]:
    """Yield the texts between brackets; inner brackets must be adjacent and have none inside."""
    marks = [(at, letter) for at, letter in enumerate(text) if letter in (opening, closing)]
    shape = "".join("(" if letter == opening else ")" for _, letter in marks)
    index = 0
    while index < len(marks):
        last = _end(shape, marks, index) if shape[index] == "(" else None
        if last is None:
            index += 1
        else:
            yield text[marks[index][0] : marks[last][0] + 1]
            index = last + 1


def _end(shape: str, marks: list[tuple[int, str]], start: int) -> int | None:
    """Return the bracket that closes the one at `start`; None if none does, or it nests deeper."""
    at = start + 1
    while shape.startswith("()", at) and (at == start + 1 or marks[at][0] == marks[at - 1][0] + 1):
        at += 2
    return at if shape.startswith(")", at) else None


def _fenced(text: str, opening: str) -> Iterator[str]:
    at = text.find(opening)
    while at >= 0:
        begin = at + len(opening)
        end = text.find(_FENCE, begin)
        if end < 0:
            return
        yield text[begin:end].strip()
        at = text.find(opening, end + len(_FENCE))


def _close(actual: Any, value: Any, tolerance: Any) -> bool:
    if value is None:
        return actual is None
    if _is_number(actual) and _is_number(value):
        return _near(actual, value, tolerance)
    if type(actual) is not type(value):
        return False
    if isinstance(value, dict):
        return all(key in actual and _close(actual[key], value[key], _of(tolerance, key)) for key in value)
    if isinstance(value, list):
        return len(actual) == len(value) and all(
            _close(actual[at], value[at], _of(tolerance, at)) for at in range(len(value))
        )
    return bool(actual == value)


def _near(actual: float, value: float, tolerance: Any) -> bool:
    allowed = tolerance if isinstance(tolerance, int | float) else 0
    try:
        return abs(actual - value) <= allowed
    except OverflowError:
        return False


def _of(tolerance: Any, place: Any) -> Any:
    """Return the tolerance of a part: its own, or the one for the whole value."""
    if isinstance(tolerance, dict):
        return tolerance.get(place, 0)
    if isinstance(tolerance, list):
        return tolerance[place] if isinstance(place, int) and place < len(tolerance) else 0
    return tolerance


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
