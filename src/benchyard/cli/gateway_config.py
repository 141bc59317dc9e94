"""`benchyard gateway-config`: HTTP APIs that devboxes use with a key that they never see."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict, Unpack

import click

from benchyard.cli.connection import connect
from benchyard.cli.options import checked_input, name_values
from benchyard.cli.render import age, facts, output_option, show, show_many, when
from benchyard.cli.table import Narrow
from benchyard.client.client import Client
from benchyard.client.lookup import PAGE, nearest_hint
from benchyard.errors import NotFound, UsageError
from benchyard.models.gateway_configs import AuthMechanism, CustomHeader, GatewayConfigView

COLUMNS: Mapping[str, Callable[[GatewayConfigView], object]] = {
    "NAME": lambda view: view.name,
    "ID": lambda view: view.id,
    "ENDPOINT": lambda view: view.endpoint,
    "AUTH": lambda view: auth_text(view.auth_mechanism),
    "AGE": lambda view: age(view.create_time_ms) if view.account_id else "built-in",
}
NARROW = Narrow(drop=["AGE", "ID"])


class GatewayConfigOptions(TypedDict):
    """Options of `create` and `update`."""

    endpoint: str | None
    auth: str | None
    header: Sequence[str]
    secret_header: Sequence[str]
    description: str | None


@click.group("gateway-config")
def gateway_config() -> None:
    """Let devboxes use HTTP APIs without seeing the key.

    \b
      benchyard gateway-config create tracker --endpoint https://api.example.com \\
          --auth bearer
      benchyard devbox create --gateway TRACKER=tracker:TRACKER_KEY
    """


def _options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--description", help="What it is for."),
        click.option(
            "--secret-header",
            multiple=True,
            metavar="NAME=SECRET",
            help="A header with a secret's value; repeatable.",
        ),
        click.option(
            "--header", multiple=True, metavar="NAME=VALUE", help="A header that is always sent; repeatable."
        ),
        click.option(
            "--auth",
            metavar="bearer|basic|header:NAME",
            help="How the key is sent: as a bearer token, as user:password, or in a header of its own.",
        ),
        click.option("--endpoint", metavar="URL", help="Address that requests are passed on to."),
    ):
        command = option(command)
    return command


@gateway_config.command()
@click.argument("name")
@_options
@output_option
def create(name: str, output: str, **options: Unpack[GatewayConfigOptions]) -> None:
    """Make a gateway config.

    \b
      benchyard gateway-config create tracker --endpoint https://api.example.com \\
          --auth bearer
      benchyard gateway-config create search \\
          --endpoint https://search.example.com --auth header:X-Api-Key
    """
    if options["endpoint"] is None or options["auth"] is None:
        raise UsageError("a new gateway config needs --endpoint and --auth")
    with connect() as client:
        view = client.gateway_configs.create(
            name=name,
            endpoint=options["endpoint"],
            auth_mechanism=_auth(options["auth"]),
            custom_headers=_headers(options),
            description=options["description"],
        )
    show(view, output, f"{view.name}  {view.id}")


@gateway_config.command("list")
@output_option
def list_(output: str) -> None:
    """List gateway configs, newest first, with those that come with the server.

    \b
      benchyard gateway-config list
    """
    with connect() as client:
        found = client.gateway_configs.list(limit=PAGE)
        show_many(found, output, COLUMNS, none="no gateway configs", narrow=NARROW)


@gateway_config.command("show")
@click.argument("given", metavar="ID|NAME")
@output_option
def show_(given: str, output: str) -> None:
    """Show one gateway config.

    \b
      benchyard gateway-config show anthropic
    """
    with connect() as client:
        view = find_config(client, given)
    show(view, output, _description(view))


@gateway_config.command()
@click.argument("given", metavar="ID|NAME")
@click.option("--name", help="New name.")
@click.option("--no-headers", is_flag=True, help="Remove its headers.")
@_options
@output_option
def update(
    given: str, name: str | None, no_headers: bool, output: str, **options: Unpack[GatewayConfigOptions]
) -> None:
    """Change a gateway config; fields without an option stay. Headers replace the present ones.

    \b
      benchyard gateway-config update tracker --endpoint https://eu.example.com
    """
    headers = _headers(options)
    if no_headers and headers:
        raise UsageError("--no-headers and new headers contradict each other")
    with connect() as client:
        view = client.gateway_configs.update(
            find_config(client, given).id,
            name=name,
            endpoint=options["endpoint"],
            auth_mechanism=_auth(options["auth"]) if options["auth"] else None,
            custom_headers=[] if no_headers else headers,
            description=options["description"],
        )
    show(view, output, f"{view.name}  {view.id}")


@gateway_config.command()
@click.argument("given", nargs=-1, required=True, metavar="ID|NAME...")
def delete(given: Sequence[str]) -> None:
    """Remove gateway configs; devboxes that were given them keep them.

    \b
      benchyard gateway-config delete tracker
    """
    with connect() as client:
        for found in [find_config(client, each) for each in given]:
            client.gateway_configs.delete(found.id)
            click.echo(f"{found.name}  {found.id}  deleted")


def find_config(client: Client, given: str) -> GatewayConfigView:
    """Return the gateway config of that id or name; raises NotFound."""
    try:
        return client.gateway_configs.get(given)
    except NotFound:
        for view in client.gateway_configs.list(name=given, limit=PAGE):
            if view.name == given:
                return view
    hint = nearest_hint(given, client.gateway_configs.list(limit=PAGE))
    raise NotFound(
        f"no gateway config has the id or name {given!r}{hint}; `benchyard gateway-config list` shows all"
    )


def auth_text(mechanism: AuthMechanism) -> str:
    """Return the way a key is sent, as the option takes it."""
    return f"header:{mechanism.key}" if mechanism.key else mechanism.type


def _auth(given: str) -> AuthMechanism:
    kind, _, key = given.partition(":")
    with checked_input():
        return AuthMechanism.model_validate({"type": kind, "key": key or None})


def _headers(options: GatewayConfigOptions) -> list[CustomHeader] | None:
    plain = name_values(options["header"], "--header")
    secret = name_values(options["secret_header"], "--secret-header")
    with checked_input():
        headers = [CustomHeader(name=name, value=value) for name, value in plain.items()]
        headers += [CustomHeader(name=name, secret=value) for name, value in secret.items()]
    return headers or None


def _description(view: GatewayConfigView) -> str:
    headers = [
        f"{each.name}: {each.value if each.secret is None else f'(secret {each.secret})'}"
        for each in view.custom_headers or []
    ]
    return facts(
        {
            "id": view.id,
            "name": view.name,
            "endpoint": view.endpoint,
            "auth": auth_text(view.auth_mechanism),
            "headers": "\n".join(headers) or None,
            "description": view.description,
            "built-in": None if view.account_id else "yes",
            "created": when(view.create_time_ms),
        }
    )
