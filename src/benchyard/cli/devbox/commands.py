"""`benchyard devbox`: create, use and end devboxes."""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

import click

from benchyard.cli.connection import connect
from benchyard.cli.lazy_group import Noun
from benchyard.cli.options import IntRange, checked_input
from benchyard.cli.progress import patience
from benchyard.cli.render import age, echo_sentence, facts, output_option, pairs, show, show_many, size, when
from benchyard.cli.table import Narrow
from benchyard.client.client import Client
from benchyard.client.lookup import find_devbox
from benchyard.client.plain_text import clean
from benchyard.client.resources.devboxes import ENDED, why_ended
from benchyard.errors import UsageError
from benchyard.models.devboxes import DevboxStatus, DevboxView
from benchyard.models.executions import LogLine
from benchyard.models.snapshots import SnapshotRequest

FOLLOW_SECONDS = 1.0
COLUMNS: Mapping[str, Callable[[DevboxView], object]] = {
    "ID": lambda view: view.id,
    "NAME": lambda view: view.name,
    "STATUS": lambda view: view.status.value,
    "AGE": lambda view: age(view.create_time_ms),
    "FROM": lambda view: view.snapshot_id or view.blueprint_id or "host",
}
NARROW = Narrow(shorten=["NAME"], drop=["AGE", "FROM"])
_ELSEWHERE = {
    "cp": "benchyard.cli.devbox.copy:cp",
    "create": "benchyard.cli.devbox.create:create",
    "exec": "benchyard.cli.devbox.exec:exec_",
    "forward": "benchyard.cli.devbox.access:forward",
    "shell": "benchyard.cli.devbox.shell:shell",
    "ssh": "benchyard.cli.devbox.access:ssh",
    "ssh-config": "benchyard.cli.devbox.access:ssh_config",
    "ssh-proxy": "benchyard.cli.devbox.access:ssh_proxy",
    "tunnel": "benchyard.cli.devbox.access:tunnel",
}


@click.group(cls=Noun, places=_ELSEWHERE)
def devbox() -> None:
    """Create, use and end devboxes.

    \b
      benchyard devbox create --name box
      benchyard devbox exec box -- 'uname -a'
      benchyard devbox shutdown box
    """


@devbox.command("list")
@click.option(
    "--status",
    type=click.Choice([each.value for each in DevboxStatus]),
    metavar="STATUS",
    help=f"Only those with this status: {', '.join(each.value for each in DevboxStatus)}.",
)
@click.option("--all", "show_all", is_flag=True, help="Also list those that have ended.")
@click.option("--limit", type=IntRange(min=1), default=100, show_default=True, help="List at most this many.")
@output_option
def list_(status: str | None, show_all: bool, limit: int, output: str) -> None:
    """List devboxes, newest first; those that have ended only with --all or --status.

    \b
      benchyard devbox list
      benchyard devbox list --status running -o json
    """
    with connect() as client:
        wanted = DevboxStatus(status) if status else None
        found = client.devboxes.list(wanted, limit if show_all or wanted else None)
        chosen = (view for view in found if show_all or wanted or view.status not in ENDED)
        none = "no devboxes; make one with `benchyard devbox create`"
        show_many(islice(chosen, limit), output, COLUMNS, none=none, narrow=NARROW)


@devbox.command("show")
@click.argument("id")
@output_option
def show_(id: str, output: str) -> None:
    """Show one devbox, by id or by name.

    \b
      benchyard devbox show box
      benchyard devbox show box -o yaml
    """
    with connect() as client:
        view = find_devbox(client, id)
    show(view, output, _description(view))


@devbox.command("logs")
@click.argument("id")
@click.option("-f", "--follow", is_flag=True, help="Go on until the devbox has ended.")
@click.option("--execution", help="Only lines of this execution.")
@click.option("--shell", "shell_name", help="Only lines of this named shell.")
@output_option
def logs(id: str, follow: bool, execution: str | None, shell_name: str | None, output: str) -> None:
    """Print the log of a devbox, oldest line first.

    \b
      benchyard devbox logs box
      benchyard devbox logs box -f
    """
    if follow and output != "text":
        raise UsageError("--follow prints text only; leave out -o")
    with connect() as client:
        view = find_devbox(client, id)
        lines = client.logs.list(view.id, execution, shell_name)
        if output == "text":
            print_lines(lines)
        else:
            show_many(lines, output, {})
        while follow and client.devboxes.get(view.id).status not in ENDED:
            time.sleep(FOLLOW_SECONDS)
            later = client.logs.list(view.id, execution, shell_name)
            print_lines(later[len(lines) :])
            lines = later


@devbox.command("snapshot")
@click.argument("id")
@click.option("--name", help="A name for it.")
@click.option("--message", help="A description of it.")
@output_option
def snapshot(id: str, name: str | None, message: str | None, output: str) -> None:
    """Keep the disk of a devbox, so that others can start from it.

    \b
      benchyard devbox snapshot box --name ready
      benchyard devbox create --snapshot snp_...
    """
    with checked_input():
        request = SnapshotRequest(name=name, commit_message=message)
    with connect() as client:
        made = client.snapshots.create(find_devbox(client, id).id, request)
    show(made, output, f"{made.id}  {size(made.size_bytes)}".rstrip())


@devbox.command("suspend")
@click.argument("id")
@output_option
def suspend(id: str, output: str) -> None:
    """Stop all processes of a devbox and keep its disk.

    \b
      benchyard devbox suspend box
    """
    with connect() as client:
        with patience(f"suspending {id}"):
            view = client.devboxes.suspend(find_devbox(client, id).id)
        _show_status(view, output)


@devbox.command("resume")
@click.argument("id")
@output_option
def resume(id: str, output: str) -> None:
    """Start a suspended devbox again; its processes must be started anew.

    \b
      benchyard devbox resume box
    """
    with connect() as client:
        with patience(f"resuming {id}"):
            view = client.devboxes.resume(find_devbox(client, id).id)
        _show_status(view, output)


@devbox.command("shutdown")
@click.argument("ids", nargs=-1, metavar="ID...")
@click.option("--all", "every", is_flag=True, help="Shut down all devboxes of this server.")
@click.option("--force", is_flag=True, help="Shut down even while a snapshot is being made.")
@output_option
def shutdown(ids: Sequence[str], every: bool, force: bool, output: str) -> None:
    """End devboxes and remove their disks.

    \b
      benchyard devbox shutdown box
      benchyard devbox shutdown --all
    """
    if bool(ids) == every:
        raise UsageError("give the ids of the devboxes to end, or --all")
    with connect() as client:
        chosen = _living(client) if every else [find_devbox(client, id) for id in ids]
        ended = [client.devboxes.shutdown(view.id, force=force) for view in chosen]
    show_many(ended, output, {"ID": COLUMNS["ID"], "STATUS": COLUMNS["STATUS"]}, none="no devbox was running")


def _living(client: Client) -> list[DevboxView]:
    return [view for view in client.devboxes.list() if view.status not in ENDED]


def _show_status(view: DevboxView, output: str) -> None:
    show(view, output, f"{view.id}  {view.status.value}")


def print_lines(lines: Sequence[LogLine]) -> None:
    """Print a log for people: what the devbox printed as it came, what the server says of it in sentences."""
    for line in lines:
        where = f"{line.source}[{line.shell_name}]" if line.shell_name else line.source
        before = f"{when(line.timestamp_ms)} {clean(where)}:"
        if line.exit_code is not None:
            # The text beside an exit status is a sentence of the server, not output.
            hint = f": {clean(line.message)}" if line.message else ""
            echo_sentence(f"{before} exit {line.exit_code}{hint}")
            continue
        said = " ".join(part for part in (line.message, f"$ {line.cmd}" if line.cmd else None) if part)
        click.echo(f"{before} {clean(said)}")


def _description(view: DevboxView) -> str:
    launch = view.launch_parameters
    resources = launch.resource_size_request
    user = launch.user_parameters
    return facts(
        {
            "id": view.id,
            "name": view.name,
            "status": view.status.value,
            "why": why_ended(view) if view.status in ENDED else None,
            "created": when(view.create_time_ms),
            "ended": when(view.end_time_ms),
            "image": view.blueprint_id,
            "snapshot": view.snapshot_id,
            "size": resources.value if resources else None,
            "user": user.username if user else None,
            "keep alive": f"{launch.keep_alive_time_seconds} s" if launch.keep_alive_time_seconds else None,
            "metadata": pairs(view.metadata),
        }
    )
