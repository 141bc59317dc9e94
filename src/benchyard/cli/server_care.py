"""`benchyard server`: what it keeps, what of that is too old, and what runs when it is stopped."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from benchyard.cli.confirmation import confirm, yes_option
from benchyard.cli.connect import connect
from benchyard.cli.options import age_in_days
from benchyard.cli.progress import spinner
from benchyard.cli.render import clean, output_option, print_table, show, show_many, size
from benchyard.cli.table import Narrow
from benchyard.client.client import Client
from benchyard.client.core import Server
from benchyard.client.locate import running_server
from benchyard.errors import BenchyardError, Conflict
from benchyard.hosts.data_folder import check_data_folder, delete_data_folder
from benchyard.models.jobs import ENDED_JOBS, BenchmarkJobView, JobState
from benchyard.models.removals import CollectedResultsView, RemovalView
from benchyard.settings import default_data_folder

_MOST_NAMED = 10
_UNFINISHED = ",".join(each.value for each in JobState if each not in ENDED_JOBS)
_REMOVED: Mapping[str, Callable[[RemovalView], object]] = {
    "ID": lambda view: view.id,
    "KIND": lambda view: view.kind.replace("_", " "),
    "NAME": lambda view: view.name,
    "TRIALS": lambda view: view.n_trials or "",
    "RUNS": lambda view: view.n_scenario_runs,
    "SIZE": lambda view: size(view.size_bytes),
}
_NARROW = Narrow(shorten=["NAME"], drop=["RUNS", "TRIALS", "KIND"])


@click.command()
@output_option
def disk(output: str) -> None:
    """Show what the server takes on its disk, by kind.

    \b
      benchyard server disk
      benchyard server disk -o json
    """
    with connect() as client, spinner("looking at every file"):
        view = client.disk()
    if output != "text":
        show(view, output, "")
        return
    rows = [
        [each.kind, size(each.size_bytes), "" if each.count is None else str(each.count), each.what]
        for each in view.kinds
    ]
    rows.append(["total", size(view.total_bytes), "", f"{size(view.free_bytes)} free"])
    print_table(["KIND", "SIZE", "NUMBER", "WHAT"], rows, Narrow(drop=["WHAT", "NUMBER"]))
    click.echo(f"data folder: {clean(view.data)}", err=True)
    if not view.is_complete:
        click.echo("there are more files than were looked at: it is more than this", err=True)


@click.command()
@click.option(
    "--keep-results",
    type=age_in_days,
    metavar="AGE",
    help="How old results may be, such as 90d; the server's own limit if not given.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@yes_option
@output_option
def gc(keep_results: float | None, dry_run: bool, yes: bool, output: str) -> None:
    """Remove jobs and runs that ended longer ago, with all their files; pinned jobs stay.

    Images have a collection of their own: `benchyard image gc`.

    \b
      benchyard server gc --keep-results 90d --dry-run
      benchyard server gc --keep-results 90d --yes
      benchyard job pin baseline
    """
    with connect() as client:
        with spinner("looking for old results"):
            found = client.collect_results(keep_results, dry_run=True)
        if not dry_run and found.n_removed:
            if output == "text":
                _show_collected(found)
            confirm(f"Delete {_counted(found.n_removed)} ({size(found.size_bytes)})?", yes=yes)
            with spinner("deleting"):
                found = client.collect_results(found.keep_days, dry_run=False)
    if output != "text":
        show(found, output, "")
    elif dry_run or not found.n_removed:
        _show_collected(found)
    else:
        click.echo(f"deleted {_counted(found.n_removed)}, {size(found.size_bytes)}")


@click.command()
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="The data folder. Default: $BENCHYARD_DATA, else benchyard in your user data folder.",
)
@yes_option
def delete(data: Path | None, yes: bool) -> None:
    """Delete the data folder of a server that is stopped: every job, result, image, key and secret.

    Unlike `rm -r` it may remove the files that devboxes of an ordinary user made.

    \b
      benchyard devbox shutdown --all
      benchyard server stop
      benchyard server delete
    """
    folder = (data or default_data_folder(os.environ)).absolute()
    check_data_folder(folder)
    if running_server(folder) is not None:
        raise Conflict(f"a server runs on {folder}; stop it first with `benchyard server stop`")
    confirm(f"Delete {folder} with every job, result, image, key and secret in it?", yes=yes)
    with spinner(f"deleting {folder}"):
        delete_data_folder(folder)
    click.echo(f"deleted {folder}")


def tell_jobs(server: Server, *, yes: bool) -> None:
    """Say which jobs run on a server that is about to stop; in a terminal, ask whether to go on."""
    try:
        with Client(server) as client:
            jobs = list(client.jobs.list(limit=_MOST_NAMED + 1, status=_UNFINISHED))
    except BenchyardError as error:
        # Stopping must work for a server that is too ill to answer.
        click.echo(f"which jobs run could not be asked: {error.message}", err=True)
        return
    if not jobs:
        return
    for line in running_jobs(jobs):
        click.echo(line, err=True)
    if not yes and sys.stdin.isatty() and sys.stderr.isatty():
        confirm("Stop the server all the same?", yes=False)


def running_jobs(jobs: list[BenchmarkJobView]) -> list[str]:
    """Lines that tell which jobs go on at the next start."""
    lines = [f"  {clean(each.name)}  {each.state.value}  ({each.id})" for each in jobs[:_MOST_NAMED]]
    if len(jobs) > _MOST_NAMED:
        lines.append("  and more")
    many = f"{len(jobs)} jobs" if len(jobs) <= _MOST_NAMED else f"more than {_MOST_NAMED} jobs"
    head = "1 job is not over; it goes" if len(jobs) == 1 else f"{many} are not over; they go"
    return [f"{head} on at the next start:", *lines]


def _show_collected(found: CollectedResultsView) -> None:
    none = f"nothing ended more than {found.keep_days:g} days ago"
    show_many(found.removed, "text", _REMOVED, none=none, narrow=_NARROW)
    if found.n_removed > len(found.removed):
        click.echo(f"and {found.n_removed - len(found.removed)} more")
    if found.n_removed and found.dry_run:
        click.echo(f"would go: {_counted(found.n_removed)}, {size(found.size_bytes)}")
    if found.n_pinned:
        pinned = "1 pinned job stays" if found.n_pinned == 1 else f"{found.n_pinned} pinned jobs stay"
        click.echo(pinned, err=True)


def _counted(count: int) -> str:
    return "1 result" if count == 1 else f"{count} results"
