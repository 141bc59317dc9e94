"""The letter that is taken from an answer to a GPQA question."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchyard.scorers.graders import gpqa
from benchyard.scorers.standalone.answer_file import text_of
from tests.scorers.graders.program import run

TAKEN = {
    "Answer: C": "C",
    "I think so.\nAnswer: C\n": "C",
    "ANSWER:C": "C",
    "answer \t: \t$C$": "C",
    "Answer: $C": "C",
    "Answer: c": "c",
    "Answer: A, no. Answer: C": "A",
    "Answer: Depends": "D",
    "The Answer: (C)": None,
    "**Answer:** C": None,
    "Answer:\nC": None,
    "Answer: E": None,
    "C": None,
    "": None,
}


@pytest.mark.parametrize("text", TAKEN)
def test_the_answer_that_is_taken(text: str) -> None:
    assert gpqa.extract(text) == TAKEN[text]
    assert gpqa.grade(text, {"letter": "C"}) == {"correct": 1.0 if TAKEN[text] == "C" else 0.0}


@given(st.text() | st.text(alphabet="ANSWERanswer:$ \tABCD"))
def test_any_text_is_graded(text: str) -> None:
    assert gpqa.grade(text, {"letter": "B"})["correct"] in (0.0, 1.0)


def test_too_long_or_undecodable_answer_is_wrong() -> None:
    assert gpqa.extract("Answer: C" + " " * gpqa.MOST_BYTES) is None
    assert text_of(b"Answer: C" + b" " * gpqa.MOST_BYTES, gpqa.MOST_BYTES) == ""
    assert text_of(b"\xffAnswer: C", gpqa.MOST_BYTES) == ""


@pytest.mark.parametrize("letter", [None, 2, "", "E", "AB", "c"])
def test_invalid_expected_answer_is_refused(letter: object) -> None:
    gpqa.check({"letter": "A"})
    with pytest.raises(ValueError, match="letter"):
        gpqa.check({"letter": letter})


def test_it_is_a_program_too(tmp_path: Path) -> None:
    assert run(gpqa, tmp_path, {"letter": "C"}, b"Answer: C\n") == {"correct": 1.0}
    assert run(gpqa, tmp_path, {"letter": "C"}, None) == {"correct": 0.0}
