"""`benchyard snapshot`: keep the disks of devboxes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import click

from benchyard.cli.connection import connect
from benchyard.cli.image.transfer import export_archive, import_in_place
from benchyard.cli.options import IntRange, checked_input, name_values
from benchyard.cli.progress import ByteMeter, patience
from benchyard.cli.render import age, facts, output_option, pairs, show, show_many, size, when
from benchyard.cli.table import Narrow
from benchyard.client.bodies import size_of
from benchyard.client.lookup import find_devbox, find_snapshot_id
from benchyard.models.snapshots import (
    SnapshotImportRequest,
    SnapshotRequest,
    SnapshotStatusView,
    SnapshotView,
)

COLUMNS: Mapping[str, Callable[[SnapshotView], object]] = {
    "ID": lambda view: view.id,
    "NAME": lambda view: view.name,
    "DEVBOX": lambda view: view.source_devbox_id,
    "SIZE": lambda view: size(view.size_bytes),
    "AGE": lambda view: age(view.create_time_ms),
}
NARROW = Narrow(shorten=["NAME"], drop=["DEVBOX", "AGE"])


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
@click.option("--message", help="A description of it.")
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
    with connect() as client, patience(f"keeping the disk of {devbox}"):
        made = client.snapshots.create(find_devbox(client, devbox).id, request)
    show(made, output, f"{made.id}  {size(made.size_bytes)}".rstrip())


@snapshot.command("list")
@click.option("--devbox", help="Only those of one devbox.")
@click.option("--limit", type=IntRange(min=1), default=100, show_default=True, help="List at most this many.")
@click.option("--tree", is_flag=True, help="Show each snapshot below the one it was made from, oldest first.")
@output_option
def list_(devbox: str | None, limit: int, tree: bool, output: str) -> None:
    """List snapshots, newest first.

    \b
      benchyard snapshot list
      benchyard snapshot list --tree
      benchyard snapshot list --devbox box -o json
    """
    with connect() as client:
        devbox_id = find_devbox(client, devbox).id if devbox else None
        found = client.snapshots.list(devbox_id, limit)
        shown = branches(found) if tree else [(0, view) for view in found]
        depths = {view.id: depth for depth, view in shown}
        indented = {**COLUMNS, "ID": lambda view: "  " * depths[view.id] + view.id}
        views = [view for _, view in shown]
        none = "no snapshots; make one with `benchyard devbox snapshot ID`"
        show_many(views, output, indented, none=none, narrow=NARROW)


def branches(found: Iterable[SnapshotView]) -> list[tuple[int, SnapshotView]]:
    """Return every snapshot below the one its devbox started from, oldest first, and its depth."""
    views = sorted(found, key=lambda view: view.create_time_ms)
    known = {view.id for view in views}
    below: dict[str | None, list[SnapshotView]] = {}
    for view in views:
        parent = view.source_snapshot_id if view.source_snapshot_id in known else None
        below.setdefault(parent, []).append(view)
    ordered: list[tuple[int, SnapshotView]] = []
    pending = [(0, view) for view in reversed(below.get(None, []))]
    while pending:
        depth, view = pending.pop()
        ordered.append((depth, view))
        pending += [(depth + 1, child) for child in reversed(below.get(view.id, []))]
    return ordered


@snapshot.command("show")
@click.argument("id")
@output_option
def show_(id: str, output: str) -> None:
    """Show one snapshot, and whether it is complete.

    \b
      benchyard snapshot show snp_...
    """
    with connect() as client:
        id = find_snapshot_id(client, id)
        view = client.snapshots.status(id)
    show(view, output, _description(id, view))


@snapshot.command()
@click.argument("id")
@click.argument("path", type=click.Path(path_type=Path))
def export(id: str, path: Path) -> None:
    """Write a snapshot to a file as an OCI archive; to standard output with `-`.

    One that stands on this machine's own system is written with that system: it may be gigabytes.

    \b
      benchyard snapshot export snp_... ready.oci
      podman load -i ready.oci
    """
    with connect() as client:
        export_archive(client.snapshots.export, find_snapshot_id(client, id), path)


@snapshot.command("import")
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", help="A name for it; the one in the archive if not given.")
@click.option("--detach", is_flag=True, help="Do not wait: once all was sent, the server goes on alone.")
@output_option
def import_(path: Path, name: str | None, detach: bool, output: str) -> None:
    """Make a snapshot of an OCI archive, of this or of another machine.

    It is sent to the server, unless it lies in a folder that the server has as `--import-from`. Without
    `--detach`, ending this command ends the import.

    \b
      benchyard snapshot import ready.oci --name ready
    """
    with checked_input():
        SnapshotImportRequest(name=name)
    with connect() as client:

        def read(place: str) -> SnapshotView:
            return client.snapshots.import_path(place, name, detach=detach)

        made = import_in_place(client, path, read)
        if made is None:
            then = None if detach else f"importing {path}: the server reads what was sent"
            with ByteMeter(str(path), size_of(path), then) as meter:
                made = client.snapshots.import_archive(path, name, meter.add, detach=detach)
    if detach:
        click.echo(f"`benchyard snapshot show {made.id}` tells how far it is", err=True)
    show(made, output, f"{made.id}  {size(made.size_bytes)}".rstrip())


@snapshot.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def delete(ids: Sequence[str]) -> None:
    """Remove snapshots.

    \b
      benchyard snapshot delete snp_...
    """
    with connect() as client:
        for id in [find_snapshot_id(client, given) for given in ids]:
            client.snapshots.delete(id)
            click.echo(f"{id}  deleted")


def _description(id: str, view: SnapshotStatusView) -> str:
    kept = view.snapshot
    details = (
        {
            "name": kept.name,
            "message": kept.commit_message,
            "devbox": kept.source_devbox_id,
            "branched from": kept.source_snapshot_id,
            "blueprint": kept.source_blueprint_id,
            "size": size(kept.size_bytes),
            "created": when(kept.create_time_ms),
            "metadata": pairs(kept.metadata),
        }
        if kept
        else {}
    )
    return facts({"id": id, "status": view.status.value, "error": view.error_message, **details})
