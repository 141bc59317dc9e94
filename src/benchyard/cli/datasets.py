"""Data sets as the command line fetches them: where they are kept, and how far it is."""

import sys
import time
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from benchyard.settings import default_datasets_folder

_TELL_SECONDS = 2.0


def cache_folder() -> Path:
    """Where fetched data sets are kept."""
    return default_datasets_folder()


class Bar:
    """Progress on stderr: a bar where that is a terminal, else a line every other second."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._count = 0
        self._total: int | None = None
        self._told = time.monotonic()
        self._progress = _progress() if sys.stderr.isatty() else None
        self._task: TaskID | None = None

    def __enter__(self) -> "Bar":
        if self._progress:
            self._progress.start()
            self._task = self._progress.add_task(self._title, total=None)
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress:
            self._progress.stop()

    def started(self, name: str, total: int | None) -> None:
        """Something begins that has so much of it."""
        self._title, self._total, self._count = name, total, 0
        if self._progress and self._task is not None:
            self._progress.reset(self._task, description=name, total=total)

    def advanced(self, count: int) -> None:
        """So much more of it is done."""
        self._count += count
        if self._progress and self._task is not None:
            self._progress.advance(self._task, count)
        elif time.monotonic() - self._told > _TELL_SECONDS:
            self._told = time.monotonic()
            of = f" of {self._total}" if self._total else ""
            click.echo(f"{self._title}: {self._count}{of}", err=True)

    def done(self) -> None:
        """It is over."""


def _progress() -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
