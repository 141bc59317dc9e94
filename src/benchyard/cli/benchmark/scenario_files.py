"""Verbs of `benchyard scenario` that read or write files, or try scenarios."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from benchyard.benchmarks.files.scenario_file import NAME
from benchyard.cli.benchmark import validation
from benchyard.cli.benchmark.progress import TERMINAL
from benchyard.cli.connection import connect
from benchyard.cli.render import echo_sentence, output_option, show, wrap_details
from benchyard.client.benchmark_files.folders import check_folder_is_free
from benchyard.client.benchmark_files.templates import new_scenario

folder_argument = click.argument(
    "folder", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR"
)


new_folder_argument = click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")


private_option = click.option(
    "--private",
    is_flag=True,
    help="Also write sets whose authors ask not to publish them in plain text; keep the folder to yourself.",
)


@click.command()
@new_folder_argument
def new(folder: Path) -> None:
    """Make a folder with a scenario that works, to be changed into another.

    \b
      benchyard scenario new my-task
    """
    # No server is needed, or started.
    made = new_scenario(folder)
    echo_sentence(f"{made}  made; try it with `benchyard scenario validate {shlex.quote(str(folder))}`")


@click.command()
@folder_argument
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@output_option
def push(folder: Path, dry_run: bool, output: str) -> None:
    """Make the server hold the scenario of a folder.

    A scenario of the same name is changed: it keeps its id, and its revision counts up. Where nothing
    differs, nothing is done. A Dockerfile is built if it was not built before.

    \b
      benchyard scenario push my-task --dry-run
      benchyard scenario push my-task
    """
    with connect() as client:
        pushed = client.scenarios.push(folder, dry_run=dry_run, progress=TERMINAL)
    show(pushed.data(), output, "\n".join(wrap_details(pushed.lines())))


@click.command()
@click.argument("given", metavar="ID|NAME")
@new_folder_argument
@click.option("--force", is_flag=True, help="Overwrite what is in the folder.")
def pull(given: str, folder: Path, force: bool) -> None:
    """Write a scenario of the server as a folder; pushed again it changes nothing.

    \b
      benchyard scenario pull my-task copy-of-my-task
      benchyard scenario pull quickstart/fix-a-bug fix-a-bug
    """
    check_folder_is_free(folder, force=force)
    with connect() as client:
        view = client.scenarios.pull(given, folder, force=force)
    echo_sentence(f"{folder / NAME}  {view.id}, revision {view.revision}")


@click.command()
@click.argument("given", metavar="ID|NAME")
@new_folder_argument
@private_option
@click.option("--force", is_flag=True, help="Overwrite what is in the folder.")
@output_option
def export(given: str, folder: Path, private: bool, force: bool, output: str) -> None:
    """Write a scenario as a Harbor task folder.

    \b
      benchyard scenario export quickstart/fix-a-bug fix-a-bug
      benchyard benchmark import fix-a-bug
    """
    check_folder_is_free(folder, force=force)
    with connect() as client:
        done = client.scenarios.export(given, folder, private=private, force=force)
    show(done.data(), output, "\n".join(done.lines()))


@click.command()
@click.argument("given", nargs=-1, required=True, metavar="ID|NAME|PATH...")
@validation.validate_options
@output_option
def validate(given: Sequence[str], output: str, **options: Any) -> None:
    """Show that scenarios can be solved, and not by doing nothing.

    The reference output must score 1.0, doing nothing `nop_score` (0 by default), each twice with the
    same result. The strictest isolation in which this holds is found (answer, system, clean, live), and is
    stored with a scenario of the server. Exits with 1 if a scenario is not valid. A folder is tried as a
    scenario with a name of its own, which is archived afterwards.

    \b
      benchyard scenario validate my-task/
      benchyard scenario validate quickstart/fix-a-bug -o json
    """
    wanted = validation.validation_options(**options)
    with connect() as client:
        results = client.scenarios.validate(*given, **wanted)
    validation.show_validation(results, output)


@click.command("from-snapshot")
@click.argument("snapshot")
@new_folder_argument
@click.option("--working-directory", help="Where work is done; the user's home if not given.")
def from_snapshot(snapshot: str, folder: Path, working_directory: str | None) -> None:
    """Make a folder with a scenario that begins with a snapshot of a devbox prepared by hand.

    \b
      benchyard snapshot create box --name prepared
      benchyard scenario from-snapshot prepared my-task \\
          --working-directory /home/user/project
    """
    check_folder_is_free(folder, force=False)
    with connect() as client:
        made = client.scenarios.new_from_snapshot(snapshot, folder, working_directory=working_directory)
    echo_sentence(f"{made}  made; write problem.md, the scorers and reference.sh")
