"""`benchyard job watch`: live progress of a job, on a terminal or in a log."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.live import Live

from benchyard.cli.connection import connect
from benchyard.cli.job.board import JobBoard
from benchyard.cli.job.gates import (
    BELOW,
    SUSPECT,
    UNFINISHED,
    UNSCORED,
    agents_without_score,
    check_gates,
    exit_statuses,
    fail_under_option,
    max_unscored_option,
    require_good,
    suspect_option,
)
from benchyard.cli.job.names import find_job
from benchyard.cli.job.summary import summarize
from benchyard.cli.notices import tell
from benchyard.cli.progress import REMIND_SECONDS, stamp
from benchyard.cli.render import output_option, show
from benchyard.client.client import Client
from benchyard.models.jobs import ENDED_JOBS, BenchmarkJobView, JobState
from benchyard.models.trials import SuspectRule

REFRESH_PER_SECOND = 4


WATCH_STATUSES = exit_statuses(0, UNFINISHED, 2, 4, BELOW, SUSPECT, UNSCORED, 130)


@click.command(epilog=WATCH_STATUSES)
@click.argument("given", metavar="ID|NAME")
@fail_under_option()
@max_unscored_option()
@suspect_option("What becomes of suspect scores, instead of what the job says")
@output_option
def watch(
    given: str,
    fail_under: float | None,
    max_unscored: tuple[float, bool],
    suspect: SuspectRule | None,
    output: str,
) -> None:
    """Watch a job until it has ended, then show its summary; Ctrl-C leaves it running.

    On a terminal it fills the screen: trials, tokens, cost, and the time left, estimated from ended trials.
    Elsewhere, and where TERM is `dumb`, there is one line with its time for each change, and one now and then
    while nothing changes. With -o json or yaml the progress goes to standard error.

    \b
      benchyard job watch my-job
      benchyard job watch bmj_31Yt... > progress.log
      benchyard job watch my-job --fail-under 0.8 --suspect fail
    """
    check_gates(fail_under, max_unscored)
    with connect() as client:
        view = watch_to_end(client, find_job(client, given), output)
        if suspect is not None:
            view = client.jobs.get(view.id, suspect=suspect)
    show_end(view, output)
    require_good(view, fail_under, suspect, max_unscored)
    require_scores(view)


def require_scores(view: BenchmarkJobView) -> None:
    """Exit with a status if a job was not completed, or an agent has no score at all."""
    problems = agents_without_score(view)
    for problem in problems:
        tell(f"{problem}")
    if problems or view.state is not JobState.COMPLETED:
        raise click.exceptions.Exit(UNFINISHED)


def show_end(view: BenchmarkJobView, output: str) -> None:
    """Show the results of a job."""
    if output == "text":
        summarize(view, extended=False)
    else:
        show(view, output, "")


def watch_to_end(
    client: Client, view: BenchmarkJobView, output: str, *, plainly: bool = False
) -> BenchmarkJobView:
    """Show the progress of a job until it has ended; returns its final view."""
    if view.state in ENDED_JOBS:
        return view
    try:
        with _screen(JobBoard(view), to_stderr=plainly or output != "text", plainly=plainly) as (board, say):
            _follow(client, board, say)
    except KeyboardInterrupt:
        tell(
            f"{view.id} goes on; `benchyard job watch {view.id}` shows it again, "
            f"`benchyard job cancel {view.id}` ends it",
        )
        raise
    return client.jobs.get(view.id)


class _Lines:
    """Prints a line with its time for each change, or none while the screen is drawn."""

    def __init__(self, *, to_stderr: bool, is_silent: bool) -> None:
        self._to_stderr = to_stderr
        self._is_silent = is_silent
        self._said = time.monotonic()

    def __call__(self, line: str, time_ms: int | None = None) -> None:
        if not self._is_silent:
            self._said = time.monotonic()
            click.echo(f"{stamp(time_ms)} {line}", err=self._to_stderr)

    @contextmanager
    def reminders(self, board: JobBoard) -> Iterator[None]:
        """Print the current activity after some silence, until the block ends."""
        over = threading.Event()

        def remind() -> None:
            while not over.wait(REMIND_SECONDS / 10):
                if time.monotonic() - self._said >= REMIND_SECONDS:
                    self(board.present())

        thread = threading.Thread(target=remind, daemon=True)
        if not self._is_silent:
            thread.start()
        try:
            yield
        finally:
            over.set()
            if not self._is_silent:
                thread.join()


def _follow(client: Client, board: JobBoard, say: _Lines) -> None:
    def told(is_there: bool) -> None:
        board.is_away = not is_there
        say("the server is there again" if is_there else "the server is away, trying again")

    with say.reminders(board):
        for event in client.jobs.events(board.view.id, told=told):
            is_news = board.note(event)
            # Changes before the job was resumed or retried were shown then.
            if is_news and event.time_ms >= (board.view.resume_time_ms or 0):
                say(board.line_of(event), event.time_ms)
            if event.state is not None and event.state not in ENDED_JOBS:
                board.refresh(client.jobs.get(board.view.id, scenarios=False))


@contextmanager
def _screen(board: JobBoard, *, to_stderr: bool, plainly: bool) -> Iterator[tuple[JobBoard, _Lines]]:
    stream = sys.stderr if to_stderr else sys.stdout
    if plainly or not stream.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        yield board, _Lines(to_stderr=to_stderr, is_silent=False)
        return
    # Ignore COLUMNS and LINES, which some shells export: they do not change with the window.
    size = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    console = Console(stderr=to_stderr, highlight=False, _environ=size)
    # The screen is redrawn several times a second, each time in the terminal's present size.
    with Live(board, console=console, screen=True, refresh_per_second=REFRESH_PER_SECOND):
        yield board, _Lines(to_stderr=to_stderr, is_silent=True)
