"""Notices for people on standard error: wrapped between words in a terminal, unwrapped in a pipe."""

import io
import os
import re
import sys
import textwrap

import click

LEAST_WIDTH = 24
_USUAL_WIDTH = 80
_INDENT = "  "
_COMMAND = re.compile(r"`[^`]{1,200}`")
_UNBROKEN = "\N{NO-BREAK SPACE}"


def tell(text: str) -> None:
    """Print a notice about the work, apart from the output."""
    say(f"benchyard: {text}")


def say(text: str) -> None:
    """Print lines to standard error."""
    width = _width()
    for line in text.splitlines() or [""]:
        click.echo(line if width is None else "\n".join(_wrapped(line, width)), err=True)


def explain(error: click.ClickException) -> None:
    """Print a mistake on the command line in click's form."""
    told = io.StringIO()
    error.show(file=told)
    say(told.getvalue().rstrip("\n"))


def _wrapped(line: str, width: int) -> list[str]:
    before = line[: len(line) - len(line.lstrip(" "))]
    indent = before + _INDENT
    width = max(width, LEAST_WIDTH)

    def whole(command: re.Match[str]) -> str:
        # Keep a command that fits on one line, so that it can be copied.
        fits = len(command[0]) + len(indent) < width
        return command[0].replace(" ", _UNBROKEN) if fits else command[0]

    wrapped = textwrap.wrap(
        _COMMAND.sub(whole, line),
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [each.replace(_UNBROKEN, " ") for each in wrapped] or [""]


def _width() -> int | None:
    """Return the width of the terminal; None if stderr is not a terminal."""
    try:
        if not sys.stderr.isatty():
            return None
        # Some terminals do not know their width, and report 0.
        return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_WIDTH
    except (OSError, ValueError):
        return None
