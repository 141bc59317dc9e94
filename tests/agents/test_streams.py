"""What agents print is read without trusting any of it."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from benchyard.agents import output_events

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


def test_only_whole_objects_are_events() -> None:
    text = '"half": 1}\n{"type": "a"}\n[1]\nplain\n{"type": "b"}\r\n{"cut": '
    assert [event["type"] for event in output_events.events(text)] == ["a", "b"]
    assert output_events.events("[" * 100_000) == []
    assert output_events.events('{"a":' * 100_000) == []
    assert output_events.events('{"a": ' + "9" * 10_000 + "}") == []


def test_the_last_of_a_type_is_found() -> None:
    found = output_events.events('{"type": "a", "n": 1}\n{"type": "b"}\n{"type": "a", "n": 2}\n{"type": []}')
    assert output_events.last(found, "a") == {"type": "a", "n": 2}
    assert output_events.last(found, "a", "b") == {"type": "a", "n": 2}
    assert output_events.last(found, "c") is None


def test_an_error_is_reported_in_one_line() -> None:
    assert output_events.error_line("a\n b") == "a b"
    assert output_events.error_line({"message": "no such model"}) == "no such model"
    assert output_events.error_line({"data": {"message": "no such model"}}) == "no such model"
    assert output_events.error_line('{"error": {"message": "no such model", "code": 400}}') == "no such model"
    assert output_events.error_line("{broken") == "{broken"
    assert len(output_events.error_line("x" * 10_000)) == 500
    deep = json.loads('{"message": ' * 900 + '"a"' + "}" * 900)
    assert output_events.error_line(deep) == ""
    assert output_events.error_line({"a": 1}) == output_events.error_line(None) == ""


def test_results_of_tools_are_texts_or_parts() -> None:
    assert output_events.text_of("a") == "a"
    assert output_events.text_of([{"text": "a"}, {"image": 1}, 5, {"text": 6}, {"text": "b"}]) == "a\nb"
    assert output_events.text_of({"text": "a"}) == output_events.text_of(None) == ""


@given(JSON, st.lists(st.text(max_size=8), max_size=3))
def test_anything_can_be_looked_into(value: Any, path: list[str]) -> None:
    output_events.dig(value, *path)
    assert all(isinstance(part, dict) for part in output_events.parts(value, *path))
    assert isinstance(output_events.error_line(value), str)
    assert isinstance(output_events.text_of(value), str)
