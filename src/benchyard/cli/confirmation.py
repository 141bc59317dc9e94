"""Asks before something is deleted for good."""

import sys

import click

from benchyard.errors import UsageError

yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")


def confirm(question: str, *, yes: bool) -> None:
    """Ask in a terminal and end the command unless the answer is yes; elsewhere `--yes` has to be given."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} There is no terminal to ask in: give --yes")
    if not click.confirm(question, err=True):
        click.echo("nothing was done", err=True)
        raise click.exceptions.Exit(1)
