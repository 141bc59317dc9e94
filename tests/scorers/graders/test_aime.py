"""The integer that is taken from an answer to an AIME problem."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchyard.scorers.graders import aime
from benchyard.scorers.standalone.answer_file import text_of
from tests.benchmarks.samples.finding import sample
from tests.scorers.graders.program import run

TAKEN = {
    "73": 73,
    "073\n": 73,
    "000": 0,
    "999": 999,
    "$73$": 73,
    "The answer is 73.": 73,
    "12 + 61 = 73": 73,
    "first 5, then 73": 73,
    "5-3": 3,
    "(3,4)": 4,
    "\\boxed{73}": 73,
    "So \\boxed{12} at first, but \\boxed{ 073 } in the end, and 5 of them": 73,
    "$\\boxed{\\text{073}}$": 73,
    "\\boxed{73\\text{ degrees}}": 73,
    "\\boxed{\\mathbf{73}}": 73,
    "\\boxed{73^\\circ}": 73,
    "\\boxed{73^{\\circ}}": 73,
    "\\boxed{7^3}": None,
    "\\boxed{\\boxed{73}}": 73,
    "\\boxed{\\textbf{(073) }}": 73,
    "\\boxed{(3,4)}": None,
    "\\boxed 73": 73,
    "\\boxed{x} = 73": None,
    "\\boxed{73": None,
    "\\boxed{}": None,
    "\\boxed{1{,}000}": None,
    "\\boxed{-73}": None,
    "\\boxed{73.5}": None,
    "ANSWER: 73\nthat took 5 minutes": 73,
    "Answer: 12\n**Answer:** 73\n(30 points)": 73,
    "final answer: $073$": 73,
    "Answer: see below\n73": 73,
    "1000": None,
    "1,000": None,
    "7 or 1,234.5": 7,
    "-73": None,
    "x = -5": None,
    "73.5": None,
    "7.30": None,
    "": None,
    "seventy-three": None,
    "٧٣": None,
    "7³": 7,
    "0" * 5000 + "73": 73,
    "9" * 5000: None,
}


@pytest.mark.parametrize("text", TAKEN, ids=lambda text: text[:40])
def test_the_answer_that_is_taken(text: str) -> None:
    assert aime.extract(text) == TAKEN[text]
    rewards = aime.grade(text, {"answer": 73})
    assert rewards == {"correct": 1.0 if TAKEN[text] == 73 else 0.0}


@given(
    st.integers(0, 999), st.sampled_from(["{}", "{:03d}", "\\boxed{{{:03d}}}", "Answer: {}", "it is ${}$."])
)
def test_every_answer_is_found_in_every_form(number: int, form: str) -> None:
    assert aime.grade(form.format(number), {"answer": number}) == {"correct": 1.0}
    assert aime.grade(form.format(number), {"answer": (number + 1) % 1000}) == {"correct": 0.0}


@given(st.text() | st.text(alphabet="\\boxed{}0123456789,.$-: answer\n"))
def test_any_text_is_graded(text: str) -> None:
    found = aime.extract(text)
    assert found is None or 0 <= found <= 999


def test_too_long_or_undecodable_answer_is_wrong() -> None:
    assert text_of(b"73" + b" " * aime.MOST_BYTES, aime.MOST_BYTES) == ""
    assert text_of(b"\xff73", aime.MOST_BYTES) == ""
    assert text_of(b"\xef\xbb\xbf73", aime.MOST_BYTES) == "73"
    assert aime.extract("73 " * aime.MOST_BYTES) is None


@pytest.mark.parametrize(
    "text", ["\\boxed{" * 9000, "\\text{" * 9000, "1," * 30000, "answer:" * 9000, "-" * 60000]
)
def test_hostile_texts_take_no_time(text: str) -> None:
    assert aime.extract(text) is None or text.startswith("1,")


@pytest.mark.parametrize("answer", [None, True, "73", 73.0, -1, 1000])
def test_invalid_expected_answer_is_refused(answer: object) -> None:
    aime.check({"answer": 0})
    with pytest.raises(ValueError, match="answer"):
        aime.check({"answer": answer})


def test_it_is_a_program_too(tmp_path: Path) -> None:
    assert run(aime, tmp_path, {"answer": 73}, b"073\n") == {"correct": 1.0}
    assert run(aime, tmp_path, {"answer": 73}, b"74\n") == {"correct": 0.0}
    assert run(aime, tmp_path, {"answer": 73}, b"\xff\xfe73") == {"correct": 0.0}
    assert run(aime, tmp_path, {"answer": 73}, None) == {"correct": 0.0}
    assert json.dumps(run(aime, tmp_path, {"answer": 73}, b"73" * aime.MOST_BYTES)) == '{"correct": 0.0}'


def test_the_answers_of_worked_solutions_are_found() -> None:
    lines = sample("aime/aime2024.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    found = {row["id"]: aime.extract(row["reference_solution"]) for row in rows}
    assert found == {row["id"]: row["answer"] for row in rows}
    assert len(found) == 30
