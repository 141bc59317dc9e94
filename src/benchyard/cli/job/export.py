"""`benchyard job export`: the results of a job in Harbor's layout, or its trials as CSV or Parquet."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from benchyard.cli.connection import connect
from benchyard.cli.job.logs import INCOMPLETE, tell_of_problem
from benchyard.cli.notices import tell
from benchyard.cli.progress import patience
from benchyard.client.job_files.progress import OnTrial, TrialProgress
from benchyard.errors import UsageError


@click.command()
@click.argument("given", metavar="ID|NAME")
@click.argument("folder", type=click.Path(path_type=Path), metavar="[DIR]", required=False)
@click.option(
    "--format",
    "form",
    type=click.Choice(["harbor"]),
    default="harbor",
    show_default=True,
    help="The layout of the folder.",
)
@click.option("--force", is_flag=True, help="Overwrite what is in the folder.")
@click.option(
    "--csv",
    "csv_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the trials as CSV instead; - prints it.",
)
@click.option(
    "--parquet",
    "parquet_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the trials as Parquet instead, which needs pyarrow.",
)
@click.option("--columns", metavar="A,B,C", help="Columns of these files. Default: the usual ones.")
def export(
    given: str,
    folder: Path | None,
    form: str,
    force: bool,
    csv_file: Path | None,
    parquet_file: Path | None,
    columns: str | None,
) -> None:
    """Write the results of a job as Harbor does: DIR/JOB/TRIAL/result.json, logs, rewards, trajectories.

    Superseded trials are left out. Ends with 1 if some logs could not be fetched. With --csv or --parquet, a
    table with a line for each trial is written instead. In CSV, a text that a spreadsheet would take for a
    formula has a quote before it.

    \b
      benchyard job export my-job jobs --format harbor
      benchyard job export my-job --csv trials.csv
      benchyard job export my-job --csv - --columns scenario_name,score
      benchyard job export my-job --parquet trials.parquet
    """
    if csv_file is not None or parquet_file is not None:
        if folder is not None:
            raise UsageError("name either a folder for Harbor's layout, or files with --csv and --parquet")
        _export_table(given, csv_file, parquet_file, columns)
    elif folder is None:
        raise UsageError("name a folder to write to, or a file with --csv or --parquet")
    else:
        _export(given, folder, force=force)


def _export_table(given: str, csv_file: Path | None, parquet_file: Path | None, columns: str | None) -> None:
    names = None if columns is None else columns.split(",")
    is_printed = csv_file is not None and str(csv_file) == "-"
    with connect() as client:
        table = client.jobs.export_table(
            given, csv=sys.stdout if is_printed else csv_file, parquet=parquet_file, columns=names, tell=tell
        )
    for file in (None if is_printed else csv_file, parquet_file):
        if file is not None:
            click.echo(f"{file}  {table.n} trials")


def _export(given: str, folder: Path, *, force: bool) -> None:
    with connect() as client:
        done = client.jobs.export_harbor(given, folder, force=force, progress=_TerminalProgress())
    click.echo(f"{done.folder}  {len(done.trials) - len(done.incomplete)} of {len(done.trials)} trials")
    if done.incomplete:
        raise click.exceptions.Exit(INCOMPLETE)


class _TerminalProgress(TrialProgress):
    """Shows on stderr that trials are written, if it takes long."""

    def say(self, text: str) -> None:
        """Print a notice on stderr."""
        tell(text)

    @contextmanager
    def trials(self, total: int, folder: Path) -> Iterator[OnTrial]:
        """Show a spinner, and report the trials that are incomplete."""
        with patience(f"writing {total} trials to {folder}"):
            yield tell_of_problem
