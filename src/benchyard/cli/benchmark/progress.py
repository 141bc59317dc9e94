"""Progress of pushes and imports, on the terminal."""

import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from benchyard.benchmarks.sources.base import FetchProgress as SourceProgress
from benchyard.cli.image.blueprint import await_build, uploaded_context
from benchyard.cli.notices import say
from benchyard.cli.progress import patience
from benchyard.client.benchmark_files.progress import PushProgress
from benchyard.client.client import Client
from benchyard.models.blueprints import BlueprintRequest, BlueprintView

_TELL_SECONDS = 2.0


class CountBar:
    """Progress on stderr: a bar in a terminal, else a line every other second."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._count = 0
        self._total: int | None = None
        self._told = time.monotonic()
        self._progress = _rich_progress() if sys.stderr.isatty() else None
        self._task: TaskID | None = None

    def __enter__(self) -> "CountBar":
        if self._progress:
            self._progress.start()
            self._task = self._progress.add_task(self._title, total=None)
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress:
            self._progress.stop()

    def started(self, name: str, total: int | None) -> None:
        """Begin an activity with a total amount."""
        self._title, self._total, self._count = name, total, 0
        if self._progress and self._task is not None:
            self._progress.reset(self._task, description=name, total=total)

    def advanced(self, count: int) -> None:
        """Count a further amount as done."""
        self._count += count
        if self._progress and self._task is not None:
            self._progress.advance(self._task, count)
        elif time.monotonic() - self._told > _TELL_SECONDS:
            self._told = time.monotonic()
            of = f" of {self._total}" if self._total else ""
            click.echo(f"{self._title}: {self._count}{of}", err=True)

    def done(self) -> None:
        """End the activity; the bar closes with the block."""


class TerminalProgress(PushProgress):
    """Shows pushes and imports on the terminal."""

    def say(self, text: str) -> None:
        """Print a sentence on stderr."""
        say(text)

    def activity(self, text: str) -> AbstractContextManager[object]:
        """Show a spinner if it takes long."""
        return patience(text)

    def counter(self, title: str) -> AbstractContextManager[SourceProgress]:
        """Show a bar, or lines."""
        return CountBar(title)

    def build(
        self, client: Client, scenario: str, request: BlueprintRequest, dockerfile: Path | None
    ) -> BlueprintView:
        """Build the environment, and show the log."""
        click.echo(f"building the environment of {scenario}", err=True)
        folder = dockerfile.parent if dockerfile else None
        with uploaded_context(client, folder, dockerfile) as sent:
            made = client.blueprints.create(request.model_copy(update={"build_context": sent}))
            return await_build(client, made)


TERMINAL = TerminalProgress()


def _rich_progress() -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
