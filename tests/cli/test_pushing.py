"""What pushing says of what it did, and of what it would do."""

import sys

import pytest

from benchyard.cli.render import wrap_details
from benchyard.client.benchmark_files.results import PushResult

LONG = "greet.py in the working directory greets nobody; change it so that it prints Hello, and the name."


def test_a_dry_run_says_what_would_be_done() -> None:
    (would,) = PushResult("mine", "changed", "scn_1", 2, is_dry=True).lines()
    assert would == "scn_1  mine: would be changed (revision 2)"
    (new,) = PushResult("mine", "created", is_dry=True).lines()
    assert new == "(new)  mine: would be created (revision 1)"
    (same,) = PushResult("mine", "unchanged", "scn_1", 2, is_dry=True).lines()
    assert same == "scn_1  mine: unchanged, nothing to do"


def told(old: object, new: object) -> str:
    return list(PushResult("mine", "changed", "scn_1", 2, (("field", old, new),)).lines())[1]


def test_a_change_in_a_long_text_is_seen() -> None:
    assert told(LONG, f"{LONG} Politely.") == (
        f"  field: ...{LONG[-20:]} ({len(LONG)} characters) -> "
        f"...{LONG[-20:]} Politely. ({len(LONG) + 10} characters)"
    )
    first = told(f"Now {LONG}", LONG)
    assert first.startswith("  field: Now greet.py")
    assert "-> greet.py" in first


def test_a_short_change_is_reported_whole() -> None:
    assert told(["a"], None) == "  field: ['a'] -> nothing"
    assert told("one", "two") == "  field: one -> two"


def test_a_terminal_breaks_no_word_of_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    pushed = PushResult("mine", "changed", "scn_1", 2, (("field", "one", "two " * 20),))
    _, first, *rest = wrap_details(pushed.lines())
    assert first.startswith("  field: one -> two")
    assert rest
    assert all(line.startswith("    ") for line in rest)
    assert max(map(len, [first, *rest])) <= 60
