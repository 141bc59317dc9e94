"""`benchyard job`: other names, pins, and the end of what is not needed any more."""

from collections.abc import Sequence
from itertools import islice

import click

from benchyard.cli.confirmation import confirm, yes_option
from benchyard.cli.connect import connect
from benchyard.cli.names import SHOWN, job_named
from benchyard.cli.options import checked_input
from benchyard.cli.progress import spinner
from benchyard.cli.render import clean, output_option, show, size
from benchyard.client.client import Client
from benchyard.errors import Conflict, UsageError
from benchyard.models.base import RenameRequest
from benchyard.models.job_plans import counted
from benchyard.models.jobs import ENDED_JOBS, BenchmarkJobView
from benchyard.models.removals import RemovalView


@click.command()
@click.argument("given", metavar="ID|NAME")
@click.argument("name", metavar="NEW-NAME")
@output_option
def rename(given: str, name: str, output: str) -> None:
    """Give a job another name.

    \b
      benchyard job rename my-job nightly-2026-02-01
    """
    with checked_input():
        RenameRequest(name=name)
    with connect() as client:
        view = client.jobs.rename(_one(client, given).id, name)
    show(view, output, f"{view.id}  {clean(view.name)}")


@click.command()
@click.argument("given", nargs=-1, required=True, metavar="ID|NAME...")
@yes_option
@output_option
def delete(given: Sequence[str], yes: bool, output: str) -> None:
    """Delete jobs that have ended, with their trials, runs, logs, traces and final states.

    Benchmarks, scenarios and agents stay. A job that runs has to be cancelled first.

    \b
      benchyard job delete my-job
      benchyard job delete bmj_... bmj_... --yes
    """
    with connect() as client:
        jobs = [_one(client, each) for each in given]
        for view in jobs:
            if view.state not in ENDED_JOBS:
                raise Conflict(
                    f"job {clean(view.name)!r} is {view.state.value}; "
                    f"end it first: `benchyard job cancel {view.id}`"
                )
        named = ", ".join(f"{clean(view.name)!r}" for view in jobs[:SHOWN])
        more = f" and {len(jobs) - SHOWN} more" if len(jobs) > SHOWN else ""
        trials = sum(view.n_trials for view in jobs)
        what = "1 job" if len(jobs) == 1 else f"{len(jobs)} jobs"
        confirm(f"Delete {what} ({named}{more}) with {trials} trials and all their files?", yes=yes)
        for view in jobs:
            with spinner(f"deleting {clean(view.name)}"):
                done = client.jobs.delete(view.id)
            show_removed(done, output)


@click.command()
@click.argument("given", nargs=-1, required=True, metavar="ID|NAME...")
def pin(given: Sequence[str]) -> None:
    """Keep jobs however old they are, also where the server removes old results.

    \b
      benchyard job pin baseline
    """
    _pin(given, pinned=True)


@click.command()
@click.argument("given", nargs=-1, required=True, metavar="ID|NAME...")
def unpin(given: Sequence[str]) -> None:
    """Undo `pin`: the jobs are removed with other old results.

    \b
      benchyard job unpin baseline
    """
    _pin(given, pinned=False)


def show_removed(done: RemovalView, output: str) -> None:
    """Print what was deleted."""
    parts = [counted(done.n_trials, "trial")] if done.kind == "job" else []
    parts += [counted(done.n_scenario_runs, "run"), counted(done.n_objects, "file"), size(done.size_bytes)]
    show(done, output, f"{done.id}  deleted: {', '.join(parts)}")


def _pin(given: Sequence[str], *, pinned: bool) -> None:
    with connect() as client:
        for each in given:
            client.jobs.pin(_one(client, each).id, pinned=pinned)
            click.echo(f"{clean(each)}  {'pinned' if pinned else 'not pinned any more'}")


def _one(client: Client, given: str) -> BenchmarkJobView:
    """The job that is meant; raises UsageError where several have the name, of which one could be wrong."""
    view = job_named(client, given)
    if view.id != given:
        same = list(islice(client.jobs.list(name=given, limit=SHOWN), SHOWN))
        if len(same) > 1:
            ids = ", ".join(each.id for each in same)
            raise UsageError(f"{given!r} can mean several jobs ({ids}); give the id")
    return view
