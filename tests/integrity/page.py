"""The page that shows the table."""

import re
from collections.abc import Sequence

from tests.house.tree import ROOT
from tests.integrity.matrix import MODES, Row

PAGE = ROOT / "docs/integrity.md"
ATTACKS, APART, PARTS, FINDINGS = "attacks", "apart", "parts", "findings"
"""The tables of the page."""
_HEAD = f"| # | the agent | grader | in place | {' | '.join(MODES)} |\n{'|---' * (4 + len(MODES))}|\n"


def _part(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- begin: {name} -->\n).*?(<!-- end -->)", re.S)


def lines(name: str) -> list[str]:
    """The rows of a table as they are on the page."""
    found = _part(name).search(PAGE.read_text())
    return [line for line in (found[0] if found else "").splitlines() if line.startswith("| ")][1:]


def write(name: str, found: Sequence[Row]) -> None:
    """Put a table in its place."""
    table = _HEAD + "".join(f"{row.line}\n" for row in found)
    text = _part(name).sub(lambda match: f"{match[1]}\n{table}\n{match[2]}", PAGE.read_text())
    PAGE.write_text(text)
