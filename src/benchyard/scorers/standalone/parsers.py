"""Functions that workers run for scorers: grade answers, and parse the output of tests and tools.

Of the standard library alone, since the process that workers are forked from imports it.
"""

import importlib
import json
import posixpath
import re
from collections.abc import Collection
from typing import Any, BinaryIO

from benchyard.scorers.standalone import answer_file, bigcodebench_input

_MOST_TOLD = 24 * 1024
"""Most letters of a list of messages."""
_MOST_NAMES = 200


def grade(content: BinaryIO, grader: str, expected: dict[str, Any]) -> dict[str, float]:
    """Return the rewards that a module of `graders` gives an answer."""
    module = importlib.import_module(f"benchyard.scorers.graders.{grader}")
    text = answer_file.text_of(content.read(module.MOST_BYTES + 1), module.MOST_BYTES)
    rewards: dict[str, float] = module.grade(text, expected)
    return rewards


def make_bigcodebench_input(content: BinaryIO, item: dict[str, Any]) -> bytes:
    """Return the input of the BigCodeBench runner, as JSON."""
    return json.dumps(bigcodebench_input.runner_input(item, content.read())).encode()


def bigcodebench_result(content: BinaryIO) -> dict[str, Any] | None:
    """Parse the runner's last line and cut the messages of failed tests; return None if it is no result."""
    try:
        said = json.loads(content.read().splitlines()[-1])
        bad = [(str(name)[:_MOST_TOLD], str(told)) for name, told in said.get("bad", [])]
        counts = {name: int(said.get(name, 0)) for name in ("good", "skipped")}
        result = {"passed": bool(said["passed"]), **counts}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
    left, shown = _MOST_TOLD, []
    # Cut from the beginning: only the end of the messages is kept later.
    for name, told in reversed(bad):
        if left <= 0:
            break
        shown.append((name[:left], told[-left:]))
        left -= len(name) + len(told)
    reason = said.get("reason")
    return {**result, "bad": shown[::-1], "reason": str(reason)[-_MOST_TOLD:] if reason else None}


def says(content: BinaryIO, pattern: str) -> bool:
    """Tell whether a line of an output matches this pattern."""
    return re.search(pattern.encode(), content.read(), re.MULTILINE) is not None


def report_summary(content: BinaryIO) -> dict[str, int]:
    """Return the test counts of a CTRF report; empty if it cannot be read."""
    try:
        summary = json.load(content)["results"]["summary"]
        return {name: int(summary[name]) for name in ("tests", "passed", "failed") if name in summary}
    except (ValueError, LookupError, TypeError, RecursionError, OverflowError):
        return {}


def changed_paths(
    content: BinaryIO, flagged: Collection[str], flagged_names: Collection[str]
) -> dict[str, Any]:
    """Count the paths that `git apply --numstat -z` listed, and find those flagged by path or by name."""
    paths = [row.split("\t", 2)[2] for row in _rows(content) if row.count("\t") >= 2]
    own, names = set(flagged), set(flagged_names)
    found = [path for path in paths if path in own or posixpath.basename(path) in names]
    return {"total": len(paths), "flagged": [path[:500] for path in found[:_MOST_NAMES]]}


def _rows(content: BinaryIO) -> list[str]:
    return content.read().decode(errors="replace").split("\0")
