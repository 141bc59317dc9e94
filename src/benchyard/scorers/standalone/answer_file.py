"""The file of an answer that is graded as a text, and a program that grades it.

The file of an exported task is the source of a grader, and then this one: both use only the standard library.
"""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def text_of(content: bytes, most_bytes: int) -> str:
    """Return the text of an answer's file; empty if it is too long or not UTF-8."""
    try:
        return content.decode("utf-8-sig") if len(content) <= most_bytes else ""
    except UnicodeDecodeError:
        return ""


def main(
    arguments: "list[str]",
    grade: "Callable[[str, Mapping[str, Any]], dict[str, float]]",
    most_bytes: int,
) -> int:
    """Take `EXPECTED.json ANSWER_FILE` and print the rewards as JSON; a missing answer is wrong."""
    expected = json.loads(Path(arguments[0]).read_bytes())
    content = b""
    if Path(arguments[1]).is_file():
        with Path(arguments[1]).open("rb") as file:
            content = file.read(most_bytes + 1)
    sys.stdout.write(json.dumps(grade(text_of(content, most_bytes), expected)) + "\n")
    return 0
