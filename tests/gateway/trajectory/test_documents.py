"""A trajectory's text has one step per line, is the same JSON, and is read as far as it goes."""

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchyard.errors import UsageError
from benchyard.gateway.trajectory.builder import TrajectoryOwner, trajectory_of
from benchyard.gateway.trajectory.documents import (
    MOST_NESTED,
    TrajectoryDocument,
    document_of,
    document_text,
)
from tests.gateway.trajectory.scripts import PROMPT, Anthropic, Said, next_call

TEXTS = st.text(st.characters(exclude_categories=()), max_size=8) | st.sampled_from(["\n", "steps", "\ud800"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["steps", "subagent_trajectories", "agent", "extra", "schema_version"]) | TEXTS
DOCUMENTS = st.recursive(
    st.dictionaries(KEYS, VALUES | st.lists(VALUES, max_size=4), max_size=5),
    lambda inner: st.fixed_dictionaries(
        {"steps": st.lists(VALUES), "subagent_trajectories": st.lists(inner)}
    ),
    max_leaves=4,
)
KINDLY = settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
STEPS = [{"step_id": number, "source": "agent", "message": f"one\n{number}"} for number in range(1, 6)]


def rewritten(text: str) -> str:
    return "".join(piece.text for piece in TrajectoryDocument(text).pieces())


def is_finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(is_finite, value.values()))
    if isinstance(value, list):
        return all(map(is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


@KINDLY
@given(DOCUMENTS, st.sampled_from([None, 2]))
def test_a_document_is_the_same_json_from_every_writer(document: dict[str, Any], indent: int | None) -> None:
    text = document_text(document)
    if is_finite(document):
        assert json.loads(text) == document
    assert rewritten(text) == text
    foreign = json.dumps(document, indent=indent)
    assert rewritten(foreign) == text
    found = TrajectoryDocument(foreign)
    assert all("\n" not in piece.text for piece in found.pieces() if piece.trajectory is not None)
    assert found.problem is None


@KINDLY
@given(st.data())
def test_a_document_that_breaks_off_gives_the_steps_before_that(data: st.DataObject) -> None:
    text = document_text({"schema_version": "ATIF-v1.8", "steps": STEPS, "extra": {}})
    end = data.draw(st.integers(0, len(text) - 1))
    ends = [place for place, character in enumerate(text, start=1) if character == "}"][: len(STEPS)]
    document = TrajectoryDocument(text[:end])
    assert [step for _, step in document.steps()] == STEPS[: sum(place <= end for place in ends)]
    assert "still being written" in str(document.problem)


def test_what_the_gateway_builds_has_a_line_for_each_step() -> None:
    agent = Anthropic()
    agent.user(PROMPT)
    calls = [next_call(agent, 1, Said("I do it.", [("id", "Bash", {"command": "touch hello.txt"})]))]
    made = trajectory_of(calls, TrajectoryOwner("agent", prompt=PROMPT))
    lines = document_text(made).splitlines()
    assert [json.loads(line.rstrip(","))["step_id"] for line in lines[1:-1]] == [1, 2, 3]
    assert json.loads("".join(lines)) == made


def test_sub_agents_are_numbered_with_their_own_heads() -> None:
    inner = {"trajectory_id": "t.2", "steps": STEPS[:2]}
    document = TrajectoryDocument(document_text({"steps": STEPS, "subagent_trajectories": [inner, 3]}))
    assert [trajectory for trajectory, _ in document.steps()] == [0] * 5 + [1] * 2
    assert [(head.known, head.steps) for head in document.heads] == [({}, 5), ({"trajectory_id": "t.2"}, 2)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "is a JSON object"),
        ("nothing", "is a JSON object"),
        ('{"steps": [1, 2]} x', "more after the end"),
        ('{"steps": [1 2]}', "in the place of ','"),
        ("{steps: []}", "no name"),
        ('{"steps": [' + "[" * 100_000, "nested too deeply"),
        ('{"steps": [' + "9" * 5000 + "]}", "digits"),
    ],
)
def test_what_is_wrong_is_said(text: str, problem: str) -> None:
    document = TrajectoryDocument(text)
    list(document.pieces())
    assert problem in str(document.problem)


def test_trajectories_nested_without_end_stay_whole() -> None:
    document: dict[str, Any] = {"steps": [0]}
    for number in range(1, 100):
        document = {"steps": [number], "subagent_trajectories": [document]}
    found = TrajectoryDocument(json.dumps(document))
    assert json.loads("".join(piece.text for piece in found.pieces())) == document
    assert len(found.heads) == MOST_NESTED + 1


@pytest.mark.parametrize("content", [b"", b" \n", b'{"steps":["\xff"]}'])
def test_files_that_are_not_text_are_refused(content: bytes) -> None:
    with pytest.raises(UsageError, match="the trajectory is"):
        document_of(content)


def test_a_file_that_ends_within_a_character_is_read_until_there() -> None:
    content = document_text({"steps": [*STEPS, "€"]}).encode()
    place = content.index("€".encode())
    assert len(list(document_of(content[: place + 1]).steps())) == len(STEPS)
