"""Functions that workers run for Polyglot exercises: list an answer's files, parse tests and their output.

Of the standard library alone, since the process that workers are forked from imports it.
"""

import marshal
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

MOST_LEFT_OUT = 20
"""Most files outside of the answer that are named."""
_LONGEST_PATH = 4096
_MOST_NAMES_BYTES = 24 * 1024
_MOST_MISSING = 20
_APART = b"\0"
"""Separator of the test files of an exercise."""
_CONSTRAINTS = (b"//go:build ", b"// +build ")


def listed(
    content: BinaryIO,
    taken: str,
    solution: Collection[str],
    tests: Collection[str],
    sizes: Mapping[str, int],
    most_files: int,
) -> bytes:
    """Sort the files that `find` listed; the result is marshalled.

    `chosen` has the sizes of the answer's sources, at most one more than `most_files`. `same` are files of
    the exercise with their original size, which may be untouched. `left_out` names the first of the other
    files, `total` counts them all.
    """
    pattern = re.compile(taken)
    chosen: dict[str, int] = {}
    same, left_out = [], []
    for kind, size, path in _rows(content.read()):
        is_source = len(path) <= _LONGEST_PATH and path not in tests and pattern.fullmatch(path)
        if kind == "f" and (path in solution or is_source):
            if len(chosen) <= most_files:
                chosen[path] = size
        elif sizes.get(path) == size:
            same.append(path)
        else:
            left_out.append(f"{path}/" if kind == "d" else path)
    left_out.sort()
    listing = {"chosen": chosen, "same": same, "left_out": left_out[:MOST_LEFT_OUT], "total": len(left_out)}
    return marshal.dumps(listing)


def _rows(listing: bytes) -> Iterator[tuple[str, int, str]]:
    """Yield kind, size and path of every entry, in whatever encoding its name is."""
    for part in listing.split(b"\0"):
        if part:
            kind, size, path = part.decode(errors="backslashreplace").split(" ", 2)
            yield kind, int(size), path


def joined(contents: Collection[bytes]) -> bytes:
    """Join test files in the form that `tests_in` reads."""
    return _APART.join(contents)


def tests_in(content: BinaryIO, pattern: str | None) -> dict[str, Any]:
    """Return the known names of tests in test files, and the number of times the files say "skip"."""
    source = content.read()
    names: list[str] = []
    left = _MOST_NAMES_BYTES
    for file in source.split(_APART) if pattern else ():
        if any(constraint in file for constraint in _CONSTRAINTS):
            # A build constraint may exclude this file, so its tests are not counted.
            continue
        for match in re.finditer(pattern.encode() if pattern else b"", _uncommented(file), re.MULTILINE):
            name = match[1].decode(errors="replace")
            left -= len(name) + 8
            if left < 0:
                break
            names.append(name)
    return {"names": names, "skips": source.lower().count(b"skip")}


def _uncommented(source: bytes) -> bytes:
    """Remove block comments from source in the manner of C."""
    pieces, at = [], 0
    while (begin := source.find(b"/*", at)) >= 0:
        pieces.append(source[at:begin])
        end = source.find(b"*/", begin + 2)
        at = len(source) if end < 0 else end + 2
    return b"".join([*pieces, source[at:]])


def outcome(
    content: BinaryIO,
    passed: str,
    complete: Sequence[str],
    outcomes: str | None,
    skipped: str | None,
    tests: int | None,
) -> dict[str, Any]:
    """Tell whether an output says that the tests passed, whether it is complete, and how many were skipped.

    It is complete if all patterns of `complete` match and all numbers agree: those that `complete` finds, the
    sum of those that `outcomes` finds in the match of `passed`, and the number of tests if that is known.
    """
    output = content.read()
    said = re.search(passed.encode(), output, re.MULTILINE)
    matches = [re.search(pattern.encode(), output, re.MULTILINE) for pattern in complete]
    counts = {int(match[1]) for match in matches if match and match.re.groups}
    if said and outcomes:
        counts.add(sum(int(text) for text in re.findall(outcomes.encode(), said[0])))
    if tests is not None:
        counts.add(tests)
    skips = re.finditer(skipped.encode(), output, re.MULTILINE) if skipped else ()
    return {
        "passed": said is not None,
        "complete": all(matches) and len(counts) <= 1,
        "skipped": sum(int(skip[1]) for skip in skips),
    }


def untold(content: BinaryIO, pattern: str, names: Sequence[str]) -> list[str]:
    """Return the first of the tests that an output does not list."""
    found = {each.decode(errors="replace") for each in re.findall(pattern.encode(), content.read(), re.M)}
    return [name for name in names if name not in found][:_MOST_MISSING]


def replaced(content: BinaryIO, pattern: str, by: str) -> bytes:
    """Return a test file with each match of the pattern replaced."""
    return re.sub(pattern.encode(), by.encode(), content.read())
