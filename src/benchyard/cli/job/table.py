"""`benchyard job table`: the trials of a job as columns, for people and for programs."""

from collections.abc import Callable, Sequence

import click

from benchyard.cli.connection import connect
from benchyard.cli.job.names import of_job
from benchyard.cli.options import IntRange
from benchyard.cli.render import output_option, print_table, show
from benchyard.client.plain_text import clean
from benchyard.client.trial_frames import values_of
from benchyard.errors import UsageError
from benchyard.models.reports.job_report import TableView
from benchyard.models.trials import SuspectRule

SHOWN_COLUMNS = ("agent_label", "scenario_name", "attempt", "outcome", "score", "working_ms", "cost_usd")
"""Columns for people; programs get the server's usual ones."""
_LONGEST_CELL = 100

columns_option = click.option("--columns", metavar="A,B,C", help="Columns to show. Default: the usual ones.")
rows_option = click.option(
    "--limit", type=IntRange(min=1), default=50, show_default=True, help="Print this many rows as text."
)


@click.command()
@click.argument("given", metavar="ID|NAME")
@columns_option
@rows_option
@click.option(
    "--suspect",
    type=click.Choice(["keep", "zero"]),
    help="What becomes of suspect scores, instead of what the job says.",
)
@output_option
def table(given: str, columns: str | None, limit: int, suspect: SuspectRule | None, output: str) -> None:
    """Show the trials of a job as a table, in the order of its plan.

    JSON has columns, not rows: each with its `values`, or with `codes`, indexes into its `dictionary`. Rows
    are what `job export --csv` writes.

    \b
      benchyard job table my-job
      benchyard job table my-job --columns scenario_name,score,failure --limit 500
      benchyard job table my-job -o json
    """
    with connect() as client:
        show_trial_table(
            lambda names: of_job(client, given, lambda id: client.jobs.table(id, names, suspect=suspect)),
            columns,
            limit,
            output,
        )


def show_trial_table(
    fetch: Callable[[Sequence[str] | None], TableView], columns: str | None, limit: int, output: str
) -> None:
    """Print a table of trials: some rows for people, or all columns as data."""
    names = None if columns is None else [each.strip() for each in columns.split(",") if each.strip()]
    if names == []:
        raise UsageError("--columns names no column; write them as A,B,C")
    if output != "text":
        show(fetch(names), output, "")
        return
    view = fetch(names or SHOWN_COLUMNS)
    cells = [[_cell(value) for value in values_of(each)[:limit]] for each in view.columns.values()]
    print_table([name.upper() for name in view.columns], zip(*cells, strict=True))
    if view.n > limit:
        click.echo(f"... and {view.n - limit} more; --limit shows more, -o json shows all")


def _cell(value: object) -> str:
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else clean(str(value))
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}…"
