"""Reports of test runners: which are whole, and what a reward without one is worth."""

import asyncio
import json
import time
from collections.abc import Sequence

import pytest

from benchyard.models.runs import CountedTests
from benchyard.scorers import reports
from benchyard.scorers.base import ScoringContext, Verdict
from tests.scorers.test_context import Shelf

WHOLE = json.dumps(
    {"results": {"summary": {"tests": 2, "passed": 2, "failed": 0}, "tests": [{"name": "a"}, {"name": "b"}]}}
)
NONE_PASSED = WHOLE.replace('"passed": 2', '"passed": 0')
ONE_LISTED = WHOLE.replace(', {"name": "b"}', "")
JUNIT = (
    '<?xml version="1.0"?><testsuites><testsuite name="pytest" tests="2" failures="0" errors="0" skipped="1">'
    '<testcase name="a"/><testcase name="b"><skipped/></testcase></testsuite></testsuites>'
)
LAUGHS = '<!DOCTYPE x [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><testsuite tests="1">&b;</testsuite>'
GOOD = Verdict(1.0, "done\n", {"python": "3"}, {"reward": 1.0})


class Left(Shelf):
    """A room in which a report was left, or was not."""

    def __init__(self, content: bytes | None) -> None:
        super().__init__()
        self.content = content

    async def fetch(self, path: str, limit: int) -> bytes | None:
        return self.content


def flaw(
    content: str | None,
    *,
    before: str | None = None,
    wanted: int | None = None,
    reference: Sequence[CountedTests] = (),
) -> str | None:
    """What a public scenario's verdict says is wrong with the report of a run that passed."""

    async def counted() -> Sequence[CountedTests]:
        return reference

    room = Left(None if content is None else content.encode())
    earlier = None if before is None else before.encode()
    context = ScoringContext(counted=counted, official=True)
    place = "/logs/verifier/ctrf.json"
    return asyncio.run(reports.check(room, place, GOOD, context, before=earlier, wanted=wanted)).suspect


@pytest.mark.parametrize("content", [WHOLE, JUNIT], ids=["ctrf", "junit"])
def test_a_whole_report_has_no_flaw(content: str) -> None:
    assert flaw(content) is None
    assert flaw(content, wanted=2) is None
    assert "there are 3" in str(flaw(content, wanted=3))


def test_a_report_counts_as_many_tests_as_that_of_the_reference() -> None:
    two, three = CountedTests(tests=2), CountedTests(tests=3)
    assert flaw(WHOLE, reference=[two]) is None
    assert flaw(WHOLE, reference=[three, two]) is None
    assert "tells of 2 tests; that of the reference of 3" in str(flaw(WHOLE, reference=[three]))
    # What the author says comes before.
    assert flaw(WHOLE, wanted=2, reference=[three]) is None
    assert flaw(WHOLE, wanted=0, reference=[three]) is None
    assert "there are 3" in str(flaw(WHOLE, wanted=3, reference=[two]))


def test_no_more_tests_are_skipped_than_with_the_reference() -> None:
    assert flaw(JUNIT, reference=[CountedTests(tests=2, skipped=1)]) is None
    assert "1 skipped tests; that of the reference of none" in str(
        flaw(JUNIT, reference=[CountedTests(tests=2)])
    )
    pending = WHOLE.replace('"passed": 2', '"passed": 1, "pending": 1')
    assert "skipped" in str(flaw(pending, wanted=2, reference=[CountedTests(tests=2)]))
    assert flaw(pending, wanted=0, reference=[CountedTests(tests=2)]) is None


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "missing"),
        ("", "cannot be read"),
        ("{}", "cannot be read"),
        ('{"a":' * 100_000, "cannot be read"),
        (JUNIT[:-20], "cannot be read"),
        (LAUGHS, "cannot be read"),
        (NONE_PASSED, "no test that passed"),
        (ONE_LISTED, "1 of its 2 tests"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_flaws_of_a_report_are_named(content: str | None, told: str) -> None:
    assert told in str(flaw(content))


def test_report_from_before_the_run_does_not_count() -> None:
    assert "missing" in str(flaw(WHOLE, before=WHOLE))
    assert flaw(WHOLE, before=JUNIT) is None


def test_a_reward_without_a_report_does_not_count_and_the_official_one_is_suspect() -> None:
    own = reports.judge(GOOD, "it is missing", official=False)
    assert (own.score, own.output, own.suspect) == (0.0, "done\n[benchyard] it is missing\n", None)
    public = reports.judge(GOOD, "it is missing", official=True)
    assert (public.score, public.suspect, public.rewards) == (1.0, "it is missing", {"reward": 1.0})
    for official in (True, False):
        assert reports.judge(GOOD, None, official=official) is GOOD
        assert reports.judge(Verdict(0.0), "it is missing", official=official) == Verdict(0.0)


@pytest.mark.parametrize(
    ("script", "place"),
    [
        ("pytest --ctrf /logs/verifier/ctrf.json /tests/test_outputs.py -rA", "/logs/verifier/ctrf.json"),
        ("cd /app && uvx pytest --junitxml='/logs/r.xml' tests", "/logs/r.xml"),
        ("pytest --junit-xml=out.xml", "out.xml"),
        ("cd sub && pytest --junit-xml=out.xml", "sub/out.xml"),
        ("cd /srv/work\npytest --junit-xml=out.xml", "/srv/work/out.xml"),
        ("cd a && cd b && pytest --junit-xml=out.xml", None),
        ("if true; then\n  cd a\nfi\npytest --junit-xml=out.xml", None),
        ("pytest --junit-xml=out.xml\ncd /elsewhere", None),
        ('pytest --ctrf "$LOGS/ctrf.json"', None),
        ('LOGS=/logs\npytest --ctrf "$LOGS/ctrf.json"', "/logs/ctrf.json"),
        ('export LOGS="/logs"\npytest --ctrf=${LOGS}/ctrf.json', "/logs/ctrf.json"),
        ('LOGS=/a\n[ -d /b ] && LOGS=/b\npytest --ctrf "$LOGS/ctrf.json"', None),
        ('pytest --ctrf "${LOGS:-/logs}/ctrf.json"', None),
        ('pytest --ctrf "$GIVEN/ctrf.json"', "/given/ctrf.json"),
        ("pytest -q", None),
    ],
)
def test_a_script_names_the_report_it_has_made(script: str, place: str | None) -> None:
    assert reports.place_of(script, {"GIVEN": "/given"}) == place


@pytest.mark.parametrize("line", ["a\n", "pytest >x\n", "a0=1\n", "cd a\n", "pytest " * 9000, "#pytest "])
def test_scripts_of_any_form_are_read_in_a_moment(line: str) -> None:
    script = f"{line * (1024**2 // len(line))}"
    many = "".join(f"$a{at}" for at in range(100))
    for text in (script, f"pytest --ctrf={many}\n{script}"):
        begin = time.process_time()
        reports.place_of(text)
        reports.check_closing_line(text, Verdict(1.0, "collecting\n"))
        assert time.process_time() - begin < 0.25, "usually some milliseconds; quadratic code takes longer"


@pytest.mark.parametrize(
    ("script", "output"),
    [
        ("python -m pytest -q tests", "...\n3 passed in 0.12s\n"),
        ("pytest tests || echo wrong", "\x1b[32m==== \x1b[1m3 passed\x1b[0m, 1 warning in 0.12s ====\x1b[0m"),
        ("python -m unittest", "..\nRan 2 tests in 0.001s\n\nOK\n"),
        ("go test ./...", "ok  \texample.com/work\t0.004s\n"),
        ("npx jest", "Tests:       3 passed, 3 total\n"),
        ("pytest tests > /tmp/log", ""),
        ("pytest tests | tail -1", ""),
        ("pytest -qq tests", ""),
        ("pip install pytest", ""),
        ("# pytest would be too slow", ""),
        ("./check.sh", ""),
    ],
)
def test_a_runner_that_ended_as_it_should_is_not_suspect(script: str, output: str) -> None:
    passed = Verdict(1.0, output)
    assert reports.check_closing_line(script, passed) is passed


@pytest.mark.parametrize(
    ("script", "runner"),
    [
        ("set -e\npython -m pytest -q tests", "pytest"),
        ("pip install -q x && true\npytest tests 2>&1", "pytest"),
        ('pytest --ctrf "$UNKNOWN/ctrf.json" \\\n  tests', "pytest"),
        ("python -m unittest", "unittest"),
        ("cargo test", "cargo test"),
    ],
)
def test_a_runner_that_was_ended_before_its_closing_line_is_suspect(script: str, runner: str) -> None:
    found = reports.check_closing_line(script, Verdict(1.0, "collecting\n"))
    assert found.score == 1.0
    assert found.suspect is not None
    assert runner in found.suspect
    failed = Verdict(0.0, "collecting\n")
    assert reports.check_closing_line(script, failed) is failed


def ctrf(passed: int, failed: int, *statuses: str) -> str:
    summary = {"tests": len(statuses), "passed": passed, "failed": failed}
    tests = [{"name": f"{at}", "status": status} for at, status in enumerate(statuses)]
    return json.dumps({"results": {"summary": summary, "tests": tests}})


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (ctrf(1, 1, "passed", "failed"), "tells of 1 tests that did not pass"),
        (ctrf(2, 0, "failed", "failed"), "tells of 2 tests that did not pass"),
        (ctrf(1, 0, "passed", "other"), None),
        (ctrf(3, -1, "passed", "passed"), "cannot be read"),
        (JUNIT.replace('failures="0"', 'failures="-1"'), "cannot be read"),
        (JUNIT.replace("<skipped/>", "<failure/>"), "tells of 1 tests that did not pass"),
        (JUNIT.replace('tests="2"', 'tests="1e9"'), "cannot be read"),
    ],
)
def test_a_full_score_with_tests_that_did_not_pass_is_suspect(content: str, told: str | None) -> None:
    found = flaw(content)
    assert (told is None and found is None) or (told is not None and told in str(found)), found


def test_suites_within_suites_are_counted_once() -> None:
    inner = JUNIT.split("?>")[1].replace("<testsuites>", "").replace("</testsuites>", "")
    suite = f'<testsuite tests="2" skipped="1"><testsuite>{inner}</testsuite></testsuite>'
    outer = f"<testsuites>{suite}</testsuites>"
    assert flaw(outer) is None
    assert flaw(f"<testsuites><testsuite>{inner}</testsuite>{inner}</testsuites>", wanted=4) is None
