"""Long texts: through the user's pager in a terminal, as they are elsewhere."""

import os
import sys
from collections.abc import Iterator

import click


def print_paged(lines: Iterator[str]) -> None:
    """Print lines; what is higher than the terminal goes through PAGER, or what click finds."""
    if not sys.stdout.isatty():
        for line in lines:
            click.echo(line)
        return
    height = os.get_terminal_size(sys.stdout.fileno()).lines
    held: list[str] = []
    for line in lines:
        held.append(line)
        if len(held) >= height:
            # What less shows stays on the screen, unless the user's own settings say otherwise.
            os.environ.setdefault("LESS", "FRX")
            click.echo_via_pager(_whole(held, lines))
            return
    click.echo("\n".join(held))


def _whole(held: list[str], rest: Iterator[str]) -> Iterator[str]:
    yield from (f"{line}\n" for line in held)
    yield from (f"{line}\n" for line in rest)
