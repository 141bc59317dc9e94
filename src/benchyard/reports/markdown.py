"""Markdown out of names that may have any characters."""

import html
import re
from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")
_LINKED = re.compile(r"(?<![0-9a-z])@|(?<=[a-z]):(?=//)|\bwww(?=\.)|\bgh(?=-[0-9])|#(?=[0-9])", re.IGNORECASE)
"""Beginnings of what sites such as GitHub make links of: people, addresses, and numbers of issues."""
_JOINER = "\u2060"
"""A character that nobody sees, and that ends such a link."""
_NOT_PRINTED = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]+")
_LONGEST = 200


def plain(text: str) -> str:
    """Return text that Markdown shows as it is, on one line: no mention, no link and no formula."""
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    shown = html.escape(_NOT_PRINTED.sub(" ", short), quote=False)
    return _LINKED.sub(rf"\g<0>{_JOINER}", _SPECIAL.sub(r"\\\1", shown))


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table; its cells are Markdown already."""
    lines = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]
