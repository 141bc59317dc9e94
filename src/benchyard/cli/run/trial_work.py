"""`benchyard trial diff` and `open`: the work of a trial, as a diff and as a devbox."""

import sys
from collections.abc import Iterator
from typing import Any

import click

from benchyard.cli.connection import connect
from benchyard.cli.notices import tell
from benchyard.cli.progress import spinner
from benchyard.cli.render import command_text, output_option, print_paged, show, size, table_lines, write_all
from benchyard.cli.table import Narrow
from benchyard.client.client import Client
from benchyard.client.plain_text import clean
from benchyard.client.resources.work import WorkVerbs
from benchyard.models.results.work import WorkFile, WorkFilesView

RUN_PREFIX = "scr_"
_MOST_SHOWN = 10_000
_SIGNS = {"added": "A", "modified": "M", "deleted": "D"}


@click.command()
@click.argument("given", metavar="TRIAL")
@click.argument("path", required=False)
@click.option("--stat", is_flag=True, help="Only list the paths, with sizes before and after.")
@click.option("--all", "show_all", is_flag=True, help="Also what was changed beside the work.")
@output_option
def diff(given: str, path: str | None, stat: bool, show_all: bool, output: str) -> None:
    """Show what a trial changed: the work against the start, as a unified diff.

    TRIAL is the id of a trial, or of a scenario run. The work is what is below the working directory, without
    hidden files of the home and git's own; --all shows everything. With PATH, only this and what is below it;
    a relative one starts at the working directory. In a terminal it goes through your pager (PAGER).

    \b
      benchyard trial diff trl_4kY... --stat
      benchyard trial diff trl_4kY... src/main.py
      benchyard trial diff trl_4kY... | git apply
    """
    with connect() as client:
        work, scope = _verbs(client, given), "all" if show_all else "work"
        if stat or output != "text":
            found = work.files(given, path=path, scope=scope, limit=_MOST_SHOWN)
            if output == "text":
                print_paged(_stat_lines(found))
            else:
                show(found, output, "")
            return
        text = work.diff(given, path=path, scope=scope)
    if not text:
        tell("nothing was changed" + ("" if show_all else "; --all shows what was changed beside the work"))
    elif sys.stdout.isatty():
        print_paged(clean(line) for line in text.split("\n")[:-1])
    else:
        # As it is, for git and patch.
        write_all(sys.stdout.buffer, text.encode())


@click.command("open")
@click.argument("given", metavar="TRIAL")
@click.option("--name", help="Name of the devbox.")
@output_option
def open_(given: str, name: str | None, output: str) -> None:
    """Start a devbox on what a trial left on its disk, to look around and to try things.

    TRIAL is the id of a trial, or of a scenario run. The devbox has neither the agent's secrets nor its
    tokens, its network and lifetime are those of any devbox, and the trial stays as it is.

    \b
      benchyard trial open trl_4kY...
      benchyard trial open trl_4kY... --name autopsy
    """
    with connect() as client, spinner("starting a devbox"):
        devbox = _verbs(client, given).open_and_await(given, name)
    lines = [devbox.id, "", "next"]
    for verb in ("shell", "shutdown"):
        lines += command_text(f"benchyard devbox {verb} {devbox.id}", "  ")
    show(devbox, output, "\n".join(lines))


def _verbs(client: Client, given: str) -> WorkVerbs[Any]:
    return client.scenarios.runs if given.startswith(RUN_PREFIX) else client.trials


def _stat_lines(found: WorkFilesView) -> Iterator[str]:
    """Yield the changed paths as a table, and a line on the paths left out."""
    rows = [[_SIGNS[file.change], _kind(file), _told_size(file), clean(file.path)] for file in found.files]
    if rows:
        yield from table_lines(["", "TYPE", "SIZE", "PATH"], rows, Narrow(["PATH"], ["TYPE"]))
    else:
        yield "nothing was changed"
    beside = found.beside_count - sum(not file.is_work for file in found.files)
    if found.has_more:
        yield f"... and {found.total_count - len(found.files)} more; name a PATH"
    if beside:
        what = "1 more path was" if beside == 1 else f"{beside} more paths were"
        yield f"{what} changed beside the work; --all shows them"
    if found.truncated:
        yield f"there may be more: {found.truncated}"
    if found.start == "image":
        yield "compared with the image: files put in place before the work count too"


def _kind(file: WorkFile) -> str:
    return file.type or file.type_before or ""


def _told_size(file: WorkFile) -> str:
    if file.change == "modified" and file.mode != file.mode_before and file.size == file.size_before:
        return f"mode {file.mode_before or 0:o} -> {file.mode or 0:o}"
    if _kind(file) == "folder":
        return ""
    if file.change == "modified":
        return f"{size(file.size_before)} -> {size(file.size)}"
    return size(file.size if file.change == "added" else file.size_before)
