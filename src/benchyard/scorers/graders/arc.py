"""Grades ARC-AGI submissions: two attempts for each test input, compared cell by cell, shape included.

`pair_fraction` is the fraction of test inputs that one of their two attempts solves, as the official scorer
counts a task; `task_solved` is 1 if all are solved.
"""

import json
from collections.abc import Mapping
from typing import Any

MAIN = "pair_fraction"
"""The reward that is the score."""
MOST_BYTES = 1024**2
"""Most bytes of an answer; a longer one is wrong."""

_ATTEMPTS = ("attempt_1", "attempt_2")
_LARGEST_SIDE = 30
_COLOURS = 10


def grade(answer_text: str, expected: Mapping[str, Any]) -> dict[str, float]:
    """Return the rewards of a submission; `expected` has `outputs` of the test inputs and the `task_id`."""
    outputs = expected["outputs"]
    pairs = _pairs(answer_text, expected["task_id"])
    solved = sum(_solves(pairs[index], output) for index, output in enumerate(outputs) if index < len(pairs))
    return {MAIN: solved / len(outputs), "task_solved": 1.0 if solved == len(outputs) else 0.0}


def check(expected: Mapping[str, Any]) -> None:
    """Raise ValueError unless `expected` has the fields that `grade` needs."""
    outputs = expected.get("outputs")
    if not isinstance(outputs, list) or not outputs or not all(is_grid(output) for output in outputs):
        raise ValueError("`outputs` must be a list of grids, one for each test input")
    if not isinstance(expected.get("task_id"), str):
        raise ValueError("`task_id` must be a text")


def is_grid(value: object) -> bool:
    """Tell whether a value is a list of rows of equal length, of integers from 0 to 9."""
    if not isinstance(value, list) or not 1 <= len(value) <= _LARGEST_SIDE:
        return False
    if not all(isinstance(row, list) and 1 <= len(row) <= _LARGEST_SIDE for row in value):
        return False
    cells = [cell for row in value for cell in row]
    right = all(type(cell) is int and 0 <= cell < _COLOURS for cell in cells)
    return right and len({len(row) for row in value}) == 1


def _pairs(text: str, task_id: str) -> list[Any]:
    """Return the attempts at each test input; empty if the text is not a submission.

    `{task_id: [...]}` is the official form; files of the official scorer have the list alone.
    """
    if len(text) > MOST_BYTES:
        return []
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    pairs = value.get(task_id) if isinstance(value, dict) else value
    return pairs if isinstance(pairs, list) else []


def _solves(pair: object, output: list[list[int]]) -> bool:
    if not isinstance(pair, dict):
        return False
    # Equality is not enough: in Python, true and 1.0 equal 1.
    return any(is_grid(grid) and grid == output for grid in (pair.get(name) for name in _ATTEMPTS))
