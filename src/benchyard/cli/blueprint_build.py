"""`benchyard blueprint build`: pack a context, send it, and follow the build to its end."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypedDict, Unpack

import click
from rich.console import Console
from rich.text import Text

from benchyard.cli.connect import connect
from benchyard.cli.context import packed_context
from benchyard.cli.names import policy_named
from benchyard.cli.options import checked_input, local_remote, name_values
from benchyard.cli.progress import Meter
from benchyard.cli.render import clean, output_option, show
from benchyard.client.client import Client
from benchyard.errors import BenchyardError, BuildFailed, UsageError
from benchyard.models.blueprints import (
    UNFINISHED,
    BlueprintRequest,
    BlueprintView,
    BuildContext,
    BuildLogLine,
)
from benchyard.models.objects import ObjectRequest

CONTEXT_TTL_MS = 24 * 3600 * 1000
"""How long a context is kept that nobody waited for; a server that is restarted may need it again."""

Printer = Callable[[BuildLogLine], None]


class Options(TypedDict):
    """What a build can be told."""

    dockerfile: Path | None
    name: str | None
    build_args: Sequence[str]
    secrets: Sequence[str]
    commands: Sequence[str]
    files: Sequence[str]
    base: str | None
    network_policy: str | None
    metadata: Sequence[str]


@click.command()
@click.argument("context", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "-f",
    "--dockerfile",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The Dockerfile. Default: Dockerfile in CONTEXT.",
)
@click.option("--name", help="What to call it; the context folder's own name if not given.")
@click.option(
    "--build-arg",
    "build_args",
    multiple=True,
    metavar="NAME=VALUE",
    help="Value of an ARG of the Dockerfile; repeatable.",
)
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="ENV=SECRET",
    help="A stored secret for its commands; repeatable.",
)
@click.option(
    "--run",
    "commands",
    multiple=True,
    metavar="COMMAND",
    help="Command to run after the Dockerfile, as `user`; repeatable.",
)
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="LOCAL:REMOTE",
    help="Local file to put into the image; repeatable.",
)
@click.option("--base", metavar="BLUEPRINT", help="Build on another blueprint, by id or name.")
@click.option("--network-policy", metavar="ID|NAME", help="Network policy for the build.")
@click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="A label; repeatable.")
@click.option("--no-wait", is_flag=True, help="Print the id and do not wait for the build.")
@output_option
def build(context: Path | None, no_wait: bool, output: str, **options: Unpack[Options]) -> None:
    """Build a blueprint and follow its log; fails if the build fails.

    CONTEXT is the folder that COPY and ADD look into; its .dockerignore is honoured. Without it and without
    a Dockerfile, the blueprint is made of the base, the files and the commands alone.

    \b
      benchyard blueprint build . --name mine --build-arg VERSION=3
      benchyard blueprint build -f Dockerfile.test --name test \\
          --secret TOKEN=MY_TOKEN
      benchyard blueprint build --name tools --file setup.sh:~/setup.sh \\
          --run 'sh ~/setup.sh'
    """
    dockerfile = _dockerfile(context, options["dockerfile"])
    if not (context or dockerfile or options["commands"] or options["files"] or options["base"]):
        given = "a CONTEXT (such as .), --dockerfile, --base, --run or --file"
        raise UsageError(f"there is nothing to build: give {given}")
    request = _request(context, dockerfile, options)
    with connect() as client, sent_context(client, context, dockerfile) as sent:
        policy = options["network_policy"] and policy_named(client, options["network_policy"]).id
        update = {"build_context": sent, "network_policy_id": policy}
        view = client.blueprints.create(request.model_copy(update=update))
        if not no_wait:
            view = built(client, view)
    show(view, output, f"{view.id}  {view.status.value}")


def follow(client: Client, blueprint_id: str, show_line: Printer) -> None:
    """Show every line of a build's log until it has ended."""
    for line in client.blueprints.follow(blueprint_id):
        show_line(line)


def built(client: Client, view: BlueprintView) -> BlueprintView:
    """Follow a build to its end, and take its context away after it; raises BuildFailed."""
    try:
        return _followed(client, view)
    finally:
        # Whoever is interrupted leaves a build that goes on and needs its context; its time ends too.
        with suppress(BenchyardError):
            if client.blueprints.get(view.id).status not in UNFINISHED and view.parameters.build_context:
                client.objects.delete(view.parameters.build_context.object_id)


def _followed(client: Client, view: BlueprintView) -> BlueprintView:
    click.echo(f"building {view.id}", err=True)
    try:
        with _printer(f"building {clean(view.name)}") as show_line:
            follow(client, view.id, show_line)
    except KeyboardInterrupt:
        click.echo(f"the build goes on; see `benchyard blueprint logs -f {view.id}`", err=True)
        raise
    try:
        return client.blueprints.wait(view.id)
    except BuildFailed as error:
        # Why is the last that was shown: to say it all again would push it out of sight.
        message = f"{view.name} was not built: see above, or `benchyard blueprint logs {view.id}`"
        raise BuildFailed(message, error.reason) from error


@contextmanager
def _printer(title: str) -> Iterator[Printer]:
    """Lines on stderr, above a spinner where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda line: click.echo(clean(line.message), err=True)
        return
    console = Console(stderr=True, highlight=False)
    with console.status(title):
        yield lambda line: console.print(Text(clean(line.message)), soft_wrap=True)


def _dockerfile(context: Path | None, given: Path | None) -> Path | None:
    if given is not None or context is None:
        return given
    usual = context / "Dockerfile"
    if not usual.is_file():
        raise UsageError(f"there is no {usual}; name another with --dockerfile")
    return usual


def _request(context: Path | None, dockerfile: Path | None, options: Options) -> BlueprintRequest:
    name = options["name"] or (context.resolve().name if context else None)
    if not name:
        raise UsageError("give the blueprint a name with --name")
    files = {remote: _text(local) for local, remote in local_remote(options["files"], "--file")}
    base = options["base"]
    is_id = bool(base and base.startswith("bpt_"))
    with checked_input():
        return BlueprintRequest(
            name=name,
            dockerfile=_text(dockerfile) if dockerfile else None,
            build_args=name_values(options["build_args"], "--build-arg") or None,
            secrets=name_values(options["secrets"], "--secret") or None,
            system_setup_commands=list(options["commands"]) or None,
            file_mounts=files or None,
            base_blueprint_id=base if is_id else None,
            base_blueprint_name=None if is_id else base,
            metadata=name_values(options["metadata"], "--metadata") or None,
        )


@contextmanager
def sent_context(
    client: Client, folder: Path | None, dockerfile: Path | None
) -> Iterator[BuildContext | None]:
    """A folder as the context of a build that is asked for in the block."""
    if folder is None:
        yield None
        return
    with packed_context(folder, dockerfile) as archive:
        request = ObjectRequest(name="context.tgz", content_type="tgz", ttl_ms=CONTEXT_TTL_MS)
        with Meter(f"context {folder}", archive.stat().st_size) as meter:
            stored = client.objects.upload(archive, request, meter.add)
    yield BuildContext(object_id=stored.id)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text; send it in a CONTEXT") from error
