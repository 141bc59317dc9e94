"""The measured parts of docs/performance.md: each between its own marks, so that it can be measured alone."""

import datetime
import os
import platform
from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"


def write(section: str, lines: list[str]) -> None:
    """Put the lines in the place of what was measured before."""
    begin, end = f"<!-- measured {section}: begin -->", f"<!-- measured {section}: end -->"
    page = PAGE.read_text()
    head, found, rest = page.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{PAGE.name} has no part between {begin!r} and {end!r}; add both lines")
    PAGE.write_text("\n".join((f"{head}{begin}", *lines, f"{end}{tail}")))


def heading(*notes: str) -> str:
    """When and where this was measured."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    machine = (
        f"Measured {today} on Linux {platform.release()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, at a load of {os.getloadavg()[0]:.1f}."
    )
    return " ".join((machine, *notes))


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """A table, with an empty line before it."""
    lines = ["", _row(head), _row(("---",) * len(head)).replace(" ", "")]
    return [*lines, *(_row(row) for row in rows)]


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
