"""Messages that differ by what varies have one template; failed tests are read from the usual runners."""

import pytest

from benchyard.reports.problems.failed_tests import failed_tests
from benchyard.reports.problems.templates import MOST_TEMPLATES, TemplateTree, templates_of


def test_messages_with_other_numbers_paths_ids_and_quotes_are_one() -> None:
    messages = [
        "AgentError: exit status 1 after 3.5s in /home/user/work of trl_0a1b2c3d4e: 'oh no'",
        "AgentError: exit status 137 after 12s in /srv/x/y of trl_ffffeeee1111: 'killed'",
        "ScorerError: nothing was printed",
    ]
    first, second, third = templates_of(messages)
    assert first == second == "AgentError: exit status <*> after <*> in <*> of <*>: <*>"
    assert third == messages[2]


def test_a_word_that_varies_becomes_a_gap_by_its_position() -> None:
    assert set(templates_of(["cannot open alpha for reading", "cannot open beta for reading"])) == {
        "cannot open <*> for reading"
    }
    assert len(set(templates_of(["cannot open the file", "timed out before the end"]))) == 2


def test_hostile_messages_are_bounded() -> None:
    tree = TemplateTree()
    for number in range(MOST_TEMPLATES + 50):
        tree.add("x" * number + " " + "y" * 3000)
    assert tree.add("something new altogether here") == MOST_TEMPLATES - 1
    assert len(tree.text(0)) <= 2000


@pytest.mark.parametrize(
    ("output", "names"),
    [
        ("FAILED tests/test_a.py::test_one - assert 1 == 2\n1 failed", ["tests/test_a.py::test_one"]),
        ("    --- FAIL: TestAdd (0.00s)\nFAIL", ["TestAdd"]),
        ("test math::adds ... FAILED\ntest b ... ok", ["math::adds"]),
        ("ok 1 - one\nnot ok 2 - two # time=1", ["two"]),
        ("FAIL: test_b (tests.A)\nERROR: test_a (tests.A)", ["test_a", "test_b"]),
        ("  \u2715 adds numbers (5 ms)", ["adds numbers"]),
        ("score: 0.5", []),
    ],
)
def test_failed_tests_of_the_usual_runners_are_read(output: str, names: list[str]) -> None:
    assert failed_tests(output) == names
