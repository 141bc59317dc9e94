"""Progress of long activities on stderr, with their duration."""

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

import click

from benchyard.cli.render import duration, size
from benchyard.client.bodies import Progress

QUIET_SECONDS = 2.0
TERMINAL_EVERY = 0.2
LOG_EVERY = 10.0
REMIND_SECONDS = 30.0
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_CLEAR = "\r\x1b[K"


def stamp(time_ms: int | None = None) -> str:
    """Return a time for logs, to the second: `2026-01-31T12:00:00Z`; now if none is given."""
    seconds = time.time() if time_ms is None else time_ms / 1000
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_terminal() -> bool:
    """Tell whether stderr is a terminal on which a line can be redrawn."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


class ActivityLine:
    """Shows an activity and its duration; use as a context manager.

    A terminal has one line that is redrawn. Elsewhere there is a line with the time of day at the begin, one
    now and then, and one at the end. With `after`, activities that take fewer seconds are not shown.
    """

    def __init__(self, text: str, *, after: float = 0.0) -> None:
        self.text = text
        self._after = after
        self._begin = time.monotonic()
        self._over = threading.Event()
        self._lock = threading.RLock()
        self._is_shown = False
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        self._begin = time.monotonic()
        if not self._after:
            self._draw()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        if self._is_shown and is_terminal():
            click.echo(_CLEAR, nl=False, err=True, color=True)
        elif self._is_shown and self.seconds >= QUIET_SECONDS:
            word = "done" if error is None else "ended"
            click.echo(f"{stamp()} {self.text}: {word} after {self._time()}", err=True)

    @property
    def seconds(self) -> float:
        """Return the duration so far."""
        return time.monotonic() - self._begin

    def say(self, line: str) -> None:
        """Print a separate line, above the redrawn one."""
        with self._lock:
            is_drawn = self._is_shown and is_terminal()
            click.echo(f"{_CLEAR if is_drawn else ''}{line}", err=True, color=is_drawn or None)
            if is_drawn:
                self._draw()

    def _tick(self) -> None:
        if self._over.wait(self._after):
            return
        if self._after:
            self._draw()
        while not self._over.wait(TERMINAL_EVERY if is_terminal() else REMIND_SECONDS):
            self._draw()

    def _draw(self) -> None:
        with self._lock:
            self._is_shown = True
            if not is_terminal():
                took = f", {self._time()}" if self.seconds >= QUIET_SECONDS else ""
                click.echo(f"{stamp()} {self.text}{took or '...'}", err=True)
                return
            frame = _FRAMES[int(self.seconds / TERMINAL_EVERY) % len(_FRAMES)]
            line = f"{frame} {self.text}, {self._time()}"
            width = shutil.get_terminal_size().columns - 1
            click.echo(f"{_CLEAR}{line[:width]}", nl=False, err=True, color=True)

    def _time(self) -> str:
        seconds = int(self.seconds)
        return f"{seconds}s" if seconds < 10 else duration(seconds * 1000)


def spinner(text: str) -> ActivityLine:
    """Return a line for an activity that always takes long."""
    return ActivityLine(text)


def patience(text: str) -> ActivityLine:
    """Return a line for an activity that may be quick; quick ones are not shown."""
    return ActivityLine(text, after=QUIET_SECONDS)


class ByteMeter:
    """Counts bytes and, from the third second on, shows their number."""

    def __init__(self, name: str, total: int | None = None, then: str | None = None) -> None:
        self._name = name
        self._then = ActivityLine(then, after=QUIET_SECONDS) if then else None
        """Activity that follows when all bytes have passed."""
        self._total = total
        self._count = 0
        self._stack = ExitStack()
        self._begin = time.monotonic()
        self._next = self._begin + QUIET_SECONDS
        self._drawn = False

    def add(self, count: int) -> None:
        """Count further bytes."""
        self._count += count
        now = time.monotonic()
        if now >= self._next:
            on_terminal = sys.stderr.isatty()
            self._next = now + (TERMINAL_EVERY if on_terminal else LOG_EVERY)
            self._draw(now, on_terminal=on_terminal)
        if self._then is not None and self._total is not None and self._count >= self._total:
            self._end_line()
            self._stack.enter_context(self._then)
            self._then = None

    def expect(self, total: int) -> None:
        """Set the number of bytes to come."""
        self._total = total

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        self._end_line()

    def _end_line(self) -> None:
        if self._drawn and sys.stderr.isatty():
            click.echo(err=True)
        self._drawn = False

    def _draw(self, now: float, *, on_terminal: bool) -> None:
        self._drawn = True
        share = f" of {size(self._total)}" if self._total else ""
        rate = size(int(self._count / max(now - self._begin, 0.001)))
        line = f"{self._name}: {size(self._count)}{share}, {rate}/s"
        click.echo(f"\r{line}\x1b[K" if on_terminal else line, nl=not on_terminal, err=True)


@contextmanager
def metered(name: str, total: int | None = None) -> Iterator[Progress]:
    """Show the bytes that pass in the block, as the client's verbs want it."""
    with ByteMeter(name, total) as meter:
        yield meter.add
