"""What an agent is told of what scorers said."""

import pytest

from benchyard.engine.runs.scorer_output import MOST_BYTES, clean_output, runner_report


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("2 failed, 1 passed in 0.12s", "2 failed, 1 passed"),
        ("--- FAIL: TestLeap (0.02s)", "--- FAIL: TestLeap"),
        ("FAIL\texample/leap\t0.004s", "FAIL\texample/leap"),
        ("  x is a leap year (12 ms)", "  x is a leap year"),
        ("1 failed\nTime:        1.532 s, estimated 2 s", "1 failed"),
        ("test result: FAILED. 1 failed; finished in 0.00s", "test result: FAILED. 1 failed; finished"),
        ("\x1b[31mwrong\x1b[0m\r\n\x07again", "wrong\nagain"),
        ("/tmp/tmpab12/leap_test.py:4: AssertionError", "leap_test.py:4: AssertionError"),
        ("at /run/benchyard-0a1b2c/test.py line 3", "at test.py line 3"),
        ("/home/user/work/src/leap.py:1 and /home/user/worker/x", "src/leap.py:1 and /home/user/worker/x"),
        ("expected 3 seconds to be 4 apples", "expected 3 seconds to be 4 apples"),
        ("expected 366, got 365", "expected 366, got 365"),
    ],
)
def test_timings_colours_and_places_are_left_out(said: str, told: str) -> None:
    assert clean_output(said, "/home/user/work") == told


def test_the_same_mistakes_say_the_same_in_another_run() -> None:
    first = "/tmp/pytest-of-a/pytest-0/x.py: 1 failed in 0.10s"
    second = "/tmp/pytest-of-a/pytest-17/x.py: 1 failed in 3.70s"
    assert clean_output(first) == clean_output(second)


def test_of_much_the_end_is_told_from_the_beginning_of_a_line() -> None:
    said = "".join(f"line {number}\n" for number in range(100_000))
    told = clean_output(said)
    assert len(told.encode()) <= MOST_BYTES
    assert told.startswith("[... cut ...]\nline ")
    assert told.endswith("\nline 99999")


def test_a_line_that_never_ends_is_cut_too() -> None:
    told = clean_output("é" * MOST_BYTES)
    assert len(told.encode()) <= MOST_BYTES
    assert told.endswith("é")


def test_a_hostile_output_takes_no_long_time() -> None:
    for piece in ("/tmp", "( 1", "in 1 ", "\x1b[", "1.1", " 1 s", "\x1b]", " ", "\n", "1"):
        clean_output(piece * 20_000)


PYTEST = """\
=================================== FAILURES ===================================
____________________________________ test_one ____________________________________

>       assert answer() == 42
E       assert None == 42

test_it.py:3: AssertionError
----------------------------- Captured stdout call -----------------------------
HIDDEN def test_two(): assert answer(7) == 49
----------------------------- Captured stderr call -----------------------------
HIDDEN
=========================== short test summary info ============================
FAILED test_it.py::test_one - assert None == 42"""
CARGO = """\
---- one stdout ----
HIDDEN
HIDDEN too
thread 'one' panicked at tests/it.rs:3:5:
assertion `left == right` failed

failures:
    one"""
JEST = """\
  console.log
    HIDDEN

    HIDDEN too

      at Object.log (it.js:2:9)

  ● one

    expect(received).toBe(expected)"""


@pytest.mark.parametrize(
    ("output", "kept"),
    [
        (PYTEST, ("E       assert None == 42", "FAILED test_it.py::test_one - assert None == 42")),
        (CARGO, ("---- one stdout ----", "thread 'one' panicked", "assertion `left == right` failed")),
        (JEST, ("at Object.log (it.js:2:9)", "● one", "expect(received).toBe(expected)")),
        ("not right: 3 is not 4", ("not right: 3 is not 4",)),
    ],
)
def test_output_of_the_answer_is_not_in_the_report(output: str, kept: tuple[str, ...]) -> None:
    told = runner_report(output)
    assert "HIDDEN" not in told
    assert all(each in told for each in kept)


def test_captured_section_without_an_end_is_left_out() -> None:
    assert "HIDDEN" not in runner_report("--- Captured stdout call ---\n" + "HIDDEN\n" * 10_000)
