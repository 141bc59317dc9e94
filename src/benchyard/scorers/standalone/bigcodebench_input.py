"""Input for the runner of BigCodeBench answers; a program of the standard library alone, to be shipped.

python -I bigcodebench_input.py ITEM.json ANSWER INPUT.json
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MOST_ANSWER_BYTES = 1024**2
_SPARE_SEC = 1.0
_LIMITS = {"RLIMIT_AS": 30 * 1024**3, "RLIMIT_DATA": 30 * 1024**3, "RLIMIT_STACK": 10 * 1024**2}
_BLANKS = " \t"
_FENCE = "```"


def runner_input(item: dict[str, Any], content: bytes) -> dict[str, Any]:
    """Return the input of the runner for an item (`code_prompt`, `test`, `entry_point`, `time_limit_sec`)."""
    solution = clean(content.decode(errors="replace"), item["entry_point"])
    return {
        "code": f"{item['code_prompt']}\n    pass\n{solution}",
        "test": item["test"],
        "expected": expected_tests(item["test"]),
        "seconds": item["time_limit_sec"] + 2 * _SPARE_SEC,
        "limits": _LIMITS,
    }


def clean(text: str, entry_point: str) -> str:
    """Return the code of an answer: the text itself, or, if it is not code, a fenced block in it."""
    if _is_code(text):
        return text
    blocks = list(_fenced(text.split("\n")))
    defines = re.compile(rf"^[^\S\n]*(async )?def {re.escape(entry_point)}\b", re.MULTILINE)
    defining = [block for block in blocks if defines.search(block)]
    return next(iter(defining or blocks), text)


def _fenced(lines: "list[str]") -> "Iterator[str]":
    """Yield the fenced blocks; a block ends with the first line that consists of a fence only."""
    opened = None
    for number, line in enumerate(lines):
        if opened is not None and line.strip(_BLANKS) == _FENCE:
            yield "".join(f"{each}\n" for each in lines[opened + 1 : number])
            opened = None
        elif opened is None and line.lstrip(_BLANKS).startswith(_FENCE) and line.count("`") == len(_FENCE):
            opened = number


def expected_tests(test: str) -> list[str]:
    """Return the names of the tests that the class `TestCases` itself defines: all of them must run."""
    try:
        body = ast.parse(test).body
    except (SyntaxError, ValueError):
        return []
    classes = [node for node in body if isinstance(node, ast.ClassDef) and node.name == "TestCases"]
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    methods = [node.name for one in classes[-1:] for node in one.body if isinstance(node, kinds)]
    return sorted({name for name in methods if name.startswith("test")})


def _is_code(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def main(item: str, answer: str, target: str) -> None:
    """Write the input for an answer's file."""
    with Path(answer).open("rb") as file:
        content = file.read(MOST_ANSWER_BYTES + 1)
    if len(content) > MOST_ANSWER_BYTES:
        raise SystemExit(f"{answer} has more than {MOST_ANSWER_BYTES} bytes")
    Path(target).write_text(
        json.dumps(runner_input(json.loads(Path(item).read_bytes()), content)), encoding="utf-8"
    )


if __name__ == "__main__":
    main(*sys.argv[1:4])
