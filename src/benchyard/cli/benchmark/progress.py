"""Progress of pushes, imports and validations, on the terminal."""

import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from benchyard.benchmarks.sources.base import FetchProgress as SourceProgress
from benchyard.cli.image.blueprint import await_build
from benchyard.cli.notices import say
from benchyard.cli.progress import ActivityLine, metered, patience
from benchyard.client.benchmark_files.progress import OnAttempt, PushProgress
from benchyard.client.benchmark_files.results import ValidationAttempt
from benchyard.client.blueprint_builds import BlueprintBuild, begin_build
from benchyard.client.nouns import SyncNouns
from benchyard.client.plain_text import clean
from benchyard.client.validation import lasting_name
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


class AttemptLines:
    """Attempts of a validation on stderr, line by line; in a terminal above a count."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._activity = ActivityLine("validating; environments may have to be made ready first")

    def __enter__(self) -> OnAttempt:
        self._activity.__enter__()
        return self._tell

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._activity.__exit__(kind, error, trace)

    def _tell(self, name: str, attempt: ValidationAttempt) -> None:
        self._done += 1
        score = "no score" if attempt.score is None else f"{attempt.score:g}"
        kind = f"{attempt.kind} in {attempt.isolation}"
        self._activity.text = f"validating: {self._done} of about {self._total} runs"
        self._activity.say(f"{clean(lasting_name(name))}: {kind}: {score} ({attempt.seconds:.1f} s)")


class TerminalProgress(PushProgress):
    """Shows pushes, imports and validations on the terminal."""

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
        self, client: SyncNouns, scenario: str, request: BlueprintRequest, dockerfile: Path | None
    ) -> BlueprintView:
        """Build the environment, and show the log."""
        click.echo(f"building the environment of {scenario}", err=True)
        build = BlueprintBuild(request, dockerfile.parent if dockerfile else None, dockerfile)
        return await_build(client, begin_build(client, build, meter=metered))

    def attempts(self, total: int) -> AbstractContextManager[OnAttempt]:
        """Show a line for each attempt."""
        return AttemptLines(total)


TERMINAL = TerminalProgress()


def _rich_progress() -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
