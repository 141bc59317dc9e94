"""Submissions to ARC tasks: two attempts for each test input, the same grid or not."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchyard.scorers.graders import arc
from benchyard.scorers.standalone.answer_file import text_of
from tests.scorers.graders.program import run

ONE = [[0, 1], [2, 3]]
TWO = [[4, 5, 6]]
EXPECTED = {"task_id": "abc", "outputs": [ONE, TWO]}
ALL = {"pair_fraction": 1.0, "task_solved": 1.0}
HALF = {"pair_fraction": 0.5, "task_solved": 0.0}
NONE = {"pair_fraction": 0.0, "task_solved": 0.0}


def pair(first: Any, second: Any = None) -> dict[str, Any]:
    return {"attempt_1": first, "attempt_2": [] if second is None else second}


CASES = [
    ({"abc": [pair(ONE), pair(TWO)]}, ALL),
    ({"abc": [pair([[9]], ONE), pair(TWO, [[9]])]}, ALL),
    ([pair(ONE), pair(TWO)], ALL),
    ({"abc": [pair(ONE), pair(TWO), pair(ONE)], "other": 1}, ALL),
    ({"abc": [pair(ONE), pair(ONE, TWO[0])]}, HALF),
    ({"abc": [pair(ONE)]}, HALF),
    ({"abc": [{"attempt_1": ONE}, {}]}, HALF),
    ({"abc": [pair(TWO), pair(ONE)]}, NONE),
    ({"abc": [pair([[0, 1, 2, 3]]), pair([[4], [5], [6]])]}, NONE),
    ({"abc": [pair([[0, 1], [2, 3], []]), pair([[4, 5, 6], [0, 0, 0]])]}, NONE),
    ({"abc": [pair([[False, True], [2, 3]]), pair([[4.0, 5, 6]])]}, NONE),
    ({"abc": [pair([["0", "1"], ["2", "3"]]), pair("[[4, 5, 6]]")]}, NONE),
    ({"abc": [{"attempt_3": ONE}, {"attempt_1": []}]}, NONE),
    ({"abc": [[ONE], [TWO]]}, NONE),
    ({"abc": pair(ONE)}, NONE),
    ({"ABC": [pair(ONE), pair(TWO)]}, NONE),
    ({"abc": []}, NONE),
    ({}, NONE),
    ([], NONE),
    (None, NONE),
    (7, NONE),
]


@pytest.mark.parametrize(("submission", "rewards"), CASES)
def test_rewards_of_submissions(submission: Any, rewards: dict[str, float]) -> None:
    assert arc.grade(json.dumps(submission), EXPECTED) == rewards


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing",
        "[" * 200_000,
        '{"abc":' * 50_000,
        "NaN",
        '{"abc": [{"attempt_1": [[NaN]]}]}',
        "9" * 9999,
    ],
    ids=lambda text: text[:20],
)
def test_invalid_submission_is_wrong(text: str) -> None:
    assert arc.grade(text, EXPECTED) == NONE


def test_too_long_or_undecodable_answer_is_wrong() -> None:
    right = json.dumps(CASES[0][0])
    assert arc.grade(right + " " * arc.MOST_BYTES, EXPECTED) == NONE
    assert text_of(right.encode() + b" " * arc.MOST_BYTES, arc.MOST_BYTES) == ""
    assert text_of(b"\xff" + right.encode(), arc.MOST_BYTES) == ""


grids = st.integers(1, 4).flatmap(
    lambda width: st.lists(
        st.lists(st.integers(0, 9), min_size=width, max_size=width), min_size=1, max_size=30
    )
)


@given(st.lists(grids, min_size=1, max_size=4), st.data())
def test_the_fraction_is_that_of_the_inputs_solved(
    outputs: list[list[list[int]]], data: st.DataObject
) -> None:
    right = data.draw(st.lists(st.booleans(), min_size=len(outputs), max_size=len(outputs)))
    second = data.draw(st.booleans())
    pairs = []
    for output, solved in zip(outputs, right, strict=True):
        attempt = output if solved else [*output, output[0]]
        pairs.append(pair([[0]] if output != [[0]] else [[1]], attempt) if second else pair(attempt))
    rewards = arc.grade(json.dumps({"x": pairs}), {"task_id": "x", "outputs": outputs})
    assert rewards == {"pair_fraction": sum(right) / len(outputs), "task_solved": float(all(right))}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["abc", "attempt_1", "attempt_2"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_json_is_graded(value: Any) -> None:
    assert 0 <= arc.grade(json.dumps(value), EXPECTED)["pair_fraction"] <= 1


@pytest.mark.parametrize(
    "expected",
    [
        {},
        {"outputs": []},
        {"task_id": "x", "outputs": [[]]},
        {"task_id": "x", "outputs": [[[10]]]},
        {"task_id": "x", "outputs": [[[0] * 31]]},
        {"task_id": "x", "outputs": [[[0, 1], [0]]]},
        {"task_id": 7, "outputs": [ONE]},
    ],
)
def test_invalid_expected_answer_is_refused(expected: Any) -> None:
    arc.check(EXPECTED)
    with pytest.raises(ValueError, match="must be a"):
        arc.check(expected)


def test_it_is_a_program_too(tmp_path: Path) -> None:
    assert run(arc, tmp_path, EXPECTED, json.dumps(CASES[0][0]).encode()) == ALL
    assert run(arc, tmp_path, EXPECTED, None) == NONE
