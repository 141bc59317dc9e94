"""Text of devboxes and other clients as text that cannot steer a terminal."""

import re

LONGEST_LINE = 2000
"""Of what came out of a devbox; the rest of a line is counted."""


def clean(value: object) -> str:
    """Text that cannot steer a terminal, whatever a devbox or another client put into it."""
    text = "" if value is None else str(value)
    # A line is one line, whatever was written in several.
    return "".join(char if char.isprintable() else "\ufffd" for char in re.sub(r"[\t\n]+", " ", text))


def clean_lines(text: str, longest: int = LONGEST_LINE) -> list[str]:
    """Lines of a text that cannot steer a terminal, none longer than this; blank ones at the end are gone."""
    lines = text.rstrip().split("\n") if text.strip() else []
    return [shorter(clean(line.removesuffix("\r").expandtabs(4)), longest) for line in lines]


def shorter(line: str, longest: int) -> str:
    """A line with its end left out where it is too long, and how much that is."""
    return line if len(line) <= longest else f"{line[:longest]}... {len(line) - longest} more characters"
