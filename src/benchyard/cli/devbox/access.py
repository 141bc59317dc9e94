"""Access to a devbox: `benchyard devbox ssh`, `forward` and `tunnel`."""

import asyncio
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import click

from benchyard.cli.connection import connect
from benchyard.cli.notices import tell
from benchyard.cli.options import IntRange
from benchyard.cli.render import facts, output_option, show, wire, write_all
from benchyard.client.client import Client
from benchyard.client.lookup import find_devbox
from benchyard.client.operations import Server
from benchyard.client.sockets import Socket, open_port, open_ssh
from benchyard.errors import BenchyardError, UsageError, refused
from benchyard.models.devboxes import DevboxView, TunnelRequest, TunnelView

CHUNK = 64 * 1024
PROGRAM_MISSING = "there is no `ssh` on this machine; install openssh-client, or use `benchyard devbox shell`"


@dataclass(frozen=True)
class SshAccess:
    """Devbox, user and key folder with which ssh enters a devbox."""

    devbox_id: str
    user: str
    folder: Path

    def settings(self) -> dict[str, str]:
        """Return the settings of ssh's configuration, by name."""
        proxy = [sys.executable, "-m", "benchyard.cli.main", "devbox", "ssh-proxy", self.devbox_id]
        return {
            "HostName": self.devbox_id,
            "User": self.user,
            "IdentityFile": str(self.folder / "key"),
            "IdentitiesOnly": "yes",
            "HostKeyAlias": self.devbox_id,
            "UserKnownHostsFile": str(self.folder / "known_hosts"),
            "StrictHostKeyChecking": "yes",
            "ProxyCommand": shlex.join(proxy),
        }


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("id")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def ssh(id: str, command: Sequence[str]) -> int:
    """Enter a devbox with this machine's ssh, or run a command in it.

    A key is made the first time and kept in your state folder. For options of ssh, and for scp, rsync or an
    editor, use `ssh-config`.

    \b
      benchyard devbox ssh box
      benchyard devbox ssh box -- make test
    """
    access = _access(id)
    options = [word for name, value in access.settings().items() for word in ("-o", f"{name}={value}")]
    words = ["ssh", "-F", "none", "-o", "LogLevel=ERROR", *options, access.devbox_id]
    try:
        return subprocess.run([*words, "--", *command] if command else words, check=False).returncode
    except FileNotFoundError as error:
        raise UsageError(PROGRAM_MISSING) from error


@click.command("ssh-config")
@click.argument("id")
@click.option("--host", help="The name to give to ssh. Default: the devbox's name, else its id.")
def ssh_config(id: str, host: str | None) -> None:
    """Print the lines of ssh's configuration that are needed to enter a devbox.

    \b
      benchyard devbox ssh-config box >> ~/.ssh/config
      scp notes.txt box:
    """
    access = _access(id)
    if host is not None and (not host or any(letter.isspace() for letter in host)):
        raise UsageError(f"{host!r} is not a name for a host")
    named = host or (id if not any(letter.isspace() for letter in id) else access.devbox_id)
    lines = [f"  {name} {value}" for name, value in access.settings().items()]
    click.echo("\n".join([f"Host {named}", *lines]))


@click.command("ssh-proxy", hidden=True)
@click.argument("id")
def ssh_proxy(id: str) -> None:
    """Carry ssh's bytes between standard input and output and the server; ssh itself runs this.

    \b
      benchyard devbox ssh-proxy dbx_...
    """
    with connect() as client:
        server = client.server
    asyncio.run(_proxy(server, id))


async def _proxy(server: Server, devbox_id: str) -> None:
    async with open_ssh(server, devbox_id) as socket:
        sending = asyncio.ensure_future(_send(socket))
        try:
            async for data in socket.received():
                write_all(sys.stdout.buffer, data)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


async def _send(socket: Socket) -> None:
    reader = asyncio.StreamReader(CHUNK)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while data := await reader.read(CHUNK):
        await socket.send(data)


def _access(id: str) -> SshAccess:
    with connect() as client:
        view = find_devbox(client, id)
        folder = _folder(os.environ) / view.id
        user = view.launch_parameters.user_parameters
        if not (folder / "key").exists():
            return SshAccess(view.id, _new_key(client, view, folder), folder)
        return SshAccess(view.id, user.username if user else "user", folder)


def _new_key(client: Client, view: DevboxView, folder: Path) -> str:
    made = client.ssh.create_key(view.id)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "known_hosts").write_text(f"{view.id} {made.host_key}\n")
    # Write the key last: an existing key is then always usable.
    partial = folder / "key.part"
    partial.touch(mode=0o600)
    partial.write_text(made.ssh_private_key)
    partial.rename(folder / "key")
    return made.ssh_user


def _folder(environ: Mapping[str, str]) -> Path:
    state = environ.get("XDG_STATE_HOME") or Path(environ.get("HOME", "/")) / ".local" / "state"
    return Path(state) / "benchyard" / "ssh"


_PORTS = re.compile(r"(?:(\d{1,5}):)?(\d{1,5})")
_LARGEST_PORT = 65_535


@click.command()
@click.argument("id")
@click.argument("ports", metavar="[LOCAL:]PORT")
def forward(id: str, ports: str) -> None:
    """Let a port of this machine lead to a port of a devbox, until Ctrl-C.

    \b
      benchyard devbox forward box 8080
      benchyard devbox forward box 9000:8080
      benchyard devbox forward box 0:8080
    """
    found = _PORTS.fullmatch(ports)
    numbers = [int(group if group is not None else found[2]) for group in found.groups()] if found else []
    if not numbers or max(numbers) > _LARGEST_PORT or numbers[1] == 0:
        raise UsageError(f"{ports!r} must look like PORT or LOCAL:PORT; a LOCAL of 0 takes a free one")
    with connect() as client:
        devbox_id = find_devbox(client, id).id
        server = client.server
    asyncio.run(_forward(server, devbox_id, numbers[0], numbers[1]))


async def _forward(server: Server, devbox_id: str, local: int, port: int) -> None:
    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with open_port(server, devbox_id, port) as socket:
                await _carry(reader, writer, socket)
        except BenchyardError as error:
            tell(f"{error.message}")
        finally:
            writer.close()

    try:
        listener = await asyncio.start_server(pass_on, "127.0.0.1", local)
    except OSError as error:
        raise UsageError(f"cannot listen on port {local}: {refused(error)}; choose another LOCAL") from error
    async with listener:
        address = f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        click.echo(f"{address} leads to port {port} of {devbox_id}; Ctrl-C ends it")
        await listener.serve_forever()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, socket: Socket) -> None:
    async def out() -> None:
        while data := await reader.read(CHUNK):
            await socket.send(data)

    async def back() -> None:
        async for data in socket.received():
            writer.write(data)
            await writer.drain()

    sending = asyncio.ensure_future(out())
    try:
        # Wait for the devbox's answer, even if the program here has closed its side.
        await back()
    except OSError:
        return
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


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
        devbox_id = find_devbox(client, id).id
        if remove:
            client.tunnels.remove(devbox_id)
            show({}, output, f"{devbox_id} has no tunnel any more")
            return
        request = TunnelRequest.model_validate({"auth_mode": mode, "wake_on_http": wake or None})
        made = client.tunnels.enable(devbox_id, request)
        told = _addresses(client, made, "PORT" if port is None else str(port))
        show({**wire(made), **told}, output, _tunnel_text(made, told))


def _addresses(client: Client, made: TunnelView, port: str) -> dict[str, str]:
    server = urlsplit(client.server.url)
    name = server.hostname or ""
    found = {"address": f"{client.server.url}/tunnel/{made.tunnel_key}/{port}/"}
    if server.scheme == "https" and not name.replace(".", "").isdigit():
        found["address_by_name"] = f"https://{port}-{made.tunnel_key}.tunnel.{name.removeprefix('api.')}"
    return found


def _tunnel_text(made: TunnelView, told: dict[str, str]) -> str:
    header = f"X-Benchyard-Tunnel-Authorization: Bearer {made.auth_token}" if made.auth_token else None
    return facts(
        {
            "address": told["address"],
            "by name": told.get("address_by_name"),
            "who may enter": "everybody who knows the address" if header is None else "who sends the header",
            "header": header,
        }
    )
