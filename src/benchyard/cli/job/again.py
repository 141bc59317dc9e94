"""`benchyard job resume` and `job retry`: go on with a job, or try some of its trials again."""

from collections.abc import Callable, Sequence

import click

from benchyard.cli.connection import connect
from benchyard.cli.job.gates import SUSPECT, UNFINISHED, exit_statuses, require_good
from benchyard.cli.job.names import find_job
from benchyard.cli.job.watch import require_scores, show_end, watch_to_end
from benchyard.cli.render import output_option, show
from benchyard.client.client import Client
from benchyard.client.lookup import scenario_id_in
from benchyard.models.jobs import BenchmarkJobView, RetryKind

_TRIALS = 1000
_RETRIED: Sequence[RetryKind] = ("unscored", "crashed", "not-passed")
_AGAIN_STATUSES = exit_statuses(
    0, UNFINISHED, 2, 4, 5, SUSPECT, 130, note=", with --watch; else 0 once it goes on"
)


def _watch_option(command: Callable[..., None]) -> Callable[..., None]:
    return click.option("--watch", "watch_it", is_flag=True, help="Watch it until it has ended.")(command)


@click.command(epilog=_AGAIN_STATUSES)
@click.argument("given", metavar="ID|NAME")
@_watch_option
@output_option
def resume(given: str, watch_it: bool, output: str) -> None:
    """Go on with the unfinished trials of a job that was cancelled.

    \b
      benchyard job resume my-job --watch
    """
    with connect() as client:
        view = client.jobs.resume(find_job(client, given, scenarios=False).id)
        _follow(client, view, output, watch_it=watch_it)


@click.command(epilog=_AGAIN_STATUSES)
@click.argument("given", metavar="ID|NAME")
@click.option(
    "--only",
    type=click.Choice(_RETRIED),
    default="unscored",
    show_default=True,
    help="What to try again: trials without a score through no fault of the agent, those that crashed, "
    "or all that did not pass.",
)
@click.option(
    "--scenario",
    "scenarios",
    multiple=True,
    metavar="ID|NAME",
    help="Only trials of this scenario; repeatable.",
)
@_watch_option
@output_option
def retry(given: str, only: RetryKind, scenarios: Sequence[str], watch_it: bool, output: str) -> None:
    """Try the trials without a score again; the earlier ones are kept beside the new ones.

    `--only not-passed` includes crashed trials.

    \b
      benchyard job retry my-job
      benchyard job retry my-job --only not-passed --watch
      benchyard job retry my-job --only crashed --scenario quickstart/fix-a-bug
    """
    with connect() as client:
        found = find_job(client, given)
        trials = list(client.jobs.trials(found.id, limit=_TRIALS)) if scenarios else []
        chosen = [scenario_id_in(found, trials, each) for each in scenarios]
        view = client.jobs.retry(found.id, only, chosen or None)
        _follow(client, view, output, watch_it=watch_it)


def _follow(client: Client, view: BenchmarkJobView, output: str, *, watch_it: bool) -> None:
    if watch_it:
        view = watch_to_end(client, view, output)
        show_end(view, output)
        require_good(view, None)
        require_scores(view)
    else:
        show(view, output, f"{view.id}  {view.state.value}")
