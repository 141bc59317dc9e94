"""`benchyard key`: make and revoke API keys."""

import time
from collections.abc import Callable, Mapping, Sequence

import click

from benchyard.cli.connection import connect
from benchyard.cli.options import IntRange, checked_input
from benchyard.cli.render import age, output_option, show, show_many, when
from benchyard.models.account import ApiKeyRequest, ApiKeyView

DAY_MS = 86_400_000
COLUMNS: Mapping[str, Callable[[ApiKeyView], object]] = {
    "ID": lambda view: view.id,
    "NAME": lambda view: view.name,
    "AGE": lambda view: age(view.create_time_ms),
    "EXPIRES": lambda view: when(view.expires_at_ms) or "never",
    "STATE": lambda view: _state(view),
}


def _state(view: ApiKeyView) -> str:
    if view.revoked_at_ms:
        return "revoked"
    is_over = view.expires_at_ms is not None and view.expires_at_ms <= time.time() * 1000
    return "expired" if is_over else "active"


@click.group()
def key() -> None:
    """Make, list and revoke the API keys of a server.

    \b
      benchyard key create --name laptop
      benchyard key revoke key_...
    """


@key.command()
@click.option("--name", help="What it is for.")
@click.option(
    "--days",
    type=IntRange(min=1, max=36500),
    help="Days until the key expires. Default: it does not expire.",
)
@output_option
def create(name: str | None, days: int | None, output: str) -> None:
    """Make a key and print it; it is never shown again.

    \b
      benchyard key create --name laptop --days 90
      export BENCHYARD_API_KEY=$(benchyard key create --name ci)
    """
    expires = None if days is None else int(time.time() * 1000) + days * DAY_MS
    with checked_input():
        request = ApiKeyRequest(name=name, expires_at_ms=expires)
    with connect() as client:
        made = client.keys.create(request)
    show(made, output, made.key_secret)
    if output == "text":
        click.echo(f"key {made.id}; keep it safe, it is not shown again", err=True)


@key.command("list")
@output_option
def list_(output: str) -> None:
    """List keys, without their secrets.

    \b
      benchyard key list
    """
    with connect() as client:
        show_many(client.keys.list(), output, COLUMNS)


@key.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def revoke(ids: Sequence[str]) -> None:
    """Revoke keys; they never work again.

    \b
      benchyard key revoke key_...
    """
    with connect() as client:
        for id in ids:
            client.keys.revoke(id)
            click.echo(f"{id}  revoked")
