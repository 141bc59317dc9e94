"""`benchyard server`: look at or stop the server of this user."""

import os
from pathlib import Path

import click

from benchyard.cli.render import facts, output_option, show
from benchyard.client import local
from benchyard.client.locate import configured_server, recorded_pid, running_server
from benchyard.errors import ServerUnreachable
from benchyard.settings import default_data_folder

data_option = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Its data folder. Default: $BENCHYARD_DATA, else benchyard in your user data folder.",
)


@click.group()
def server() -> None:
    """Look at or stop the server of this user on this machine.

    \b
      benchyard server status
      benchyard server stop
    """


@server.command()
@data_option
@output_option
def status(data: Path | None, output: str) -> None:
    """Say whether a server runs, where, and which one commands use.

    \b
      benchyard server status
    """
    folder = (data or default_data_folder(os.environ)).absolute()
    configured = configured_server(os.environ)
    running = running_server(folder)
    found = {
        "status": "running" if running else "stopped",
        "url": running.url if running else None,
        "process": recorded_pid(folder) if running else None,
        "data": str(folder),
        "configured": configured.url if configured else None,
    }
    show({name: value for name, value in found.items() if value is not None}, output, facts(found))
    if running is None:
        raise click.exceptions.Exit(ServerUnreachable.exit_code)


@server.command()
@data_option
def stop(data: Path | None) -> None:
    """Stop the server; devboxes live on, and the next server takes them up again.

    \b
      benchyard server stop
    """
    folder = (data or default_data_folder(os.environ)).absolute()
    pid = local.stop(folder)
    click.echo(f"no server runs on {folder}" if pid is None else f"stopped (process {pid})", err=pid is None)
