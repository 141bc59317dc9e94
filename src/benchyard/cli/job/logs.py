"""`benchyard job logs`: the logs of a job's trials as folders."""

import sys
from pathlib import Path

import click
from rich.console import Console

from benchyard.cli.connection import connect
from benchyard.cli.notices import tell
from benchyard.cli.render import echo_sentence
from benchyard.client.job_files.progress import OnTrial, TrialProgress
from benchyard.client.job_files.results import TrialFolder
from benchyard.client.plain_text import clean
from benchyard.models.job_plans import count_text

INCOMPLETE = 1
"""Exit status if some logs could not be fetched."""

_EVERY = 50


@click.command()
@click.argument("given", metavar="ID|NAME")
@click.option(
    "-o",
    "--output-dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write to. Default: job-logs-ID.",
)
@click.option("--run", "run_id", metavar="ID", help="Only this benchmark run (one agent), or scenario run.")
@click.option("--scenario", metavar="ID|NAME", help="Only this scenario.")
def logs(given: str, folder: Path | None, run_id: str | None, scenario: str | None) -> None:
    """Fetch the logs and results of a job's trials.

    Writes AGENT_MODEL/SCENARIO/results.json and the log files beside it; with several attempts each has a
    folder `attempt-N`, and superseded trials are in `superseded`. Ends with 1 if some could not be fetched.

    \b
      benchyard job logs my-job
      benchyard job logs my-job -o logs --scenario quickstart/fix-a-bug
    """
    with connect() as client:
        done = client.jobs.download_logs(
            given, folder, run=run_id, scenario=scenario, progress=_TerminalProgress()
        )
    fetched = f"{len(done.trials) - len(done.incomplete)} of {count_text(len(done.trials), 'trial')}"
    echo_sentence(f"{done.folder}  {fetched}, each with its logs and results.json in a folder of its own")
    if done.incomplete:
        raise click.exceptions.Exit(INCOMPLETE)


def tell_of_problem(trial: TrialFolder) -> None:
    """Report a trial whose logs could not be fetched."""
    if trial.problem is not None:
        click.echo(f"{trial.folder}: {clean(trial.problem)}", err=True)


class _TerminalProgress(TrialProgress):
    """Shows on stderr how many trials are fetched."""

    def say(self, text: str) -> None:
        """Print a notice on stderr."""
        tell(text)

    def trials(self, total: int, folder: Path) -> "_TrialCount":
        """Count the trials."""
        return _TrialCount(total)


class _TrialCount:
    """Reports the number of fetched trials on stderr."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._status = Console(stderr=True).status("fetching logs") if sys.stderr.isatty() else None

    def __enter__(self) -> OnTrial:
        if self._status:
            self._status.start()
        return self._tell

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()

    def _tell(self, trial: TrialFolder) -> None:
        """Count a trial, and report why it is incomplete if it is."""
        self._done += 1
        text = f"fetching logs: {self._done} of {self._total} trials"
        tell_of_problem(trial)
        if self._status:
            self._status.update(text)
        elif trial.problem is None and self._done % _EVERY == 0:
            click.echo(text, err=True)
