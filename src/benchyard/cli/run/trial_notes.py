"""`benchyard trial tag`, `note` and `label`: people's remarks on trials."""

from collections.abc import Sequence

import click

from benchyard.cli.connection import connect
from benchyard.cli.options import checked_input
from benchyard.cli.render import output_option, show
from benchyard.client.plain_text import clean
from benchyard.errors import UsageError
from benchyard.models.runs import BenchmarkRunView, ScenarioRunView
from benchyard.models.trials import TrialView


@click.command()
@click.argument("given", metavar="TRIAL")
@click.argument("tags", metavar="TAG...", nargs=-1, required=True)
@click.option("--remove", is_flag=True, help="Remove the tags instead.")
@output_option
def tag(given: str, tags: Sequence[str], remove: bool, output: str) -> None:
    """Tag a trial, to find it again: `trial list --tag TAG` lists those of all jobs.

    \b
      benchyard trial tag trl_4kY... flaky to-discuss
      benchyard trial tag trl_4kY... flaky --remove
    """
    with connect() as client, checked_input():
        view = client.trials.annotate(
            given, add_tags=() if remove else tags, remove_tags=tags if remove else ()
        )
    show(view, output, tags_text(view))


@click.command()
@click.argument("given", metavar="TRIAL")
@click.argument("text")
@output_option
def note(given: str, text: str, output: str) -> None:
    """Write a note on a trial, in place of an earlier one; an empty TEXT removes it.

    \b
      benchyard trial note trl_4kY... "gave up after the first failing test"
      benchyard trial note trl_4kY... ""
    """
    with connect() as client, checked_input():
        view = client.trials.annotate(given, note=text)
    show(view, output, note_text(view))


@click.command()
@click.argument("given", metavar="TRIAL")
@click.argument("verdict", metavar="NAME=VALUE")
@click.option("--comment", metavar="TEXT", help="Reason for it.")
@output_option
def label(given: str, verdict: str, comment: str | None, output: str) -> None:
    """Give your verdict on a trial, under the name of your key: judges are checked against people's.

    A second verdict of the same name replaces your first; `NAME=` takes it back.

    \b
      benchyard trial label trl_4kY... correct=yes
      benchyard trial label trl_4kY... reward-hack=no --comment "wrote real code"
      benchyard trial label trl_4kY... correct=
    """
    name, value = verdict_of(verdict)
    with connect() as client, checked_input():
        view = client.trials.label(given, name, value, comment)
    show(view, output, labels_text(view))


def verdict_of(text: str) -> tuple[str, str | None]:
    """Return the name and the value of a verdict, None to take it back; raises UsageError for other texts."""
    name, sign, value = text.partition("=")
    if not sign:
        raise UsageError(f"{text[:100]!r} is no verdict; write NAME=VALUE, such as correct=yes")
    return name, value or None


def tags_text(view: TrialView | ScenarioRunView | BenchmarkRunView) -> str:
    """Return the tags as a line."""
    return f"{view.id}  {' '.join(map(clean, view.tags)) or 'no tags'}"


def note_text(view: TrialView | ScenarioRunView | BenchmarkRunView) -> str:
    """Return the note."""
    return f"{view.id}  {clean(view.note) if view.note else 'no note'}"


def labels_text(view: TrialView | ScenarioRunView) -> str:
    """Return the verdicts of people below their number."""
    return "\n".join([f"{view.id}  {len(view.labels)} labels", *label_lines(view)])


def label_lines(trial: TrialView | ScenarioRunView) -> list[str]:
    """Return the verdicts of people, a line each."""
    return [
        f"{each.name}={clean(each.value)} by {clean(each.key_name)}"
        + (f": {clean(each.comment)}" if each.comment else "")
        for each in trial.labels
    ]
