"""`benchyard image`: what devboxes start from."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from benchyard.cli.archive import packed
from benchyard.cli.connect import connect
from benchyard.cli.image_keep import alias, gc, pin, pull, stand_in, unalias, unpin
from benchyard.cli.options import checked_input
from benchyard.cli.progress import Meter, spinner
from benchyard.cli.render import age, facts, output_option, show, show_many, size, when
from benchyard.cli.table import Narrow
from benchyard.cli.transfer import exported, imported_in_place
from benchyard.client.bodies import size_of
from benchyard.client.client import Client
from benchyard.models.images import DebianImageRequest, ImageImportRequest, ImageView

COLUMNS: Mapping[str, Callable[[ImageView], object]] = {
    "ID": lambda view: view.id,
    "NAME": lambda view: view.name,
    "KIND": lambda view: "stand-in" if view.stands_for else view.kind,
    "LAYERS": lambda view: view.layers,
    "SIZE": lambda view: size(view.size_bytes),
    "AGE": lambda view: age(view.create_time_ms),
}
NARROW = Narrow(shorten=["NAME"], drop=["AGE", "LAYERS"])
SUFFIXES = (".tar.gz", ".tar.xz", ".tar.zst", ".tar.bz2", ".tgz", ".tar", ".oci")


@click.group()
def image() -> None:
    """Import and list what devboxes start from; the default, `host`, is this machine's own system.

    \b
      benchyard image debian --name bookworm
      benchyard devbox create --image bookworm
    """


for command in (pull, stand_in, alias, unalias, pin, unpin, gc):
    image.add_command(command)


@image.command("list")
@output_option
def list_(output: str) -> None:
    """List images, newest first.

    \b
      benchyard image list
    """
    with connect() as client:
        show_many(client.images.list(), output, COLUMNS, narrow=NARROW)


@image.command("show")
@click.argument("id")
@output_option
def show_(id: str, output: str) -> None:
    """Show one image, by id or by name.

    \b
      benchyard image show host
    """
    with connect() as client:
        _show(client.images.get(id), output)


@image.command("import")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--name", help="What to call it; the file's own name if not given.")
@click.option("--detach", is_flag=True, help="Do not wait: once all was sent, the server goes on alone.")
@output_option
def import_(path: Path, name: str | None, detach: bool, output: str) -> None:
    """Make an image of a root filesystem folder, a tarball of one, or an OCI or docker archive.

    It is sent to the server, unless that was started with `--import-from` a folder in which it lies. Without
    `--detach` the import ends when this command is ended.

    \b
      benchyard image import rootfs.tar.xz --name mine
      docker save python:3.12 -o python.tar && benchyard image import python.tar \\
          --name python
    """
    chosen = name or _stem(path)
    with checked_input():
        ImageImportRequest(name=chosen)
    with connect() as client:

        def read(place: str) -> ImageView:
            return client.images.import_path(place, chosen, detach=detach)

        made = imported_in_place(client, path, read) or _uploaded(client, path, chosen, detach=detach)
    if made.kind == "importing":
        click.echo(f"`benchyard image show {chosen}` tells when it is there", err=True)
    _show(made, output)


@image.command()
@click.argument("id")
@click.argument("path", type=click.Path(path_type=Path))
def export(id: str, path: Path) -> None:
    """Write an image to a file as an OCI archive; to standard output with `-`.

    \b
      benchyard image export mine mine.oci
      podman load -i mine.oci
    """
    with connect() as client:
        exported(client.images.export, id, path)


@image.command()
@click.option("--suite", default="bookworm", show_default=True, help="Codename of the Debian release.")
@click.option("--name", help="What to call it; the suite's name if not given.")
@output_option
def debian(suite: str, name: str | None, output: str) -> None:
    """Make an image of a fresh Debian; takes minutes and needs the network.

    \b
      benchyard image debian
      benchyard image debian --suite trixie --name trixie
    """
    with checked_input():
        request = DebianImageRequest(suite=suite, name=name)
    with connect() as client, spinner(f"making Debian {suite}"):
        made = client.images.make_debian(request)
    _show(made, output)


@image.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def delete(ids: Sequence[str]) -> None:
    """Remove images that nothing is built on.

    \b
      benchyard image delete mine
    """
    with connect() as client:
        for id in ids:
            client.images.delete(client.images.get(id).id)
            click.echo(f"{id}  deleted")


def _uploaded(client: Client, path: Path, name: str, *, detach: bool) -> ImageView:
    then = None if detach else f"importing {name}: the server reads what was sent"
    with Meter(str(path), size_of(path), then) as meter:
        if not path.is_dir():
            return client.images.import_archive(path, name, meter.add, detach=detach)
        # A root filesystem is one with the owners of its files.
        with packed(path, keep_owners=True) as tar:
            meter.expect(os.fstat(tar.fileno()).st_size)
            return client.images.import_archive(tar, name, meter.add, detach=detach)


def _stem(path: Path) -> str:
    name = path.resolve().name
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def _show(view: ImageView, output: str) -> None:
    described = {
        "id": view.id,
        "name": view.name,
        "kind": view.kind,
        "layers": view.layers,
        "size": size(view.size_bytes),
        "created": when(view.create_time_ms),
        "used": when(view.last_used_ms),
        "stands in for": view.stands_for,
        "pinned": "yes" if view.pinned else None,
        "built on": view.parent,
    }
    show(view, output, facts(described))
