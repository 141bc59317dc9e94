"""`benchyard devbox forward`: a port of this machine that leads to a port of a devbox."""

import asyncio
import re

import click

from benchyard.cli.connect import connect
from benchyard.cli.names import devbox_named
from benchyard.cli.notices import tell
from benchyard.client.core import Server
from benchyard.client.sockets import Socket, open_port
from benchyard.errors import BenchyardError, UsageError, refused

CHUNK = 64 * 1024
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
    numbers = [int(each if each is not None else found[2]) for each in found.groups()] if found else []
    if not numbers or max(numbers) > _LARGEST_PORT or numbers[1] == 0:
        raise UsageError(f"{ports!r} must look like PORT or LOCAL:PORT; a LOCAL of 0 takes a free one")
    with connect() as client:
        devbox_id = devbox_named(client, id).id
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
        # What was asked is answered, even if the program here has nothing more to ask.
        await back()
    except OSError:
        return
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
