"""`benchyard server`: look at or stop the server of this user."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

import click

from benchyard.cli.confirmation import yes_option
from benchyard.cli.connect import find_or_start
from benchyard.cli.render import facts, output_option, show
from benchyard.cli.server_backup import backup, restore
from benchyard.cli.server_care import delete, disk, gc, tell_jobs
from benchyard.cli.server_unit import unit
from benchyard.client import local
from benchyard.client.locate import PAIRS, configured_server, recorded_pid, running_server
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
      eval "$(benchyard server env)"
      benchyard server stop
    """


for each in (delete, disk, gc, backup, restore, unit):
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
@click.option(
    "--shell",
    type=click.Choice(["sh", "fish"]),
    default="sh",
    show_default=True,
    help="The shell to write for; sh is for bash and zsh too.",
)
@data_option
@output_option
def env(shell: str, data: Path | None, output: str) -> None:
    """Print the variables that lead SDKs and other programs to the server: its URL and key.

    They are those of this SDK and of the official one (runloop_api_client==1.32.0: 2.0 and later have no
    benchmarks). A server is started if none runs.
    Anyone who sees this output can use the server.

    \b
      eval "$(benchyard server env)"
      benchyard server env --shell fish | source
    """
    environ: Mapping[str, str] = os.environ
    if data is not None:
        configured = {name for pair in PAIRS for name in pair}
        environ = {name: value for name, value in os.environ.items() if name not in configured}
        environ = {**environ, "BENCHYARD_DATA": str(data.absolute())}
    found = find_or_start(environ)
    variables = {
        name: value for pair in PAIRS for name, value in zip(pair, (found.url, found.key), strict=True)
    }
    form = "set -gx {} {};" if shell == "fish" else "export {}={}"
    lines = [form.format(name, shlex.quote(value)) for name, value in variables.items()]
    if found.trusted:
        lines.append(f"# clients must trust its certificate: {found.trusted}")
    show(variables, output, "\n".join(lines))


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
