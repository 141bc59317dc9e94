"""`benchyard job tag` and `job note`: what people note about jobs."""

from collections.abc import Sequence

import click

from benchyard.cli.connection import connect
from benchyard.cli.job.names import find_job
from benchyard.cli.options import checked_input
from benchyard.cli.render import output_option, show
from benchyard.client.plain_text import clean


@click.command()
@click.argument("given", metavar="ID|NAME")
@click.argument("tags", metavar="TAG...", nargs=-1, required=True)
@click.option("--remove", is_flag=True, help="Remove the tags instead.")
@output_option
def tag(given: str, tags: Sequence[str], remove: bool, output: str) -> None:
    """Tag a job, to find it again: `job list --all --tag TAG`.

    \b
      benchyard job tag my-job release-2 candidate
      benchyard job tag my-job candidate --remove
    """
    with connect() as client, checked_input():
        view = client.jobs.annotate(
            find_job(client, given, scenarios=False).id,
            add_tags=() if remove else tags,
            remove_tags=tags if remove else (),
        )
    show(view, output, f"{view.id}  {' '.join(map(clean, view.tags)) or 'no tags'}")


@click.command()
@click.argument("given", metavar="ID|NAME")
@click.argument("text")
@output_option
def note(given: str, text: str, output: str) -> None:
    """Write a note on a job, in place of an earlier one; an empty TEXT removes it.

    \b
      benchyard job note my-job "with the new prompt; provider was slow"
    """
    with connect() as client, checked_input():
        view = client.jobs.annotate(find_job(client, given, scenarios=False).id, note=text)
    show(view, output, f"{view.id}  {clean(view.note) if view.note else 'no note'}")
