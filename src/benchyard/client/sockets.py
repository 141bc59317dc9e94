"""Websockets to the server, which carry bytes both ways: terminals, ssh, and ports of devboxes."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urljoin

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from benchyard.client.client import AsyncClient
from benchyard.client.operations import Server, at, error_from
from benchyard.client.sessions import tls_context
from benchyard.errors import BenchyardError, ServerUnreachable

LARGEST_FRAME = 4 * 1024 * 1024


class Socket:
    """An open connection."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def send(self, data: bytes) -> None:
        """Send bytes; they are dropped once the connection has ended."""
        try:
            await self._connection.send(data)
        except ConnectionClosed:
            return

    async def received(self) -> AsyncIterator[bytes]:
        """Yield the bytes that arrive, until the connection ends."""
        try:
            async for frame in self._connection:
                yield frame if isinstance(frame, bytes) else frame.encode()
        except ConnectionClosed:
            return


@asynccontextmanager
async def open_ssh(server: Server, devbox_id: str) -> AsyncIterator[Socket]:
    """Open a connection to the server's ssh side."""
    async with open_socket(server, at("/v1/devboxes/{}/ssh", devbox_id)) as connection:
        yield Socket(connection)


@asynccontextmanager
async def open_port(server: Server, devbox_id: str, port: int) -> AsyncIterator[Socket]:
    """Open a connection to a port of a devbox; raises NotFound if no process listens there."""
    async with open_socket(server, at("/v1/devboxes/{}/ports/{}", devbox_id, str(port))) as connection:
        yield Socket(connection)


@asynccontextmanager
async def open_socket(server: Server, path: str) -> AsyncIterator[ClientConnection]:
    """Open a websocket of the server; raises the error of the server's refusal."""
    url = urljoin(server.url + "/", path)
    if not url.startswith(server.url):
        raise BenchyardError("the server names another server; refusing to send it the key")
    try:
        connection = await connect(
            "ws" + url.removeprefix("http"),
            additional_headers={"authorization": f"Bearer {server.key}"},
            max_size=LARGEST_FRAME,
            proxy=None,
            ssl=tls_context(server),
        )
    except InvalidStatus as error:
        raise error_from(error.response.status_code, bytes(error.response.body or b"")) from error
    except (OSError, InvalidHandshake, TimeoutError) as error:
        raise ServerUnreachable(f"cannot open a connection to {server.url}: {error}") from error
    try:
        yield connection
    finally:
        await connection.close()


ENDED = (4000, 1000)
"""Codes by which a server closes the connection when the shell has ended: the current and an older one."""
EXIT_REASON = re.compile(r"^exit (\d{1,3})$")


class Terminal:
    """An open terminal session."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def type(self, data: bytes) -> None:
        """Send typed bytes; they are dropped once the connection has ended."""
        try:
            await self._connection.send(data)
        except ConnectionClosed:
            return

    async def printed(self) -> AsyncIterator[bytes]:
        """Yield the terminal's output until the connection ends; `exit_status` is known then."""
        try:
            async for frame in self._connection:
                yield frame if isinstance(frame, bytes) else frame.encode()
        except ConnectionClosed:
            return

    @property
    def has_ended(self) -> bool:
        """Tell whether the shell inside has ended, and not only the connection."""
        return self._connection.close_code in ENDED

    @property
    def exit_status(self) -> int:
        """Return the exit status of the shell; 0 where it is not known."""
        told = EXIT_REASON.match(self._connection.close_reason or "")
        return int(told[1]) if told else 0


@asynccontextmanager
async def open_terminal(
    client: AsyncClient, devbox_id: str, session: str, columns: int, rows: int
) -> AsyncIterator[Terminal]:
    """Find or make a terminal session and connect to it; closing only detaches, and it waits a while."""
    view = await client.pty.connect(devbox_id, session, columns, rows)
    async with open_socket(client.server, view.connect_url) as connection:
        yield Terminal(connection)
