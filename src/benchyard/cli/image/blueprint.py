"""`benchyard blueprint`: build images for devboxes, and follow a build to its end."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict, Unpack

import click
from rich.console import Console
from rich.text import Text

from benchyard.cli.connection import connect
from benchyard.cli.options import IntRange, checked_input, local_remote, name_values
from benchyard.cli.progress import metered
from benchyard.cli.render import age, facts, output_option, pairs, show, show_many, when
from benchyard.cli.table import Narrow
from benchyard.client.blueprint_builds import OnLine, begin_build, build_of, finish_build
from benchyard.client.lookup import find_blueprint
from benchyard.client.nouns import SyncNouns
from benchyard.client.plain_text import clean
from benchyard.errors import BuildFailed
from benchyard.models.blueprints import BlueprintStatus, BlueprintView, BuildLogView


class BuildOptions(TypedDict):
    """Options of `blueprint build`."""

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
def build(context: Path | None, no_wait: bool, output: str, **options: Unpack[BuildOptions]) -> None:
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
    with checked_input():
        wanted = build_of(
            context,
            name=options["name"],
            dockerfile=options["dockerfile"],
            build_args=name_values(options["build_args"], "--build-arg"),
            secrets=name_values(options["secrets"], "--secret"),
            commands=options["commands"],
            files={remote: local for local, remote in local_remote(options["files"], "--file")},
            base=options["base"],
            metadata=name_values(options["metadata"], "--metadata"),
        )
    with connect() as client:
        view = begin_build(client, wanted, options["network_policy"], metered)
        if not no_wait:
            view = await_build(client, view)
    show(view, output, f"{view.id}  {view.status.value}")


def follow(client: SyncNouns, blueprint_id: str, show_line: OnLine) -> None:
    """Show every line of a build's log until it has ended."""
    for line in client.blueprints.follow(blueprint_id):
        show_line(line)


def await_build(client: SyncNouns, view: BlueprintView) -> BlueprintView:
    """Show a build to its end, and delete its context afterwards; raises BuildFailed."""
    click.echo(f"building {view.id}", err=True)
    try:
        with _printer(f"building {clean(view.name)}") as show_line:
            return finish_build(client, view, show_line)
    except KeyboardInterrupt:
        click.echo(f"the build goes on; see `benchyard blueprint logs -f {view.id}`", err=True)
        raise
    except BuildFailed as error:
        # The log that was just shown ends with the reason: repeating it would push it out of sight.
        message = f"{view.name} was not built: see above, or `benchyard blueprint logs {view.id}`"
        raise BuildFailed(message, error.reason) from error


@contextmanager
def _printer(title: str) -> Iterator[OnLine]:
    """Yield a function that prints lines on stderr, in a terminal above a spinner."""
    if not sys.stderr.isatty():
        yield lambda line: click.echo(clean(line.message), err=True)
        return
    console = Console(stderr=True, highlight=False)
    with console.status(title):
        yield lambda line: console.print(Text(clean(line.message)), soft_wrap=True)


COLUMNS: Mapping[str, Callable[[BlueprintView], object]] = {
    "ID": lambda view: view.id,
    "NAME": lambda view: view.name,
    "STATUS": lambda view: _status(view),
    "BASE": lambda view: view.base_blueprint_id,
    "AGE": lambda view: age(view.create_time_ms),
}
NARROW = Narrow(shorten=["NAME"], drop=["BASE", "AGE"])


@click.group()
def blueprint() -> None:
    """Build what devboxes start from: from a Dockerfile, from commands and files, or both.

    \b
      benchyard blueprint build --name tools --run 'sudo apt-get install -y jq'
      benchyard blueprint build . --name mine
      benchyard devbox create --image mine
    """


blueprint.add_command(build)


@blueprint.command("list")
@click.option("--name", help="Only those of this name.")
@click.option(
    "--status",
    type=click.Choice([each.value for each in BlueprintStatus]),
    help="Only those with this status.",
)
@click.option("--limit", type=IntRange(min=1), default=100, show_default=True, help="List at most this many.")
@output_option
def list_(name: str | None, status: str | None, limit: int, output: str) -> None:
    """List blueprints, newest first.

    \b
      benchyard blueprint list
      benchyard blueprint list --name mine --status build_complete -o json
    """
    with connect() as client:
        found = client.blueprints.list(name, BlueprintStatus(status) if status else None, limit)
        none = "no blueprints; build one with `benchyard blueprint build`"
        show_many(found, output, COLUMNS, none=none, narrow=NARROW)


@blueprint.command("show")
@click.argument("id")
@output_option
def show_(id: str, output: str) -> None:
    """Show one blueprint, by id or the newest of a name.

    \b
      benchyard blueprint show mine
    """
    with connect() as client:
        view = find_blueprint(client, id)
    show(view, output, _description(view))


@blueprint.command()
@click.argument("id")
@click.option("-f", "--follow", "is_followed", is_flag=True, help="Go on until the build has ended.")
@output_option
def logs(id: str, is_followed: bool, output: str) -> None:
    """Print the log of a blueprint's build.

    \b
      benchyard blueprint logs mine
      benchyard blueprint logs -f bpt_...
    """
    with connect() as client:
        view = find_blueprint(client, id)
        if is_followed:
            follow(client, view.id, lambda line: click.echo(clean(line.message)))
            return
        found = BuildLogView(blueprint_id=view.id, logs=client.blueprints.logs(view.id))
    show(found, output, "\n".join(clean(line.message) for line in found.logs))


@blueprint.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def delete(ids: Sequence[str]) -> None:
    """Remove blueprints; devboxes that run on them go on.

    \b
      benchyard blueprint delete bpt_...
    """
    with connect() as client:
        for found in [find_blueprint(client, given) for given in ids]:
            client.blueprints.delete(found.id)
            click.echo(f"{found.id}  deleted")


def _status(view: BlueprintView) -> str:
    """Return the status in words; a build on demand is not queued."""
    is_unasked = view.status is BlueprintStatus.QUEUED and view.parameters.on_demand
    return "on demand" if is_unasked else view.status.value


def _description(view: BlueprintView) -> str:
    parameters = view.parameters
    return facts(
        {
            "id": view.id,
            "name": view.name,
            "status": _status(view),
            "state": view.state,
            "failure": view.failure_reason,
            "error": view.error_message,
            "base": view.base_blueprint_id,
            "substituted base": pairs(view.substituted_bases),
            "dockerfile": f"{len(parameters.dockerfile.splitlines())} lines"
            if parameters.dockerfile
            else None,
            "context": parameters.build_context.object_id if parameters.build_context else None,
            "files": ", ".join(parameters.file_mounts or {}),
            "commands": len(parameters.system_setup_commands or []) or None,
            "services": ", ".join(service.name for service in view.containerized_services or []),
            "created": when(view.create_time_ms),
            "built": when(view.build_finish_time_ms),
            "metadata": pairs(view.metadata),
        }
    )
