"""`benchyard image`: aliases, pins, pulls, and the removal of what nobody uses."""

from collections.abc import Callable, Mapping, Sequence

import click

from benchyard.cli.connect import connect
from benchyard.cli.options import checked_input, size_in_bytes
from benchyard.cli.progress import spinner
from benchyard.cli.render import output_option, show, show_many, size
from benchyard.models.images import AliasView, ImagePullRequest, StandInRequest

COLUMNS: Mapping[str, Callable[[AliasView], object]] = {
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
            show_many(client.images.aliases(), output, COLUMNS)
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
