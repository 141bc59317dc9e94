"""Makes text from devboxes and other clients safe to print: it cannot steer a terminal."""

import re

LONGEST_LINE = 2000
"""Longest line of a devbox's output that is shown; the characters beyond are only counted."""


def clean(value: object) -> str:
    """Return a value as text without terminal control, whatever a devbox or another client put into it."""
    text = "" if value is None else str(value)
    # Line breaks and tabs become spaces, so that the result is one line.
    return "".join(char if char.isprintable() else "\ufffd" for char in re.sub(r"[\t\n]+", " ", text))


def clean_lines(text: str, longest: int = LONGEST_LINE) -> list[str]:
    """Return the lines of a text without terminal control, cut to this length; drops final blank lines."""
    lines = text.rstrip().split("\n") if text.strip() else []
    return [shorter(clean(line.removesuffix("\r").expandtabs(4)), longest) for line in lines]


def shorter(line: str, longest: int) -> str:
    """Return a line, cut with a count of the missing characters if it is too long."""
    return line if len(line) <= longest else f"{line[:longest]}... {len(line) - longest} more characters"


def ignore_sentence(text: str) -> None:
    """Ignore a sentence that nobody is to be shown."""
