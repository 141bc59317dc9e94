"""Grading with the package `swebench`: every parser of Verified's projects, on logs of our own making."""

import asyncio

import pytest

from benchyard.errors import ScorerFailed
from benchyard.models.scoring.swe_bench import SweBenchSpec
from benchyard.scorers import swe_bench
from benchyard.scorers.swe_bench import Grade
from benchyard.workers.workers import call_once

HEAD = "+ git status\nOn branch main\n+ : '>>>>> Start Test Output'\n"
TAIL = "+ : '>>>>> End Test Output'\n"
PYTEST = """\
============================= test session starts ==============================
collected 4 items

tests/test_a.py ..s.                                                     [100%]
=========================== short test summary info ============================
PASSED tests/test_a.py::test_new
PASSED tests/test_a.py::test_old[1-two]
SKIPPED [1] tests/test_a.py:9: not here
XFAIL tests/test_a.py::test_known - reason
"""
OPTIONS = "PASSED tests/test_a.py::test_new[/c]\nPASSED tests/test_a.py::test_old[/some/where/d]\n"
COLOURED = "\x1b[32mPASSED\x1b[0m tests/test_a.py::\x1b[1mtest_new\x1b[0m\ntests/test_a.py::test_old PASSED\n"
DJANGO = """\
Testing against Django installed in '/testbed/django' with up to 1 processes
test_new (mail.tests.MailTests) ... ok
test_old (mail.tests.MailTests)
It says what it is for. ... ok
test_slow (mail.tests.MailTests) ... skipped 'no database'
test_bad (mail.tests.MailTests) ... FAIL
"""
SYMPY = """\
============================= test process starts ==============================
sympy/core/tests/test_a.py[3]
test_new ok
test_old ok
test_bad F
"""
SEABORN = (
    "tests/test_a.py::test_new PASSED [ 50%]\nPASSED tests/test_a.py::test_old\nFAILED tests/test_a.py::x\n"
)
MOUSE = "PASSED tests/test_a.py::test_new[MouseButton.LEFT]\nPASSED tests/test_a.py::test_old\n"

LOGS = {
    "parse_log_astropy": (COLOURED, "tests/test_a.py::test_new", "tests/test_a.py::test_old"),
    "parse_log_django": (
        DJANGO,
        "test_new (mail.tests.MailTests)",
        "It says what it is for.",
    ),
    "parse_log_flask": (PYTEST, "tests/test_a.py::test_new", "tests/test_a.py::test_old[1-two]"),
    "parse_log_matplotlib": (MOUSE, "tests/test_a.py::test_new[1]", "tests/test_a.py::test_old"),
    "parse_log_pylint": (OPTIONS, "tests/test_a.py::test_new[/c]", "tests/test_a.py::test_old[/d]"),
    "parse_log_pytest": (PYTEST, "tests/test_a.py::test_new", "tests/test_a.py::test_known"),
    "parse_log_requests": (OPTIONS, "tests/test_a.py::test_new[/c]", "tests/test_a.py::test_old[/d]"),
    "parse_log_scikit": (COLOURED, "tests/test_a.py::test_new", "tests/test_a.py::test_old"),
    "parse_log_seaborn": (SEABORN, "tests/test_a.py::test_new", "tests/test_a.py::test_old"),
    "parse_log_sphinx": (COLOURED, "tests/test_a.py::test_new", "tests/test_a.py::test_old"),
    "parse_log_sympy": (SYMPY, "test_new", "test_old"),
    "parse_log_xarray": (PYTEST, "tests/test_a.py::test_new", "tests/test_a.py::test_old[1-two]"),
}
NEW = "tests/test_a.py::test_new"


def spec(parser: str, new: list[str], old: list[str]) -> SweBenchSpec:
    return SweBenchSpec(
        instance_id="tiny__words-1",
        repo="tiny/words",
        version="1.0",
        FAIL_TO_PASS=new,
        PASS_TO_PASS=old,
        log_parser=parser,
    )


def graded(how: SweBenchSpec, output: str, status: int = 0) -> Grade:
    return asyncio.run(swe_bench.grade_log(how, output.encode(), status, call_once))


@pytest.mark.parametrize("parser", LOGS)
def test_each_project_s_log_is_read(parser: str) -> None:
    log, new, old = LOGS[parser]
    how = spec(parser, [new], [old])
    # Some of these logs have a test that fails, and does not matter.
    assert graded(how, HEAD + log + TAIL, int("bad" in log or "FAILED" in log)).is_resolved
    missing = graded(spec(parser, [new], [old, "another_test"]), HEAD + log + TAIL)
    assert missing == Grade(False, True, 1.0, 0.5, ("another_test",))


@pytest.mark.parametrize(
    ("log", "status"),
    [
        (PYTEST, 0),
        (HEAD + PYTEST, 0),
        (HEAD + PYTEST + TAIL + ">>>>> Patch Apply Failed\n", 0),
        (HEAD + PYTEST + TAIL + ">>>>> Tests Timed Out\n", 0),
        (HEAD + "nothing ran\n" + TAIL, 0),
        (HEAD + PYTEST + TAIL, 1),
        (HEAD + PYTEST + TAIL + ">>>>> Test Exit Code: 0\n", 1),
    ],
    ids=["no-markers", "no-end", "not-applied", "timed-out", "nothing", "exit-status", "printed-status"],
)
def test_logs_that_cannot_be_believed_resolve_nothing(log: str, status: int) -> None:
    found = graded(spec("parse_log_pytest", [NEW], []), log, status)
    assert (found.is_resolved, found.has_results) == (False, False)


def test_outcomes_that_count_as_passed() -> None:
    log = HEAD + "SKIPPED tests/test_a.py::test_s\nPASSED tests/test_a.py::test_p[a b]\n" + PYTEST + TAIL
    skipped = "tests/test_a.py::test_s"
    assert graded(spec("parse_log_pytest", [NEW], [skipped]), log).is_resolved
    assert not graded(spec("parse_log_pytest", [NEW, skipped], []), log).is_resolved
    cut = "tests/test_a.py::test_old[1-"
    assert graded(spec("parse_log_pytest", [NEW], [cut]), log).is_resolved


def test_a_script_ends_with_the_status_of_its_tests() -> None:
    made = swe_bench.script_with_status("run the tests\n: '>>>>> End Test Output'\ngit checkout tests\n")
    assert made.splitlines()[1:] == [
        "BENCHYARD_STATUS=$?",
        ": '>>>>> End Test Output'",
        'exit "$BENCHYARD_STATUS"',
    ]
    with pytest.raises(ScorerFailed, match="End Test Output"):
        swe_bench.script_with_status("run the tests\n")


def test_a_parser_that_is_not_there_is_reported() -> None:
    with pytest.raises(ScorerFailed, match="parse_log_nothing"):
        graded(spec("parse_log_nothing", [NEW], []), HEAD + PYTEST + TAIL)
