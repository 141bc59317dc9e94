"""`benchyard snapshot`: keep the disks of devboxes."""

from collections.abc import Callable, Mapping, Sequence

import click

from benchyard.cli.connect import connect
from benchyard.cli.names import devbox_named, snapshot_named
from benchyard.cli.options import checked_input, name_values
from benchyard.cli.render import age, facts, output_option, pairs, show, show_many, size, when
from benchyard.models.snapshots import SnapshotRequest, SnapshotStatusView, SnapshotView

COLUMNS: Mapping[str, Callable[[SnapshotView], object]] = {
    "ID": lambda view: view.id,
    "NAME": lambda view: view.name,
    "DEVBOX": lambda view: view.source_devbox_id,
    "SIZE": lambda view: size(view.size_bytes),
    "AGE": lambda view: age(view.create_time_ms),
}


@click.group()
def snapshot() -> None:
    """Keep the disks of devboxes, so that others can start from them.

    \b
      benchyard snapshot create box --name ready
      benchyard devbox create --snapshot snp_...
    """


@snapshot.command()
@click.argument("devbox")
@click.option("--name", help="A name for it.")
@click.option("--message", help="What it is.")
@click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="A label; repeatable.")
@output_option
def create(devbox: str, name: str | None, message: str | None, metadata: Sequence[str], output: str) -> None:
    """Keep the disk of a devbox and wait until it is safe.

    \b
      benchyard snapshot create box --name ready --message 'tools installed'
    """
    labels = name_values(metadata, "--metadata") or None
    with checked_input():
        request = SnapshotRequest(name=name, commit_message=message, metadata=labels)
    with connect() as client:
        made = client.snapshots.create(devbox_named(client, devbox).id, request)
    show(made, output, f"{made.id}  {size(made.size_bytes)}".rstrip())


@snapshot.command("list")
@click.option("--devbox", help="Only those of one devbox.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most so many.")
@output_option
def list_(devbox: str | None, limit: int, output: str) -> None:
    """List snapshots, newest first.

    \b
      benchyard snapshot list
      benchyard snapshot list --devbox box -o json
    """
    with connect() as client:
        devbox_id = devbox_named(client, devbox).id if devbox else None
        found = client.snapshots.list(devbox_id, limit)
        show_many(found, output, COLUMNS, none="no snapshots; make one with `benchyard devbox snapshot ID`")


@snapshot.command("show")
@click.argument("id")
@output_option
def show_(id: str, output: str) -> None:
    """Show one snapshot and how far it is.

    \b
      benchyard snapshot show snp_...
    """
    with connect() as client:
        id = snapshot_named(client, id)
        view = client.snapshots.status(id)
    show(view, output, _described(id, view))


@snapshot.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def delete(ids: Sequence[str]) -> None:
    """Remove snapshots.

    \b
      benchyard snapshot delete snp_...
    """
    with connect() as client:
        for id in [snapshot_named(client, given) for given in ids]:
            client.snapshots.delete(id)
            click.echo(f"{id}  deleted")


def _described(id: str, view: SnapshotStatusView) -> str:
    kept = view.snapshot
    details = (
        {
            "name": kept.name,
            "message": kept.commit_message,
            "devbox": kept.source_devbox_id,
            "size": size(kept.size_bytes),
            "created": when(kept.create_time_ms),
            "metadata": pairs(kept.metadata),
        }
        if kept
        else {}
    )
    return facts({"id": id, "status": view.status.value, "error": view.error_message, **details})
