"""An asyncio interface to sockets that carry messages with descriptors."""

import asyncio
import json
import os
import socket
from collections.abc import Callable
from typing import Any

from benchyard.devboxes.guest import wire

Handler = Callable[[dict[str, Any] | None, list[int]], None]


class Channel:
    """A connection: `send` waits while the other side is slow; the handler receives each message."""

    def __init__(self, sock: socket.socket, handler: Handler) -> None:
        self._socket = sock
        self._handler = handler
        self._loop = asyncio.get_running_loop()
        self._open = True
        sock.setblocking(False)
        self._loop.add_reader(sock.fileno(), self._readable)

    async def send(self, message: dict[str, Any], descriptors: list[int] | None = None) -> None:
        """Send one message; raise OSError if the other side is gone."""
        data = [json.dumps(message).encode()]
        control = wire.ancillary(descriptors or [])
        while True:
            if not self._open:
                raise BrokenPipeError(32, "the connection is closed")
            try:
                self._socket.sendmsg(data, control)
                return
            except BlockingIOError:
                await self._writable()

    async def _writable(self) -> None:
        # A second descriptor, because the event loop accepts each one only once.
        descriptor = os.dup(self._socket.fileno())
        ready = asyncio.Event()
        self._loop.add_writer(descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            self._loop.remove_writer(descriptor)
            os.close(descriptor)

    def _readable(self) -> None:
        while self._open:
            try:
                message, descriptors = wire.receive(self._socket)
            except BlockingIOError:
                return
            except OSError:
                message, descriptors = None, []
            if message is None:
                self.close()
            self._handler(message, descriptors)

    def close(self) -> None:
        """Close this side; the handler is not called again."""
        if self._open:
            self._open = False
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
