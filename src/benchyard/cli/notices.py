"""What is said to a person on standard error: a terminal breaks no word of it, a pipe gets it whole."""

import io
import os
import sys
import textwrap

import click

LEAST_WIDTH = 24
_INDENT = "  "


def tell(text: str) -> None:
    """Say something about the work, beside what is printed."""
    say(f"benchyard: {text}")


def say(text: str) -> None:
    """Print lines to standard error."""
    width = _width()
    for line in text.splitlines() or [""]:
        click.echo(line if width is None else "\n".join(_wrapped(line, width)), err=True)


def explain(error: click.ClickException) -> None:
    """Print a mistake on the command line as click puts it."""
    told = io.StringIO()
    error.show(file=told)
    say(told.getvalue().rstrip("\n"))


def _wrapped(line: str, width: int) -> list[str]:
    before = line[: len(line) - len(line.lstrip(" "))]
    indent = before + _INDENT
    return textwrap.wrap(
        line,
        max(width, LEAST_WIDTH),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]


def _width() -> int | None:
    """How wide the terminal is; None where it is none."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns if sys.stderr.isatty() else None
    except (OSError, ValueError):
        return None
