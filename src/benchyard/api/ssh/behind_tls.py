"""Ssh on the port of HTTPS: a client that asks for a name below `ssh.` speaks ssh inside TLS."""

import asyncio

from benchyard.api.log import logger
from benchyard.api.protocol import BoundedHttp
from benchyard.api.ssh.carrying import speak
from benchyard.api.ssh.opening import SshServer, is_for_ssh
from benchyard.api.tls import Tls
from benchyard.api.tunnels.streams import Stream, taken_over
from benchyard.errors import NotSupported


class SshBehindTls:
    """Takes those connections from the HTTP server as soon as they are made."""

    def __init__(self, server: SshServer, tls: Tls | None) -> None:
        self._server = server
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, connection: BoundedHttp) -> bool:
        """Whether this connection is ours; then it is looked after from here on."""
        if self._tls is None:
            return False
        name = self._tls.names.get(connection.transport.get_extra_info("ssl_object"), "")
        if not is_for_ssh(name):
            return False
        # Before its first byte comes in.
        stream = taken_over(connection.transport, b"", is_all=False)
        task = asyncio.ensure_future(self._speak(connection, stream))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _speak(self, connection: BoundedHttp, stream: Stream) -> None:
        try:
            await speak(await self._server.ready(), stream)
        except NotSupported as error:
            logger.warning("a client was sent away: %s", error.message)
            stream.close()
        finally:
            connection.leave()

    async def close(self) -> None:
        """End them all."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
