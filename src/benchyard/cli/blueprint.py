"""`benchyard blueprint`: build what devboxes start from."""

from collections.abc import Callable, Mapping, Sequence

import click

from benchyard.cli.blueprint_build import build, follow
from benchyard.cli.connect import connect
from benchyard.cli.names import PAGE, near
from benchyard.cli.options import IntRange
from benchyard.cli.render import age, clean, facts, output_option, pairs, show, show_many, when
from benchyard.cli.table import Narrow
from benchyard.client.client import Client
from benchyard.errors import NotFound
from benchyard.models.blueprints import BlueprintStatus, BlueprintView, BuildLogView

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
        view = blueprint_named(client, id)
    show(view, output, _described(view))


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
        view = blueprint_named(client, id)
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
        for found in [blueprint_named(client, given) for given in ids]:
            client.blueprints.delete(found.id)
            click.echo(f"{found.id}  deleted")


def blueprint_named(client: Client, given: str) -> BlueprintView:
    """The blueprint of that id; else the newest of that name."""
    try:
        return client.blueprints.get(given)
    except NotFound:
        for view in client.blueprints.list(given, limit=1):
            return view
    hint = near(given, client.blueprints.list(limit=PAGE))
    raise NotFound(f"no blueprint has the id or name {given!r}{hint}; `benchyard blueprint list` shows all")


def _status(view: BlueprintView) -> str:
    """The status in words: one that is built on demand does not wait for its turn."""
    is_unasked = view.status is BlueprintStatus.QUEUED and view.parameters.on_demand
    return "on demand" if is_unasked else view.status.value


def _described(view: BlueprintView) -> str:
    asked = view.parameters
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
            "dockerfile": f"{len(asked.dockerfile.splitlines())} lines" if asked.dockerfile else None,
            "context": asked.build_context.object_id if asked.build_context else None,
            "files": ", ".join(asked.file_mounts or {}),
            "commands": len(asked.system_setup_commands or []) or None,
            "services": ", ".join(service.name for service in view.containerized_services or []),
            "created": when(view.create_time_ms),
            "built": when(view.build_finish_time_ms),
            "metadata": pairs(view.metadata),
        }
    )
