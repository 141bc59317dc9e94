"""TOML that is written is what it was when it is read."""

import datetime
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from benchyard.benchmarks.harbor.toml_writer import dump
from benchyard.errors import UsageError

_TEXTS = some.text(some.characters(codec="utf-8"))
_PLAIN = _TEXTS | some.booleans() | some.integers(-(2**63), 2**63 - 1) | some.floats(allow_nan=False)
_VALUES = some.recursive(
    _PLAIN | some.dates(),
    lambda below: some.lists(below, max_size=3) | some.dictionaries(_TEXTS, below, max_size=3),
)


@given(some.dictionaries(_TEXTS, _VALUES, max_size=5))
def test_written_toml_reads_back_unchanged(data: dict[str, Any]) -> None:
    assert tomllib.loads(dump(data)) == data


def test_values_of_none_are_not_written() -> None:
    data = {
        "b": {"c": 1, "d": None},
        "steps": [{"name": "one", "user": None}],
        "when": datetime.time(1, 2),
        "e": None,
    }
    written = {"b": {"c": 1}, "steps": [{"name": "one"}], "when": datetime.time(1, 2)}
    assert tomllib.loads(dump(data)) == written


def test_invalid_unicode_is_refused() -> None:
    with pytest.raises(UsageError, match="not valid Unicode"):
        dump({"a": "\ud800"})
