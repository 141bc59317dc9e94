"""Unified diffs: as small as they can be, and always right."""

import difflib
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from benchyard.workers.line_diff import (
    Change,
    StepBudget,
    changes_of,
    hunks,
    is_binary,
    quoted_name,
    split_lines,
)

TEXTS = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n"]), max_size=12)


def applied(old: Sequence[bytes], new: Sequence[bytes], changes: Sequence[Change]) -> list[bytes]:
    made, at = list[bytes](), 0
    for change in changes:
        made += [*old[at : change.old_begin], *new[change.new_begin : change.new_end]]
        at = change.old_end
    return made + list(old[at:])


def longest_common(old: Sequence[bytes], new: Sequence[bytes]) -> int:
    row = [0] * (len(new) + 1)
    for line in old:
        last = row[:]
        for at, other in enumerate(new):
            row[at + 1] = last[at] + 1 if line == other else max(row[at], last[at + 1])
    return row[-1]


@given(TEXTS, TEXTS)
def test_changes_lead_from_one_text_to_the_other_and_are_the_least(
    old: list[bytes], new: list[bytes]
) -> None:
    changes = changes_of(old, new, StepBudget())
    assert applied(old, new, changes) == new
    size = sum(change.old_end - change.old_begin + change.new_end - change.new_begin for change in changes)
    assert size == len(old) + len(new) - 2 * longest_common(old, new)


@given(TEXTS, TEXTS, st.integers(0, 5))
def test_a_spent_budget_makes_changes_larger_and_never_wrong(
    old: list[bytes], new: list[bytes], steps: int
) -> None:
    assert applied(old, new, changes_of(old, new, StepBudget(steps))) == new


def test_the_budget_is_for_all_files_together() -> None:
    budget = StepBudget(20_000)
    old, new = ([b"%d\n" % (each * step) for each in range(400)] for step in (2, 3))
    changes_of(old, new, budget)
    assert budget.left < 0
    assert changes_of(old, new, budget) == [Change(1, 400, 1, 400)]


def test_hunks_are_those_of_the_standard_library() -> None:
    old = [b"%d\n" % each for each in range(40)]
    new = [*old[:3], b"x\n", *old[4:20], *old[22:39], b"39"]
    theirs = difflib.diff_bytes(difflib.unified_diff, old, new)
    expected = b"".join(their for their in theirs if not their.startswith((b"---", b"+++")))
    assert b"".join(hunks(old, new, StepBudget())) == expected + b"\n\\ No newline at end of file\n"


def test_only_a_line_feed_ends_a_line() -> None:
    assert split_lines(b"a\r\nb\x0c\x85c\n\nd") == [b"a\r\n", b"b\x0c\x85c\n", b"\n", b"d"]
    assert split_lines(b"") == []


def test_names_and_binary_files_are_shown_as_by_git() -> None:
    assert quoted_name(b"a/plain name") == b"a/plain name"
    assert quoted_name(b'a/"\n\\\xff\x1b') == b'"a/\\"\\n\\\\\\377\\033"'
    assert is_binary(b"a\0")
    assert not is_binary(b"a\xff")
