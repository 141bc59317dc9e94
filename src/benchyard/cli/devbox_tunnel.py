"""`benchyard devbox tunnel`: reach the ports of a devbox over HTTP."""

from urllib.parse import urlsplit

import click

from benchyard.cli.connect import connect
from benchyard.cli.names import devbox_named
from benchyard.cli.options import IntRange
from benchyard.cli.render import facts, output_option, show, wire
from benchyard.client.client import Client
from benchyard.errors import UsageError
from benchyard.models.tunnels import TunnelRequest, TunnelView


@click.command()
@click.argument("id")
@click.option("--authenticated", is_flag=True, help="Only requests with the tunnel's token are let in.")
@click.option("--open", "is_open", is_flag=True, help="Every request to the address is let in.")
@click.option("--wake", is_flag=True, help="A request wakes a suspended devbox.")
@click.option("--remove", is_flag=True, help="Take the tunnel away.")
@click.option("--port", type=IntRange(1, 65535), help="Print the addresses of this port.")
@output_option
def tunnel(
    id: str, authenticated: bool, is_open: bool, wake: bool, remove: bool, port: int | None, output: str
) -> None:
    """Give a devbox a tunnel, and print the addresses of its ports.

    \b
      benchyard devbox tunnel box --port 8080
      benchyard devbox tunnel box --authenticated
      benchyard devbox tunnel box --remove
    """
    if authenticated and is_open:
        raise UsageError("give either --authenticated or --open, not both")
    mode = ("authenticated" if authenticated else "open") if authenticated or is_open else None
    with connect() as client:
        devbox_id = devbox_named(client, id).id
        if remove:
            client.tunnels.remove(devbox_id)
            show({}, output, f"{devbox_id} has no tunnel any more")
            return
        request = TunnelRequest.model_validate({"auth_mode": mode, "wake_on_http": wake or None})
        made = client.tunnels.enable(devbox_id, request)
        told = _addresses(client, made, "PORT" if port is None else str(port))
        show({**wire(made), **told}, output, _described(made, told))


def _addresses(client: Client, made: TunnelView, port: str) -> dict[str, str]:
    server = urlsplit(client.server.url)
    name = server.hostname or ""
    found = {"address": f"{client.server.url}/tunnel/{made.tunnel_key}/{port}/"}
    if server.scheme == "https" and not name.replace(".", "").isdigit():
        found["address_by_name"] = f"https://{port}-{made.tunnel_key}.tunnel.{name.removeprefix('api.')}"
    return found


def _described(made: TunnelView, told: dict[str, str]) -> str:
    header = f"X-Benchyard-Tunnel-Authorization: Bearer {made.auth_token}" if made.auth_token else None
    return facts(
        {
            "address": told["address"],
            "by name": told.get("address_by_name"),
            "who may enter": "everybody who knows the address" if header is None else "who sends the header",
            "header": header,
        }
    )
