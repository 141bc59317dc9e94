"""`benchyard run tag`, `note` and `label`: what people note about runs of the SDK."""

from collections.abc import Sequence

import click

from benchyard.cli.connection import connect
from benchyard.cli.options import checked_input
from benchyard.cli.render import output_option, show
from benchyard.cli.run.commands import find_run
from benchyard.cli.run.trial_notes import labels_text, note_text, tags_text, verdict_of
from benchyard.errors import UsageError
from benchyard.models.runs import BenchmarkRunView


@click.command()
@click.argument("given", metavar="ID|NAME")
@click.argument("tags", metavar="TAG...", nargs=-1, required=True)
@click.option("--remove", is_flag=True, help="Remove the tags instead.")
@output_option
def tag(given: str, tags: Sequence[str], remove: bool, output: str) -> None:
    """Tag a scenario run or a benchmark run, to find it again: `run list --tag TAG`.

    Runs of jobs are tagged as trials and jobs: `trial tag`, `job tag`.

    \b
      benchyard run tag my-benchmark-run release-2
      benchyard run tag scr_4kY... flaky --remove
    """
    with connect() as client, checked_input():
        found = find_run(client, given)
        runs = client.benchmark_runs if isinstance(found, BenchmarkRunView) else client.scenarios.runs
        view = runs.annotate(found.id, add_tags=() if remove else tags, remove_tags=tags if remove else ())
    show(view, output, tags_text(view))


@click.command()
@click.argument("given", metavar="ID|NAME")
@click.argument("text")
@output_option
def note(given: str, text: str, output: str) -> None:
    """Write a note on a scenario run or a benchmark run, in place of an earlier one; "" removes it.

    \b
      benchyard run note my-benchmark-run "with the new prompt"
      benchyard run note scr_4kY... ""
    """
    with connect() as client, checked_input():
        found = find_run(client, given)
        runs = client.benchmark_runs if isinstance(found, BenchmarkRunView) else client.scenarios.runs
        view = runs.annotate(found.id, note=text)
    show(view, output, note_text(view))


@click.command()
@click.argument("given", metavar="ID|NAME")
@click.argument("verdict", metavar="NAME=VALUE")
@click.option("--comment", metavar="TEXT", help="Reason for it.")
@output_option
def label(given: str, verdict: str, comment: str | None, output: str) -> None:
    """Give your verdict on a scenario run, under the name of your key.

    A second verdict of the same name replaces your first; `NAME=` takes it back.

    \b
      benchyard run label scr_4kY... correct=yes
      benchyard run label scr_4kY... reward-hack=no --comment "wrote real code"
      benchyard run label scr_4kY... correct=
    """
    name, value = verdict_of(verdict)
    with connect() as client, checked_input():
        found = find_run(client, given)
        if isinstance(found, BenchmarkRunView):
            raise UsageError(
                f"{found.id} is a benchmark run; verdicts are on its scenario runs: "
                f"`benchyard run list --of {found.id}`"
            )
        view = client.scenarios.runs.label(found.id, name, value, comment)
    show(view, output, labels_text(view))
