"""Shows on stderr that something long goes on, and stays silent about what is quick."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import click
from rich.console import Console

from benchyard.cli.render import size

QUIET_SECONDS = 2.0
TERMINAL_EVERY = 0.2
LOG_EVERY = 10.0


@contextmanager
def spinner(text: str) -> Iterator[None]:
    """A spinner while the block runs; one line where stderr is not a terminal."""
    if not sys.stderr.isatty():
        click.echo(f"{text}...", err=True)
        yield
        return
    with Console(stderr=True).status(text):
        yield


class Meter:
    """Counts bytes that pass and, from the third second on, says how many."""

    def __init__(self, name: str, total: int | None = None) -> None:
        self._name = name
        self._total = total
        self._count = 0
        self._begin = time.monotonic()
        self._next = self._begin + QUIET_SECONDS
        self._drawn = False

    def add(self, count: int) -> None:
        """Note that so many more have passed."""
        self._count += count
        now = time.monotonic()
        if now >= self._next:
            on_terminal = sys.stderr.isatty()
            self._next = now + (TERMINAL_EVERY if on_terminal else LOG_EVERY)
            self._draw(now, on_terminal=on_terminal)

    def expect(self, total: int) -> None:
        """Note how many there will be."""
        self._total = total

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn and sys.stderr.isatty():
            click.echo(err=True)

    def _draw(self, now: float, *, on_terminal: bool) -> None:
        self._drawn = True
        share = f" of {size(self._total)}" if self._total else ""
        rate = size(int(self._count / max(now - self._begin, 0.001)))
        line = f"{self._name}: {size(self._count)}{share}, {rate}/s"
        click.echo(f"\r{line}\x1b[K" if on_terminal else line, nl=not on_terminal, err=True)
