"""The bytes of a terminal session: what is typed goes out, what is printed comes in."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urljoin

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from benchyard.client.client import AsyncClient
from benchyard.client.core import Server
from benchyard.client.failures import error_from
from benchyard.client.trust import tls_context
from benchyard.errors import BenchyardError, ServerUnreachable

LARGEST_FRAME = 4 * 1024 * 1024
ENDED = 1000
EXIT_REASON = re.compile(r"^exit (\d{1,3})$")


class Terminal:
    """An open terminal session."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def type(self, data: bytes) -> None:
        """Send what was typed; what comes after the end is dropped."""
        try:
            await self._connection.send(data)
        except ConnectionClosed:
            return

    async def printed(self) -> AsyncIterator[bytes]:
        """What the terminal prints, to the end of the connection; `exit_status` then tells how it ended."""
        try:
            async for frame in self._connection:
                yield frame if isinstance(frame, bytes) else frame.encode()
        except ConnectionClosed:
            return

    @property
    def has_ended(self) -> bool:
        """Whether the shell inside has ended, and not only the connection."""
        return self._connection.close_code == ENDED

    @property
    def exit_status(self) -> int:
        """The exit status of the shell, 0 where it is not known."""
        told = EXIT_REASON.match(self._connection.close_reason or "")
        return int(told[1]) if told else 0


@asynccontextmanager
async def open_terminal(
    client: AsyncClient, devbox_id: str, session: str, columns: int, rows: int
) -> AsyncIterator[Terminal]:
    """Find or make a terminal session and connect to it; closing only leaves it, and it waits a while."""
    view = await client.pty.connect(devbox_id, session, columns, rows)
    try:
        connection = await _connect(client.server, view.connect_url)
    except InvalidStatus as error:
        raise error_from(error.response.status_code, bytes(error.response.body or b"")) from error
    except (OSError, InvalidHandshake, TimeoutError) as error:
        raise ServerUnreachable(f"cannot open the terminal: {error}") from error
    try:
        yield Terminal(connection)
    finally:
        await connection.close()


async def _connect(server: Server, path: str) -> ClientConnection:
    url = urljoin(server.url + "/", path)
    if not url.startswith(server.url):
        raise BenchyardError("the server names another server for its terminals; refusing to send it the key")
    return await connect(
        "ws" + url.removeprefix("http"),
        additional_headers={"authorization": f"Bearer {server.key}"},
        max_size=LARGEST_FRAME,
        proxy=None,
        ssl=tls_context(server),
    )
