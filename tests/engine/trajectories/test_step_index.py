"""The index of a trajectory's steps: where each lies, what it is about, and no secret in any of it."""

import gzip
import io
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchyard.engine.trajectories.step_index import (
    FIRST_CHARACTERS,
    HEAD_BYTES,
    LEFT_OUT,
    WHOLE_BYTES,
    IndexHead,
    StepSpan,
    find_steps,
    make_index,
    packed_table,
    spans_in,
)
from benchyard.gateway.trajectory.documents import document_text

SECRET = 'hunter2/"quoted"\nline of it'
KINDLY = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


class Indexed:
    """A trajectory's file with its index."""

    def __init__(self, stored: bytes, *secrets: str) -> None:
        self.file = make_index(io.BytesIO(stored), "trajectory.json", secrets)
        self.head, size = IndexHead.of(self.file[:HEAD_BYTES])
        self.steps = self.file if self.head.is_inside else stored
        self.table = self.file[size : size + self.head.table_bytes]
        packed = self.file[size + self.head.table_bytes :][: self.head.index_bytes]
        self.index: dict[str, Any] = json.loads(gzip.decompress(packed)) if packed else {}

    @property
    def spans(self) -> list[StepSpan]:
        return spans_in(self.table)

    def texts(self) -> list[bytes]:
        return [self.steps[span.offset : span.offset + span.length] for span in self.spans]

    def found(self, text: str, most: int = 100) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            find_steps(io.BytesIO(self.steps), packed_table(self.table), text, most)
        )
        return found


def agent_step(number: int, **fields: Any) -> dict[str, Any]:
    return {"step_id": number, "source": "agent", "message": f"message {number}", **fields}


def document(*steps: Any, **fields: Any) -> dict[str, Any]:
    return {"schema_version": "ATIF-v1.8", "agent": {"name": "a"}, "steps": list(steps), **fields}


def test_steps_of_ours_are_read_where_they_are_stored() -> None:
    call = {"tool_call_id": "c", "function_name": "bash", "arguments": {"command": "ls -l\n" * 50}}
    failed = {"results": [{"source_call_id": "c", "content": "no", "extra": {"is_error": True}}]}
    metrics = {"prompt_tokens": 10, "completion_tokens": 3, "cost_usd": 0.25}
    steps = [
        {"step_id": 1, "source": "user", "message": "Ünïcode\n  twice"},
        agent_step(2, message="", tool_calls=[call], observation=failed, metrics=metrics),
    ]
    made = Indexed(document_text(document(*steps)).encode())
    assert not made.head.is_inside
    assert [json.loads(text) for text in made.texts()] == steps
    assert len(made.file) < HEAD_BYTES + 1000
    columns = made.index["columns"]
    assert columns["source"] == ["user", "agent"]
    assert columns["tools"] == [[], ["bash"]]
    assert columns["text"] == ["Ünïcode twice", " ".join(["ls -l"] * 14)[:FIRST_CHARACTERS]]
    assert (columns["prompt_tokens"], columns["cost_usd"]) == ([None, 10], [None, 0.25])
    assert columns["is_error"] == [False, True]
    assert columns["size_bytes"] == [len(text) for text in made.texts()]
    assert made.index["trajectories"] == [{"schema_version": "ATIF-v1.8", "agent": "a", "steps": 2}]


def test_a_foreign_trajectory_is_written_anew() -> None:
    steps = [agent_step(number) for number in range(1, 4)]
    made = Indexed(json.dumps(document(*steps), indent=2).encode())
    assert made.head.is_inside
    assert [json.loads(text) for text in made.texts()] == steps
    assert made.index == Indexed(document_text(document(*steps)).encode()).index


def escaped(text: str) -> str:
    """JSON in which no character stands for itself."""
    return '"' + "".join(f"\\u{ord(character):04x}" for character in text) + '"'


@KINDLY
@given(
    st.integers(0, 200),
    st.sampled_from(["message", "reasoning_content", "source", "timestamp", "model_name"]),
)
def test_no_secret_is_in_an_index_wherever_it_stands(before: int, field: str) -> None:
    steps = [agent_step(1), agent_step(2, **{field: "x" * before + SECRET + "y" * before}), agent_step(3)]
    for stored in (document_text(document(*steps)), json.dumps(document(*steps))):
        made = Indexed(stored.encode(), SECRET)
        shown = made.file + b"".join(made.texts()) + json.dumps(made.index).encode()
        assert b"hunter2" not in shown
        assert b"quoted" not in shown
        assert json.loads(made.texts()[1])[field] == "x" * before + "***" + "y" * before
        assert made.found("hunter2")["total"] == 0


def test_a_secret_in_disguise_is_not_undone_by_the_index() -> None:
    stored = f'{{"schema_version":"ATIF-v1.8","steps":[{{"message":{escaped(SECRET)}}}]}}'
    made = Indexed(stored.encode(), SECRET)
    assert json.loads(made.texts()[0]) == {"message": "***"}
    assert made.index["columns"]["text"] == ["***"]


def test_secrets_over_the_edges_of_steps_and_in_names_are_left_out() -> None:
    over = '2"},\n{"step_id":3'
    steps = [agent_step(number) for number in (1, 2, 3)]
    plain = document_text(document(*[{"message": "2"} | {"source": "2"}, steps[2]]))
    assert over in plain
    made = Indexed(plain.encode(), over)
    assert [json.loads(text)["message"] for text in made.texts()] == [LEFT_OUT, LEFT_OUT]
    named = Indexed(
        document_text({**document(*steps), "agent": {"name": "named-" + SECRET}}).encode(), SECRET
    )
    assert named.index["trajectories"][0]["agent"] == "named-***"
    breaking = '"source":"ag'
    broken = Indexed(document_text(document({"message": "1", "source": "agent"})).encode(), breaking)
    assert json.loads(broken.texts()[0])["message"] == LEFT_OUT


def test_a_giant_step_has_a_short_form() -> None:
    giant = agent_step(2, message="é" * WHOLE_BYTES, tool_calls=[{"arguments": {"x": ["y" * 9000] * 500}}])
    made = Indexed(document_text(document(agent_step(1), giant)).encode())
    small, cut = made.spans
    assert (small.cut_length, json.loads(made.texts()[1])) == (0, giant)
    short = json.loads(made.file[cut.cut_offset : cut.cut_offset + cut.cut_length])
    assert cut.cut_length < WHOLE_BYTES / 3
    assert short["message"].endswith(f"... {WHOLE_BYTES} characters in all")
    assert len(short["tool_calls"][0]["arguments"]["x"]) == 100


def test_steps_are_found_by_any_text_in_them() -> None:
    call = {"function_name": "bash", "arguments": {"command": 'echo "Straße" \\ 100%'}}
    steps = [
        agent_step(1),
        agent_step(2, message="", tool_calls=[call]),
        agent_step(3, observation=[["deep"]]),
    ]
    made = Indexed(document_text(document(*steps)).encode())
    assert made.found("MESSAGE")["total"] == 2
    assert made.found("message 3")["found"] == [{"number": 3, "field": "message", "text": "message 3"}]
    (hit,) = made.found('"STRASSE"')["found"] or made.found('"straße"')["found"]
    assert (hit["number"], hit["field"]) == (2, "tool_calls[0].arguments.command")
    assert made.found("\\ 100%")["total"] == made.found("Deep")["total"] == 1
    assert made.found("step_id")["found"] == []
    assert made.found("e", most=1) == {"found": [made.found("e")["found"][0]], "total": 3}


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        (b"", "is empty"),
        (b"{", "still being written"),
        (b"\xff\xfe", "not text in UTF-8"),
        (b"not a trajectory", "is a JSON object"),
        (b'{"schema_version": "ATIF-v1.4"}', "no list of steps"),
        (b'{"steps": ' + b"[" * 200_000, "nested too deeply"),
        (b'{"steps": 3}', "no list of steps"),
    ],
)
def test_an_invalid_trajectory_has_its_reason(stored: bytes, told: str) -> None:
    assert told in str(Indexed(stored).head.reason)


def test_a_trajectory_that_breaks_off_has_its_steps_and_says_so() -> None:
    whole = document_text(document(*[agent_step(number) for number in (1, 2, 3)]))
    made = Indexed(whole[: whole.index('"message 3"')].encode())
    assert made.index["count"] == 2
    assert "still being written" in made.index["problem"]


def test_tens_of_thousands_of_foreign_steps_have_an_index() -> None:
    count = 20_000
    stored = b'{"schema_version":"ATIF-v1.4", "steps": [' + b", ".join([b'{"message": 1}'] * count) + b"]}"
    made = Indexed(stored)
    assert (made.head.count, made.index["count"]) == (count, count)
    assert json.loads(made.texts()[-1]) == {"message": 1}


def test_the_cost_of_the_first_and_the_last_step_does_not_grow_with_the_trajectory() -> None:
    steps = [agent_step(number, reasoning_content=f"{number} " * 1000) for number in range(1, 1001)]
    stored = document_text(document(*steps)).encode()
    made = Indexed(stored)
    read = HEAD_BYTES + made.head.index_bytes + 2 * 32 + made.spans[0].length + made.spans[-1].length
    assert json.loads(made.texts()[0]) == steps[0]
    assert json.loads(made.texts()[-1]) == steps[-1]
    assert read < len(stored) / 100
