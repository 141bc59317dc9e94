"""`benchyard image`: images for devboxes: imports, aliases, pins, pulls and removal."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from benchyard.cli.connection import connect
from benchyard.cli.image.transfer import export_archive, import_in_place
from benchyard.cli.options import checked_input, size_in_bytes
from benchyard.cli.progress import ByteMeter, spinner
from benchyard.cli.render import age, facts, output_option, show, show_many, size, when
from benchyard.cli.table import Narrow
from benchyard.client.bodies import size_of
from benchyard.client.client import Client
from benchyard.client.folder_archive import folder_tar
from benchyard.models.images import (
    AliasView,
    DebianImageRequest,
    ImageImportRequest,
    ImagePullRequest,
    ImageView,
    StandInRequest,
)

ALIAS_COLUMNS: Mapping[str, Callable[[AliasView], object]] = {
    "REFERENCE": lambda view: view.reference,
    "IMAGE": lambda view: view.image,
}


@click.command()
@click.argument("reference")
@click.option("--name", help="What to call it; the reference if not given.")
@output_option
def pull(reference: str, name: str | None, output: str) -> None:
    """Get an image from a registry; needs buildah on the server, and a network.

    \b
      benchyard image pull python:3.12-slim --name python
      benchyard devbox create --image python
    """
    with checked_input():
        ImagePullRequest(reference=reference, name=name)
    with connect() as client, spinner(f"pulling {reference}"):
        made = client.images.pull(reference, name)
    show(made, output, f"{made.id}  {made.name}  {size(made.size_bytes)}")


@click.command("stand-in")
@click.argument("references", nargs=-1, required=True, metavar="REFERENCE...")
@output_option
def stand_in(references: Sequence[str], output: str) -> None:
    """Make images that stand in for a registry's, where that cannot be reached; takes minutes each.

    For `debian`, `ubuntu` and `python:3.N`: the Debian nearest in age, with a Python of the server's machine
    in /usr/local. Every Dockerfile that begins there is built on it, and says so.

    \b
      benchyard image stand-in python:3.13-slim-bookworm ubuntu:24.04
    """
    with checked_input():
        for reference in references:
            StandInRequest(reference=reference)
    with connect() as client:
        for reference in references:
            with spinner(f"making a stand-in for {reference}"):
                made = client.images.stand_in(reference)
            show(made, output, f"{made.id}  {made.name}  {made.stands_for}")


@click.command()
@click.argument("reference", required=False)
@click.argument("image", required=False)
@output_option
def alias(reference: str | None, image: str | None, output: str) -> None:
    """Let an image or a blueprint stand in for a registry's image in every Dockerfile.

    Without arguments, list the aliases. Of a blueprint, the newest complete build is taken.

    \b
      benchyard image alias ubuntu:22.04 debian-local
      benchyard image alias
    """
    with connect() as client:
        if reference is None:
            show_many(client.images.aliases(), output, ALIAS_COLUMNS)
            return
        if image is None:
            raise click.UsageError("which image stands in for it? Give its name after the reference")
        with checked_input():
            AliasView(reference=reference, image=image)
        made = client.images.set_alias(reference, image)
        show(made, output, f"{made.reference}  is now {made.image}")


@click.command()
@click.argument("references", nargs=-1, required=True, metavar="REFERENCE...")
def unalias(references: Sequence[str]) -> None:
    """Remove aliases.

    \b
      benchyard image unalias ubuntu:22.04
    """
    with connect() as client:
        for reference in references:
            client.images.remove_alias(reference)
            click.echo(f"{reference}  removed")


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def pin(ids: Sequence[str]) -> None:
    """Protect images from `image gc` and from the server's limit on images.

    \b
      benchyard image pin bookworm
    """
    with connect() as client:
        for id in ids:
            client.images.pin(id)
            click.echo(f"{id}  pinned")


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def unpin(ids: Sequence[str]) -> None:
    """Undo `pin`: the images may be removed again when they are not used.

    \b
      benchyard image unpin bookworm
    """
    with connect() as client:
        for id in ids:
            client.images.pin(id, pinned=False)
            click.echo(f"{id}  not pinned any more")


@click.command()
@click.option(
    "--max-size",
    type=size_in_bytes,
    metavar="SIZE",
    help="How much may stay; the server's own limit if not given.",
)
@output_option
def gc(max_size: int | None, output: str) -> None:
    """Remove the longest unused images, and the builder's cache, until less than a limit is used.

    \b
      benchyard image gc --max-size 20GiB
    """
    with connect() as client, spinner("looking at every layer"):
        done = client.images.collect(max_size)
    lines = [f"{name}  removed" for name in done.removed]
    lines += ["the builder's cache  cleared"] if done.cleared_cache else []
    lines.append(f"freed {size(done.freed_bytes)}, {size(done.used_bytes)} in use")
    if count := done.builds_under_way:
        builds = (
            "a build is under way, and what it uses stays" if count == 1 else f"{count} builds are under way"
        )
        lines.append(f"{builds}; collect again when that is over")
    show(done, output, "\n".join(lines))


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

    It is sent to the server, unless it lies in a folder that the server has as `--import-from`. Without
    `--detach`, ending this command ends the import.

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

        made = import_in_place(client, path, read) or _upload(client, path, chosen, detach=detach)
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
        export_archive(client.images.export, id, path)


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


def _upload(client: Client, path: Path, name: str, *, detach: bool) -> ImageView:
    then = None if detach else f"importing {name}: the server reads what was sent"
    with ByteMeter(str(path), size_of(path), then) as meter:
        if not path.is_dir():
            return client.images.import_archive(path, name, meter.add, detach=detach)
        # A root filesystem needs the owners of its files.
        with folder_tar(path, keep_owners=True) as tar:
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
