"""TOML and JSON with the lines of their keys."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchyard.benchmarks.files import located_values
from benchyard.errors import UsageError

PATH = Path("some.file")

TOML = '''# a comment with [brackets] and = signs
version = "1.0"
"quoted \\u0061.key" = 1

[metadata] # another
tags = [
  "a]", # ]
  'b',
]
text = """
[not.a.table]
key = "value"
\\"""
"""
raw = \'\'\'
x = 1
\'\'\'
dotted.key.name = 2
inline = { a = 1, b = [ {c = 2} ] }

[[steps]]
name = "one"
[steps.agent]
timeout_sec = 5

[[steps]]
name = "two"
[steps.agent]
timeout_sec = 6
[[steps.hooks]]
run = "a"
[[steps.hooks]]
run = "b"
'''


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ((), 1),
        (("version",), 2),
        (("quoted a.key",), 3),
        (("metadata",), 5),
        (("metadata", "tags"), 6),
        (("metadata", "tags", 1), 6),
        (("metadata", "text"), 10),
        (("metadata", "raw"), 15),
        (("metadata", "dotted", "key", "name"), 18),
        (("metadata", "inline", "b", 0, "c"), 19),
        (("steps",), 21),
        (("steps", 0, "name"), 22),
        (("steps", 0, "agent", "timeout_sec"), 24),
        (("steps", 1), 26),
        (("steps", 1, "agent", "timeout_sec"), 29),
        (("steps", 1, "hooks", 1, "run"), 33),
        (("steps", 1, "lost"), 26),
    ],
)
def test_keys_of_toml_have_lines(place: tuple[int | str, ...], line: int) -> None:
    found = located_values.read_toml(PATH, TOML)
    assert found.data == tomllib.loads(TOML)
    assert found.line(place) == line


def test_invalid_toml_is_refused_with_its_line() -> None:
    with pytest.raises(UsageError, match=r"some\.file:2: this is not valid TOML"):
        located_values.read_toml(PATH, "a = 1\nb = \n")
    with pytest.raises(UsageError, match="nested too deeply"):
        located_values.read_toml(PATH, "a = " + "[" * 5000 + "]" * 5000)
    with pytest.raises(UsageError, match="nested too deeply"):
        located_values.read_toml(PATH, "a = " + "[" * 150 + "]" * 150)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(VALUES, st.sampled_from([None, 0, 2]))
def test_every_part_of_json_has_the_line_it_is_written_on(data: Any, indent: int | None) -> None:
    text = json.dumps(data, indent=indent)
    found = located_values.read_json(PATH, text)
    assert found.data == data
    for place, value in parts(data, ()):
        line = text.split("\n")[found.line(place) - 1]
        shown = json.dumps(place[-1] if place and isinstance(place[-1], str) else value)
        assert shown[0] in line


def parts(data: Any, place: tuple[int | str, ...]) -> list[tuple[tuple[int | str, ...], Any]]:
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [(place, data), *(part for key, value in inner for part in parts(value, (*place, key)))]


def test_invalid_json_is_refused_with_its_line() -> None:
    with pytest.raises(UsageError, match=r"some\.file:2: this is not valid JSON"):
        located_values.read_json(PATH, '{\n"a" 1}')
    with pytest.raises(UsageError, match="nested too deeply"):
        located_values.read_json(PATH, "[" * 100_000)
    with pytest.raises(UsageError, match="nested too deeply"):
        located_values.read_json(PATH, "[" * 150 + "]" * 150)
