"""`benchyard job`, or `benchmark-job`: list, cancel, rename, pin and delete jobs."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

import click

from benchyard.cli.connection import connect
from benchyard.cli.job.names import find_job
from benchyard.cli.lazy_group import Noun
from benchyard.cli.options import FloatRange, checked_input, confirm, yes_option
from benchyard.cli.progress import spinner
from benchyard.cli.render import age, output_option, show, show_many, show_removed
from benchyard.cli.table import Narrow
from benchyard.client.client import Client
from benchyard.client.lookup import SHOWN
from benchyard.client.plain_text import clean
from benchyard.errors import Conflict, UsageError
from benchyard.models.base import RenameRequest
from benchyard.models.jobs import ENDED_JOBS, BenchmarkJobView, JobState
from benchyard.models.trials import ENDED_TRIALS


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


def _pin(given: Sequence[str], *, pinned: bool) -> None:
    with connect() as client:
        for each in given:
            client.jobs.pin(_one(client, each).id, pinned=pinned)
            click.echo(f"{clean(each)}  {'pinned' if pinned else 'not pinned any more'}")


def _one(client: Client, given: str) -> BenchmarkJobView:
    """Return the job of an id or name; raises UsageError if several have the name: a guess might be wrong."""
    view = find_job(client, given)
    if view.id != given:
        same = list(islice(client.jobs.list(name=given, limit=SHOWN), SHOWN))
        if len(same) > 1:
            ids = ", ".join(each.id for each in same)
            raise UsageError(f"{given!r} can mean several jobs ({ids}); give the id")
    return view


DAY_MS = 24 * 3600 * 1000
PAGE = 100
_SPELLED = {"canceled": "cancelled"}

COLUMNS: Mapping[str, Callable[[BenchmarkJobView], object]] = {
    "ID": lambda view: view.id,
    "NAME": lambda view: view.name,
    "STATE": lambda view: view.state.value,
    "AGENTS": lambda view: ", ".join(config.label for config in view.job_spec.agent_configs),
    "TRIALS": lambda view: _done(view),
    "MEAN": lambda view: _means(view),
    "AGE": lambda view: age(view.create_time_ms),
}
NARROW = Narrow(shorten=["NAME", "AGENTS"], drop=["AGE", "ID", "TRIALS"])
_ELSEWHERE = {
    "compare": "benchyard.cli.job.compare:compare",
    "export": "benchyard.cli.job.export:export",
    "report": "benchyard.cli.job.report:report",
    "gate": "benchyard.cli.job.compare:gate",
    "judge": "benchyard.cli.job.judge:judge",
    "judgements": "benchyard.cli.job.judge:judgements",
    "logs": "benchyard.cli.job.logs:logs",
    "problems": "benchyard.cli.job.problems:problems",
    "note": "benchyard.cli.job.notes:note",
    "rescore": "benchyard.cli.job.rescore:rescore",
    "resume": "benchyard.cli.job.again:resume",
    "retry": "benchyard.cli.job.again:retry",
    "run": "benchyard.cli.job.run:run",
    "summary": "benchyard.cli.job.summary:summary",
    "table": "benchyard.cli.job.table:table",
    "tag": "benchyard.cli.job.notes:tag",
    "watch": "benchyard.cli.job.watch:watch",
}


@click.group(cls=Noun, places=_ELSEWHERE)
def job() -> None:
    """Run agents on benchmarks; `benchyard benchmark-job` is the same.

    A job is agents x scenarios x attempts. The server carries it to the end, watched or not, and goes on
    with it after a restart.

    \b
      benchyard job run --agent oracle --benchmark quickstart --watch
      benchyard job summary my-job -e
    """


for each in (rename, delete, pin, unpin):
    job.add_command(each)


@job.command("list")
@click.option(
    "--days",
    type=FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Only jobs that were created in the last N days.",
)
@click.option("--all", "show_all", is_flag=True, help="List all jobs, however old they are.")
@click.option(
    "--status", metavar="STATE,...", help=f"Only these: {', '.join(state.value for state in JobState)}."
)
@click.option("--name", metavar="TEXT", help="Only those with this in their name.")
@click.option("--tag", help="Only those with this tag.")
@output_option
def list_(
    days: float, show_all: bool, status: str | None, name: str | None, tag: str | None, output: str
) -> None:
    """List jobs, newest first: those of the last day, unless --days or --all is given.

    \b
      benchyard job list
      benchyard job list --days 7 --status failed,timeout
      benchyard job list --all --name nightly -o json
    """
    since = None if show_all else int(time.time() * 1000 - days * DAY_MS)
    states = _states(status)
    with connect() as client:
        none = "no jobs; ask for one with `benchyard job run`, or see `list --all`"
        show_many(_found(client, since, states, name, tag), output, COLUMNS, none=none, narrow=NARROW)


@job.command()
@click.argument("given", metavar="ID|NAME")
@output_option
def cancel(given: str, output: str) -> None:
    """End a job early; trials that have ended keep their scores.

    \b
      benchyard job cancel my-job
      benchyard job resume my-job
    """
    with connect() as client:
        view = client.jobs.cancel(find_job(client, given, scenarios=False).id)
    show(view, output, f"{view.id}  {view.state.value}")


def _states(given: str | None) -> set[str]:
    found = {_SPELLED.get(text, text) for text in (given or "").replace(" ", "").lower().split(",") if text}
    known = {state.value for state in JobState}
    if found - known:
        raise UsageError(
            f"{', '.join(sorted(found - known))} is not a state; known are {', '.join(sorted(known))}"
        )
    return found


def _found(
    client: Client, since_ms: int | None, states: set[str], name: str | None, tag: str | None
) -> Iterator[BenchmarkJobView]:
    query = {"search": name, "status": ",".join(sorted(states)), "tag": tag}
    said = {key: value for key, value in query.items() if value}
    for view in client.jobs.list(limit=PAGE, **said):  # type: ignore[arg-type]
        if since_ms is not None and view.create_time_ms < since_ms:
            return
        # Servers of other makes may not know these filters.
        if (not states or view.state.value in states) and (not name or name.lower() in view.name.lower()):
            yield view


def _done(view: BenchmarkJobView) -> str:
    ended = sum(
        count for each in view.progress for state, count in each.by_state.items() if state in ENDED_TRIALS
    )
    return f"{ended}/{view.n_trials}"


def _means(view: BenchmarkJobView) -> str:
    told = []
    for each in view.benchmark_outcomes:
        mark = f" ({each.n_suspect} suspect)" if each.n_suspect else ""
        told.append("-" if each.mean_score is None else f"{each.mean_score:.3f}{mark}")
    return ", ".join(told)
