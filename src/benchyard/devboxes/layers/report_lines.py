"""Reports in JSON with a long list, one item to a line: a reader never parses more than a line at once.

They hold names of files, which an agent chose: parsing all of them at once would block the server.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

_BEGIN = "[\n"
_END = "]}\n"


def write(file: TextIO, facts: dict[str, Any], name: str, items: Iterable[Any]) -> None:
    """Write facts, and a list under a name, as one object."""
    file.write(f"{json.dumps(facts)[:-1]}, {json.dumps(name)}: {_BEGIN}")
    # In large pieces: small writes may be slow.
    file.write(",\n".join(map(json.dumps, items)))
    file.write(f"\n{_END}")


def read(lines: Iterator[str]) -> tuple[dict[str, Any], list[Any]]:
    """Return the facts and the list of a report; raise ValueError if it is cut off."""
    facts: dict[str, Any] = json.loads(next(lines, "").removesuffix(_BEGIN) + "[]}")
    items: list[Any] = []
    for line in lines:
        if line == _END:
            return facts, items
        if line != "\n":
            items.append(json.loads(line.removesuffix("\n").removesuffix(",")))
    raise ValueError("the report is cut")
