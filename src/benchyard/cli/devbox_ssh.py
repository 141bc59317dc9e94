"""`benchyard devbox ssh`: the ssh of this machine, with a devbox at its other end."""

import asyncio
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from benchyard.cli.connect import connect
from benchyard.cli.names import devbox_named
from benchyard.cli.render import write_all
from benchyard.client.client import Client
from benchyard.client.core import Server
from benchyard.client.sockets import Socket, open_ssh
from benchyard.errors import UsageError
from benchyard.models.devboxes import DevboxView

CHUNK = 64 * 1024
PROGRAM_MISSING = "there is no `ssh` on this machine; install openssh-client, or use `benchyard devbox shell`"


@dataclass(frozen=True)
class Access:
    """What ssh needs to enter a devbox: whose key lies in which folder."""

    devbox_id: str
    user: str
    folder: Path

    def settings(self) -> dict[str, str]:
        """The lines of ssh's configuration."""
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

    A key is made the first time and kept in your state folder. What needs options of ssh, and scp, rsync or
    an editor, takes `ssh-config`.

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
    """Print what ssh's configuration needs to enter a devbox.

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


def _access(id: str) -> Access:
    with connect() as client:
        view = devbox_named(client, id)
        folder = _folder(os.environ) / view.id
        user = view.launch_parameters.user_parameters
        if not (folder / "key").exists():
            return Access(view.id, _new_key(client, view, folder), folder)
        return Access(view.id, user.username if user else "user", folder)


def _new_key(client: Client, view: DevboxView, folder: Path) -> str:
    made = client.ssh.create_key(view.id)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "known_hosts").write_text(f"{view.id} {made.host_key}\n")
    # Last, so that a key that is there is one that can be used.
    partial = folder / "key.part"
    partial.touch(mode=0o600)
    partial.write_text(made.ssh_private_key)
    partial.rename(folder / "key")
    return made.ssh_user


def _folder(environ: Mapping[str, str]) -> Path:
    state = environ.get("XDG_STATE_HOME") or Path(environ.get("HOME", "/")) / ".local" / "state"
    return Path(state) / "benchyard" / "ssh"
