"""What workers do for exercises of Polyglot: list an answer's files, and read tests and what they printed.

Of the standard library alone, since the process that workers are forked from imports it.
"""

import marshal
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

MOST_LEFT_OUT = 20
"""Of files that are no part of an answer, so many are named."""
_LONGEST_PATH = 4096
_MOST_NAMES_BYTES = 24 * 1024
_MOST_MISSING = 20
_APART = b"\0"
"""Between the test files of an exercise."""
_CONSTRAINTS = (b"//go:build ", b"// +build ")


def listed(
    content: BinaryIO,
    taken: str,
    solution: Collection[str],
    tests: Collection[str],
    sizes: Mapping[str, int],
    most_files: int,
) -> bytes:
    """What of the files that `find` listed is an answer, in the interpreter's own form.

    `chosen` is the sizes of its sources, one more than `most_files` at most. `same` are files of the exercise
    in their own size, which may be untouched. The rest is left out: the first of them by name, and how many.
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
    told = {"chosen": chosen, "same": same, "left_out": left_out[:MOST_LEFT_OUT], "total": len(left_out)}
    return marshal.dumps(told)


def _rows(listing: bytes) -> Iterator[tuple[str, int, str]]:
    """Kind, size and path of everything that was found, in whatever form its name has."""
    for each in listing.split(b"\0"):
        if each:
            kind, size, path = each.decode(errors="backslashreplace").split(" ", 2)
            yield kind, int(size), path


def joined(contents: Collection[bytes]) -> bytes:
    """Test files, as `tests_in` reads them."""
    return _APART.join(contents)


def tests_in(content: BinaryIO, pattern: str | None) -> dict[str, Any]:
    """What test files call their tests, as far as names are known, and how often they speak of skipping."""
    source = content.read()
    names: list[str] = []
    left = _MOST_NAMES_BYTES
    for file in source.split(_APART) if pattern else ():
        if any(each in file for each in _CONSTRAINTS):
            # Whether it is built at all is for others to say.
            continue
        for found in re.finditer(pattern.encode() if pattern else b"", _uncommented(file), re.MULTILINE):
            name = found[1].decode(errors="replace")
            left -= len(name) + 8
            if left < 0:
                break
            names.append(name)
    return {"names": names, "skips": source.lower().count(b"skip")}


def _uncommented(source: bytes) -> bytes:
    """Source in the manner of C without its comments of several lines."""
    kept, at = [], 0
    while (begin := source.find(b"/*", at)) >= 0:
        kept.append(source[at:begin])
        end = source.find(b"*/", begin + 2)
        at = len(source) if end < 0 else end + 2
    return b"".join([*kept, source[at:]])


def outcome(
    content: BinaryIO,
    passed: str,
    complete: Sequence[str],
    outcomes: str | None,
    skipped: str | None,
    tests: int | None,
) -> dict[str, Any]:
    """Whether an output says that tests passed, whether it is all that a runner prints, and what it skipped.

    The numbers in it agree: those that `complete` finds, the sum of those that `outcomes` finds in what
    `passed` does, and the number of tests where that is known.
    """
    output = content.read()
    said = re.search(passed.encode(), output, re.MULTILINE)
    found = [re.search(each.encode(), output, re.MULTILINE) for each in complete]
    counts = {int(each[1]) for each in found if each and each.re.groups}
    if said and outcomes:
        counts.add(sum(int(each) for each in re.findall(outcomes.encode(), said[0])))
    if tests is not None:
        counts.add(tests)
    skips = re.finditer(skipped.encode(), output, re.MULTILINE) if skipped else ()
    return {
        "passed": said is not None,
        "complete": all(found) and len(counts) <= 1,
        "skipped": sum(int(each[1]) for each in skips),
    }


def untold(content: BinaryIO, pattern: str, names: Sequence[str]) -> list[str]:
    """Tests that an output does not tell of, the first of them."""
    found = {each.decode(errors="replace") for each in re.findall(pattern.encode(), content.read(), re.M)}
    return [name for name in names if name not in found][:_MOST_MISSING]


def replaced(content: BinaryIO, pattern: str, by: str) -> bytes:
    """A test file, with something in it put in another's place."""
    return re.sub(pattern.encode(), by.encode(), content.read())
