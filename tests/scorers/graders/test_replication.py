"""Submissions to ReplicationBench: numbers within their tolerances, and texts that are nearly JSON."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchyard.scorers.graders import replication
from benchyard.scorers.standalone.answer_file import text_of
from tests import parity
from tests.benchmarks.samples.finding import sample
from tests.scorers.graders.program import run


def right(actual: Any, value: Any, tolerance: Any = 0) -> bool:
    expected = {"values": {"t": value}, "tolerances": {"t": tolerance}}
    rewards = replication.grade(json.dumps({"t": actual}), expected)
    assert rewards["task_fraction"] == rewards["task.t"]
    return rewards["task.t"] == 1.0


@pytest.mark.parametrize(
    ("actual", "value", "tolerance"),
    [
        (1, 1, 0),
        (1.0, 1, 0),
        (1, 1.0, None),
        (1.5, 1, 0.5),
        (-3, -3.2, 0.25),
        ([1, 2.05], [1, 2], [0, 0.1]),
        ([1.1, 2.1], [1, 2], 0.11),
        ([[1, 2], [3, 4]], [[1, 2], [3, 4]], [[0, 0], [0, 0]]),
        ({"a": 1, "b": 2}, {"a": 1}, {"a": 0}),
        ({"a": {"b": [5]}}, {"a": {"b": [5.5]}}, {"a": {"b": [0.5]}}),
        ({"a": 1.1}, {"a": 1}, 0.2),
        ({"a": 1}, {"a": 1}, {}),
        (None, None, 0),
        ("yes", "yes", 0),
        (10**400, 10**400, 0),
    ],
)
def test_values_within_the_tolerance_are_right(actual: Any, value: Any, tolerance: Any) -> None:
    assert right(actual, value, tolerance)


@pytest.mark.parametrize(
    ("actual", "value", "tolerance"),
    [
        (1.51, 1, 0.5),
        (1.1, 1, None),
        (True, 1, 5),
        ("1", 1, 5),
        (None, 1, 5),
        (0, None, 5),
        ([1], 1, 5),
        (1, [1], 5),
        ([1, 2, 3], [1, 2], 5),
        ([1], [1, 2], 5),
        ([1, 2], [1, 5], [9, 1]),
        ([1, 5.5], [1, 5], [1]),
        ({"a": 1}, {"a": 1, "b": 2}, 5),
        ({"a": 1.5}, {"a": 1}, {"b": 5}),
        ([1, 2], {"a": 1}, 5),
        (float("nan"), 1, 5),
        (float("inf"), 1, 5),
        (float("nan"), float("nan"), 5),
        (10**400, 1.5, 5),
        ("yes", "no", 5),
    ],
)
def test_values_outside_the_tolerance_are_wrong(actual: Any, value: Any, tolerance: Any) -> None:
    assert not right(actual, value, tolerance)


def test_every_task_has_its_reward_and_the_score_is_their_part() -> None:
    expected = {"values": {"a": 1, "b": 2, "c": 3, "d": 4}, "tolerances": {"a": 0.5}}
    rewards = replication.grade('{"a": 1.2, "b": 2, "c": 3.1, "more": 1}', expected)
    assert rewards == {"task_fraction": 0.5, "task.a": 1.0, "task.b": 1.0, "task.c": 0.0, "task.d": 0.0}
    assert set(replication.grade("", expected).values()) == {0.0}


@pytest.mark.parametrize(
    "text",
    [
        '{"t": 1}',
        "{'t': 1}",
        "```json\n{'t': 1}\n```",
        "Here it is:\n```\n{'t': 1}\n```\nDone.",
        "The result is {'t': 1}, which took {long}.",
        "{nothing} {'t': 1}",
        "{'t': 1, 'x': {'y': 2}}",
        "{'t': 1, 'x': {'y': 2}{} }{'t': 1}",
    ],
)
def test_nearly_json_is_accepted(text: str) -> None:
    assert replication.grade(text, {"values": {"t": 1}, "tolerances": {}})["task_fraction"] == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "t: 1",
        "{'t': None}",
        "[1]",
        "'x' [1, 2]",
        '"{}"',
        # Two inner objects with something between them: the official pattern sees only the first of those.
        "{'x': {'y': 1}, 'z': {'y': 2}, 't': 1}",
        '{"t": ' + "9" * 5000 + "}",
        "[" * 100_000,
        '{"t":' * 100_000,
        "{" * 100_000,
        "{}" * 20_000,
        "```json" * 20_000,
        "```json" + " " * 500_000,
    ],
    ids=lambda text: text[:20],
)
def test_unreadable_answer_is_wrong(text: str) -> None:
    assert replication.grade(text, {"values": {"t": 1}, "tolerances": {}})["task_fraction"] == 0


def test_too_long_or_undecodable_answer_is_wrong() -> None:
    assert replication.submission('{"t": 1}' + " " * replication.MOST_BYTES) is None
    assert text_of(b" " * (replication.MOST_BYTES + 1), replication.MOST_BYTES) == ""
    assert text_of(b'{"t": "\xff"}', replication.MOST_BYTES) == ""


numbers = st.integers(-(10**6), 10**6) | st.floats(-1e6, 1e6)
values = st.recursive(
    numbers,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(st.text(min_size=1, max_size=8), values, min_size=1, max_size=4), st.floats(0, 10))
def test_expected_values_of_any_shape_are_right(expected: dict[str, Any], tolerance: float) -> None:
    tolerances = dict.fromkeys(expected, tolerance)
    rewards = replication.grade(json.dumps(expected), {"values": expected, "tolerances": tolerances})
    assert set(rewards.values()) == {1.0}


@given(values, st.floats(0, 10))
def test_single_number_outside_the_tolerance_is_wrong(value: Any, tolerance: float) -> None:
    moved = copy.deepcopy(value)
    if not _move(moved_in := [moved], tolerance + 1 + 1e-3):
        return
    assert not right(moved_in[0], value, tolerance)


def _move(inside: Any, by: float) -> bool:
    """Change the first number in this by so much; False if there is none."""
    for place, each in inside.items() if isinstance(inside, dict) else enumerate(inside):
        if isinstance(each, list | dict):
            if _move(each, by):
                return True
        else:
            inside[place] = each + by
            return True
    return False


@given(st.text() | st.text(alphabet="{}[]'\"`json:1, "))
def test_any_text_is_graded(text: str) -> None:
    rewards = replication.grade(text, {"values": {"t": 1}, "tolerances": {"t": 1}})
    assert rewards["task_fraction"] in (0.0, 1.0)


@pytest.mark.parametrize(
    "expected", [{}, {"values": {}}, {"values": [1]}, {"values": {"t": 1}, "tolerances": 3}]
)
def test_invalid_expected_answer_is_refused(expected: Any) -> None:
    replication.check({"values": {"t": 1}, "tolerances": {}})
    with pytest.raises(ValueError, match="must be an object"):
        replication.check(expected)


def test_it_is_a_program_too(tmp_path: Path) -> None:
    expected = {"values": {"t": 1}, "tolerances": {"t": 0.5}}
    assert run(replication, tmp_path, expected, b"{'t': 1.25}") == {"task_fraction": 1.0, "task.t": 1.0}
    assert run(replication, tmp_path, expected, None) == {"task_fraction": 0.0, "task.t": 0.0}


def test_the_official_verdicts_are_reproduced() -> None:
    lines = sample("replicationbench/official_scores-sample.jsonl").read_text().splitlines()
    for line in lines:
        row = json.loads(line)
        expected = {"values": json.loads(row["target"]), "tolerances": row["output_tolerance"]}
        rewards = replication.grade(row["answer"], expected)
        assert rewards.pop("task_fraction") == row["official_value"]
        fields = row["official_field_scores"]
        assert {name.removeprefix("task."): value for name, value in rewards.items()} == (
            fields or dict.fromkeys(expected["values"], 0.0)
        )
    assert len(lines) == 30
    parity.note("replicationbench verdicts", [str(at) for at in range(len(lines))], len(lines))
