"""Results of answers to SWE-Bench Pro; a program of the standard library alone, to be shipped.

python -I swe_pro_results.py text PATCH TARGET      a patch without its binary parts
python -I swe_pro_results.py rewards SPEC RESULT    the rewards, as JSON
"""

import json
import re
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, BinaryIO

_PASSED = "PASSED"
_MOST_MISSING = 100
_MOST_NAME = 300
_SECTION = re.compile(rb"(?=^diff --git )", re.MULTILINE)
_BINARY = re.compile(rb"^(Binary files .* differ|GIT binary patch)$", re.MULTILINE)


def without_binary(patch: bytes) -> bytes:
    """Return a patch without its binary parts."""
    return b"".join(part for part in _SECTION.split(patch) if part.strip() and not _BINARY.search(part))


def passed(result: bytes) -> "set[str] | None":
    """Return the names of passed tests in a parser's output; None if it has no results."""
    try:
        tests = json.loads(result)["tests"]
        return {str(test["name"]) for test in tests if test["status"] == _PASSED} if tests else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def graded(content: BinaryIO, spec: Mapping[str, Any]) -> "dict[str, Any] | None":
    """Return the rewards of a parser's output, and the missing tests; None if it has no results."""
    names = passed(content.read())
    if names is None:
        return None
    lacking = missing(spec, names)
    shown = [name[:_MOST_NAME] for name in lacking[:_MOST_MISSING]]
    return {"rewards": rewards(spec, names), "missing": shown, "more": len(lacking) - len(shown)}


def text_of(content: BinaryIO) -> bytes:
    """Return a patch without its binary parts, for workers."""
    return without_binary(content.read())


def missing(spec: Mapping[str, Any], found: Collection[str]) -> list[str]:
    """Return the tests that should have passed and did not."""
    return [name for name in (*spec["fail_to_pass"], *spec["pass_to_pass"]) if name not in found]


def rewards(spec: Mapping[str, Any], found: "Collection[str] | None") -> dict[str, float]:
    """Return the rewards: whether all required tests passed, and which fractions of them did."""
    names = found or ()
    return {
        "resolved": float(found is not None and not missing(spec, names)),
        "fail_to_pass": _fraction(spec["fail_to_pass"], names),
        "pass_to_pass": _fraction(spec["pass_to_pass"], names),
    }


def _fraction(names: Collection[str], found: Collection[str]) -> float:
    return sum(name in found for name in names) / len(names) if names else 1.0


def main(what: str, first: str, second: str) -> None:
    """Run the command that the arguments name."""
    content = Path(first).read_bytes()
    if what == "text":
        Path(second).write_bytes(without_binary(content))
        return
    result = Path(second)
    names = passed(result.read_bytes()) if result.is_file() else None
    sys.stdout.write(json.dumps(rewards(json.loads(content), names)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:4])
