"""`benchyard server`: look at or stop the server of this user."""

import os
from pathlib import Path

import click

from benchyard.cli.confirmation import yes_option
from benchyard.cli.render import facts, output_option, show
from benchyard.cli.server_backup import backup, restore
from benchyard.cli.server_care import disk, gc, tell_jobs
from benchyard.cli.server_unit import unit
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
    """Look after a server: see what runs, what it keeps, back it up, stop it.

    \b
      benchyard server status
      benchyard server disk
      benchyard server stop
    """


for each in (disk, gc, backup, restore, unit):
    server.add_command(each)


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
@yes_option
def stop(data: Path | None, yes: bool) -> None:
    """Stop the server; devboxes live on, and the next server takes them and its jobs up again.

    \b
      benchyard server stop
      benchyard server stop --yes
    """
    folder = (data or default_data_folder(os.environ)).absolute()
    running = running_server(folder)
    if running is not None:
        tell_jobs(running, yes=yes)
    pid = local.stop(folder)
    click.echo(f"no server runs on {folder}" if pid is None else f"stopped (process {pid})", err=pid is None)
