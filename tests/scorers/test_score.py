"""From the end of an output to a score: what any bytes give, and what is said of those that give none."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchyard.errors import ScorerFailed
from benchyard.scorers import score
from benchyard.scorers.base import MOST_OUTPUT_BYTES, RoomResult

BLANKS = st.text(" \t\r\n\v\f", max_size=20).map(str.encode)
FORMS = st.sampled_from(["{}", "score={}", "score = {}", "  score={}\t"])


@given(st.binary(max_size=300))
def test_any_bytes_give_a_score_or_an_error(stdout: bytes) -> None:
    found: float | ScorerFailed
    try:
        found = score.parse(stdout)
    except ScorerFailed as error:
        found = error
    if isinstance(found, ScorerFailed):
        assert len(found.message) < 800
        assert found.message.isprintable()
    else:
        assert 0 <= found <= 1
        assert math.copysign(1, found) == 1


@given(st.floats(0, 1), FORMS, st.binary(max_size=100), BLANKS)
def test_a_score_comes_back_as_it_was_printed(value: float, form: str, before: bytes, after: bytes) -> None:
    assert score.parse(before + b"\n" + form.format(value).encode() + after) == value


@given(st.floats().filter(lambda value: not 0 <= value <= 1), FORMS)
def test_score_outside_0_to_1_is_refused(value: float, form: str) -> None:
    with pytest.raises(ScorerFailed):
        score.parse(form.format(value).encode())


@pytest.mark.parametrize(
    "line",
    [
        "1_0",
        "0x1",
        "१",
        "0,5",
        "50%",
        "--0.5",
        "score=",
        "score",
        "=0.5",
        "Score=0.5",
        "score=0.5;",
        "0.5 0.6",
        ".",
    ],
)
def test_only_plain_numbers_count(line: str) -> None:
    with pytest.raises(ScorerFailed, match="last line"):
        score.parse(line.encode())


def test_a_number_cut_at_its_beginning_does_not_count() -> None:
    with pytest.raises(ScorerFailed):
        score.parse(b"0" * MOST_OUTPUT_BYTES)


def test_an_end_that_is_lost_is_an_error() -> None:
    with pytest.raises(ScorerFailed, match="lost"):
        score.from_output(RoomResult(0, b"0.5\n", b"", truncated=True))


def test_an_error_quotes_little_and_keeps_the_output() -> None:
    with pytest.raises(ScorerFailed) as caught:
        score.from_output(RoomResult(0, b"\x1b[31m" + b"y" * 900, b"Traceback\nKeyError: 'x'\n"))
    assert len(caught.value.message) < 400
    assert "\x1b" not in caught.value.message
    assert "KeyError" in caught.value.message
    assert caught.value.details["output"].endswith("y")


@given(st.binary(max_size=100), st.binary(max_size=100), st.integers(0, 2), st.integers(0, 2))
def test_the_output_is_bounded_text(stdout: bytes, stderr: bytes, more: int, much: int) -> None:
    ran = RoomResult(0, stdout * 1000 * more, stderr * 1000 * much)
    kept = score.output(ran)
    assert len(kept) <= MOST_OUTPUT_BYTES
    assert "\0" not in kept
    kept.encode()
