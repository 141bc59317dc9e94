"""`benchyard object`: store files on the server."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from benchyard.cli.connect import connect
from benchyard.cli.options import checked_input, name_values
from benchyard.cli.progress import Meter
from benchyard.cli.render import age, facts, output_option, pairs, show, show_many, size, when
from benchyard.cli.table import Narrow
from benchyard.client.bodies import Source, size_of
from benchyard.errors import UsageError
from benchyard.models.objects import ContentType, ObjectRequest, ObjectView

STANDARD = Path("-")
COLUMNS: Mapping[str, Callable[[ObjectView], object]] = {
    "ID": lambda view: view.id,
    "NAME": lambda view: view.name,
    "TYPE": lambda view: view.content_type,
    "STATE": lambda view: view.state.value,
    "SIZE": lambda view: size(view.size_bytes),
    "AGE": lambda view: age(view.create_time_ms),
}
NARROW = Narrow(shorten=["NAME"], drop=["AGE", "STATE"])
TYPES: Mapping[str, ContentType] = {
    ".tar.gz": "tgz",
    ".tgz": "tgz",
    ".tar": "tar",
    ".gz": "gzip",
    ".txt": "text",
    ".md": "text",
    ".json": "text",
    ".yaml": "text",
}


@click.group("object")
def object_() -> None:
    """Store files on the server.

    \b
      benchyard object upload data.tgz
      benchyard object download obj_... data.tgz
    """


@object_.command()
@click.argument("path", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True))
@click.option("--name", help="What to call it; the file's own name if not given.")
@click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="A label; repeatable.")
@click.option("--ttl", type=click.IntRange(min=1), metavar="SECONDS", help="Remove it after so long.")
@output_option
def upload(path: Path, name: str | None, metadata: Sequence[str], ttl: int | None, output: str) -> None:
    """Store a file, or standard input with `-`.

    \b
      benchyard object upload data.tgz --metadata for=tests
      git archive HEAD | benchyard object upload - --name source.tar
    """
    if path == STANDARD and not name:
        raise UsageError("standard input has no name; give it one with --name")
    called = name or path.name
    labels = name_values(metadata, "--metadata") or None
    with checked_input():
        request = ObjectRequest(
            name=called,
            content_type=content_type(called),
            metadata=labels,
            ttl_ms=ttl * 1000 if ttl else None,
        )
    source: Source = sys.stdin.buffer if path == STANDARD else path
    with connect() as client, Meter(called, size_of(source)) as meter:
        view = client.objects.upload(source, request, meter.add)
    show(view, output, f"{view.id}  {size(view.size_bytes)}")


@object_.command()
@click.argument("id")
@click.argument("path", required=False, type=click.Path(path_type=Path, allow_dash=True))
def download(id: str, path: Path | None) -> None:
    """Fetch an object into a file, or to standard output with `-`.

    \b
      benchyard object download obj_... data.tgz
      benchyard object download obj_... - | tar tz
    """
    with connect() as client:
        target = path or Path(client.objects.get(id).name.rpartition("/")[2] or id)
        if path is None and target.exists():
            raise UsageError(f"{target} is already here; name the file to write")
        with Meter(str(target)) as meter:
            if target == STANDARD:
                client.objects.download(id, sys.stdout.buffer, meter.add)
                sys.stdout.buffer.flush()
            else:
                client.objects.download(id, target, meter.add)
                click.echo(str(target), err=True)


@object_.command("list")
@click.option("--name", help="Only those of this name.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most so many.")
@output_option
def list_(name: str | None, limit: int, output: str) -> None:
    """List objects, newest first.

    \b
      benchyard object list
    """
    with connect() as client:
        show_many(client.objects.list(name, limit), output, COLUMNS, none="no objects", narrow=NARROW)


@object_.command("show")
@click.argument("id")
@output_option
def show_(id: str, output: str) -> None:
    """Show one object.

    \b
      benchyard object show obj_...
    """
    with connect() as client:
        view = client.objects.get(id)
    described = {
        "id": view.id,
        "name": view.name,
        "type": view.content_type,
        "state": view.state.value,
        "size": size(view.size_bytes),
        "created": when(view.create_time_ms),
        "removed after": when(view.delete_after_time_ms),
        "metadata": pairs(view.metadata),
    }
    show(view, output, facts(described))


@object_.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def delete(ids: Sequence[str]) -> None:
    """Remove objects.

    \b
      benchyard object delete obj_...
    """
    with connect() as client:
        for id in ids:
            client.objects.delete(id)
            click.echo(f"{id}  deleted")


def content_type(name: str) -> ContentType:
    """What a file of that name holds, as far as its ending tells."""
    for suffix, kind in TYPES.items():
        if name.endswith(suffix):
            return kind
    return "binary"
