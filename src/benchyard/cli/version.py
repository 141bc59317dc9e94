"""`benchyard version`."""

from importlib.metadata import version as installed_version

import click


@click.command()
def version() -> None:
    """Print the version of Benchyard.

    \b
      benchyard version
    """
    click.echo(installed_version("benchyard"))
