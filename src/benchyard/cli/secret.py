"""`benchyard secret`: values that devboxes get in their environment, and that are never shown again."""

import sys
from collections.abc import Callable, Mapping, Sequence

import click

from benchyard.cli.connection import connect
from benchyard.cli.notices import tell
from benchyard.cli.render import age, output_option, show, show_many
from benchyard.engine.redaction import LEAST_CHARACTERS
from benchyard.errors import UsageError
from benchyard.models.secrets import SecretView

COLUMNS: Mapping[str, Callable[[SecretView], object]] = {
    "NAME": lambda view: view.name,
    "ID": lambda view: view.id,
    "CHANGED": lambda view: f"{age(view.update_time_ms)} ago",
}


@click.group()
def secret() -> None:
    """Keep values that devboxes get as environment variables.

    \b
      benchyard secret set GITHUB_TOKEN
      benchyard devbox create --secret GH_TOKEN=GITHUB_TOKEN
    """


@secret.command("set")
@click.argument("name")
@click.option("--value", help="The value; others on this machine may see it while this runs.")
@click.option(
    "--stdin", "from_stdin", is_flag=True, help="Read the value from standard input, and never ask for it."
)
@output_option
def set_(name: str, value: str | None, from_stdin: bool, output: str) -> None:
    """Make a secret, or change its value; asks for the value, or reads it from a pipe.

    \b
      benchyard secret set GITHUB_TOKEN
      pass show github | benchyard secret set GITHUB_TOKEN --stdin
    """
    if value is not None and from_stdin:
        raise UsageError("give --value or --stdin, not both")
    given = value if value is not None else _ask_value(name, from_stdin=from_stdin)
    if not given:
        raise UsageError("the value is empty; nothing was changed")
    with connect() as client:
        view = client.secrets.set(name, given)
    show(view, output, f"{view.name}  {view.id}")
    if len(given.strip()) < LEAST_CHARACTERS:
        tell(
            f"warning: {view.name} has fewer than {LEAST_CHARACTERS} characters; values that "
            "short are not masked where an agent prints them, in logs, results and exports",
        )


@secret.command("list")
@output_option
def list_(output: str) -> None:
    """List secrets, without their values.

    \b
      benchyard secret list
    """
    with connect() as client:
        show_many(
            client.secrets.list(), output, COLUMNS, none="no secrets; make one with `benchyard secret set`"
        )


@secret.command("show")
@click.argument("name")
@output_option
def show_(name: str, output: str) -> None:
    """Show when a secret was made and changed; its value is never shown.

    \b
      benchyard secret show GITHUB_TOKEN -o json
    """
    with connect() as client:
        view = client.secrets.get(name)
    show(view, output, f"{view.name}  {view.id}  changed {age(view.update_time_ms)} ago")


@secret.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def delete(names: Sequence[str]) -> None:
    """Remove secrets.

    \b
      benchyard secret delete GITHUB_TOKEN
    """
    with connect() as client:
        for name in names:
            client.secrets.delete(name)
            click.echo(f"{name}  deleted")


def _ask_value(name: str, *, from_stdin: bool) -> str:
    if sys.stdin.isatty() and not from_stdin:
        prompted: str = click.prompt(f"value of {name}", hide_input=True, err=True)
        return prompted
    return sys.stdin.read().removesuffix("\n")
