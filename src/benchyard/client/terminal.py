"""The bytes of a terminal session: what is typed goes out, what is printed comes in."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from benchyard.client.client import AsyncClient
from benchyard.client.sockets import opened

ENDED = (4000, 1000)
"""How a server closes when the shell has ended: today, and before."""
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
        return self._connection.close_code in ENDED

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
    async with opened(client.server, view.connect_url) as connection:
        yield Terminal(connection)
