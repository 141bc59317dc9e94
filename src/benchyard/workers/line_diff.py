"""Differences of texts as unified diffs that git and patch apply; the work on each is bounded."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

CONTEXT = 3
MOST_STEPS = 6_000_000
"""Steps of the search for the least change in all files together; beyond them, whole blocks are replaced."""
MOST_DISTANCE = 1500
"""Most lines that the least change of one file adds and deletes; the search takes memory by its square."""
_LOOKED_AT = 8000
"""Bytes in which a NUL makes a file binary, as in git."""
_NAMES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}


class Change(NamedTuple):
    """Lines of the old text that lines of the new one replace; either may be empty."""

    old_begin: int
    old_end: int
    new_begin: int
    new_end: int


class StepBudget:
    """Steps that are left for all files of a diff."""

    def __init__(self, steps: int = MOST_STEPS) -> None:
        self.left = steps


def is_binary(content: bytes) -> bool:
    """Tell whether a content is shown as binary."""
    return b"\0" in content[:_LOOKED_AT]


def split_lines(content: bytes) -> list[bytes]:
    """Return the lines, each with its end; only a line feed ends one."""
    lines = content.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def quoted_name(name: bytes) -> bytes:
    """Return a path as git writes it: in quotes if it has anything but plain characters."""
    if all(32 <= byte < 127 and byte not in b'"\\' for byte in name):
        return name
    parts = [
        f"\\{_NAMES[byte]}" if byte in _NAMES else (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}")
        for byte in name
    ]
    return f'"{"".join(parts)}"'.encode()


def hunks(old: Sequence[bytes], new: Sequence[bytes], budget: StepBudget) -> Iterator[bytes]:
    """Yield the hunks of a unified diff."""
    for group in _grouped(changes_of(old, new, budget)):
        begin = max(0, group[0].old_begin - CONTEXT)
        end = min(len(old), group[-1].old_end + CONTEXT)
        new_begin = max(0, group[0].new_begin - CONTEXT)
        new_end = min(len(new), group[-1].new_end + CONTEXT)
        yield f"@@ -{_range(begin, end)} +{_range(new_begin, new_end)} @@\n".encode()
        at = begin
        for change in group:
            yield from (_line(b" ", line) for line in old[at : change.old_begin])
            yield from (_line(b"-", line) for line in old[change.old_begin : change.old_end])
            yield from (_line(b"+", line) for line in new[change.new_begin : change.new_end])
            at = change.old_end
        yield from (_line(b" ", line) for line in old[at:end])


def changes_of(old: Sequence[bytes], new: Sequence[bytes], budget: StepBudget) -> list[Change]:
    """Return the changes from one list of lines to another; the least ones, if the budget suffices."""
    begin = end = 0
    most = min(len(old), len(new))
    while begin < most and old[begin] == new[begin]:
        begin += 1
    most -= begin
    while end < most and old[-1 - end] == new[-1 - end]:
        end += 1
    middle = old[begin : len(old) - end], new[begin : len(new) - end]
    if not any(middle):
        return []
    found = _least(*middle, budget) if all(middle) else None
    found = found or [Change(0, len(middle[0]), 0, len(middle[1]))]
    return [Change(*(number + begin for number in change)) for change in found]


def _least(old: Sequence[bytes], new: Sequence[bytes], budget: StepBudget) -> list[Change] | None:
    """Return the least changes by Myers' greedy search; None when the budget is spent."""
    rounds: list[list[int]] = []
    """For each distance, how far each diagonal reaches, from the lowest to the highest one."""
    for distance in range(min(len(old) + len(new), MOST_DISTANCE) + 1):
        budget.left -= distance + 1
        if budget.left < 0:
            return None
        row = []
        for at in range(distance + 1):
            x = _begin(rounds, distance, at)
            y = begin = x - (2 * at - distance)
            while x < len(old) and y < len(new) and old[x] == new[y]:
                x, y = x + 1, y + 1
            budget.left -= y - begin
            row.append(x)
            if x >= len(old) and y >= len(new):
                return _joined(_steps_back(rounds, distance, at))
        rounds.append(row)
    return None


def _is_down(before: Sequence[int], distance: int, at: int) -> bool:
    """Tell whether a diagonal is reached by an insertion, not by a deletion."""
    return at == 0 or (at < distance and before[at - 1] < before[at])


def _begin(rounds: Sequence[Sequence[int]], distance: int, at: int) -> int:
    if not distance:
        return 0
    before = rounds[distance - 1]
    return before[at] if _is_down(before, distance, at) else before[at - 1] + 1


def _steps_back(rounds: Sequence[Sequence[int]], distance: int, at: int) -> list[Change]:
    """Return the single deletions and insertions on the way that was found, in order."""
    steps = []
    for here in range(distance, 0, -1):
        before = rounds[here - 1]
        is_down = _is_down(before, here, at)
        at = at if is_down else at - 1
        x = before[at]
        y = x - (2 * at - (here - 1))
        steps.append(Change(x, x, y, y + 1) if is_down else Change(x, x + 1, y, y))
    return steps[::-1]


def _joined(steps: Sequence[Change]) -> list[Change]:
    """Join steps that follow each other without an unchanged line in between."""
    found: list[Change] = []
    for step in steps:
        if found and (found[-1].old_end, found[-1].new_end) == (step.old_begin, step.new_begin):
            last = found.pop()
            step = Change(last.old_begin, step.old_end, last.new_begin, step.new_end)
        found.append(step)
    return found


def _grouped(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """Yield groups of changes with lines of context that meet."""
    group: list[Change] = []
    for change in changes:
        if group and change.old_begin - group[-1].old_end > 2 * CONTEXT:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _range(begin: int, end: int) -> str:
    count = end - begin
    first = begin + 1 if count else begin
    return str(first) if count == 1 else f"{first},{count}"


def _line(sign: bytes, line: bytes) -> bytes:
    return sign + line if line.endswith(b"\n") else sign + line + b"\n\\ No newline at end of file\n"
