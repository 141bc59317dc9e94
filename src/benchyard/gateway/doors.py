"""Doors of devboxes, served by the gateway: listening sockets for models and for allowed hosts."""

import asyncio
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from benchyard.errors import UsageError
from benchyard.gateway.egress import proxy
from benchyard.gateway.egress.rules import Rules
from benchyard.gateway.proxy.bodies import RequestBodies
from benchyard.gateway.proxy.server import ModelProxy

MOST_CONNECTIONS = 512
"""Largest number of open connections of a devbox at a door."""
_CLOSING_SECONDS = 1.0


class Door(ABC):
    """A listening socket that is being served."""

    @abstractmethod
    async def open(self) -> None:
        """Begin to serve."""

    @abstractmethod
    async def close(self) -> None:
        """Stop serving: the socket is closed, and every connection with it."""


class ModelDoor(Door):
    """Door that passes on calls of models."""

    def __init__(self, devbox_id: str, listener: socket.socket, proxy: ModelProxy) -> None:
        self._devbox_id = devbox_id
        self._listener = listener
        self._proxy = proxy
        self._bodies = RequestBodies()
        self._runner: web.ServerRunner | None = None

    async def open(self) -> None:
        server = _Server(
            self._serve,
            handler_cancellation=True,
            auto_decompress=False,
            access_log=None,
            max_field_size=32 * 1024,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=_CLOSING_SECONDS)
        await self._runner.setup()
        await web.SockSite(self._runner, self._listener).start()

    async def take(self, connection: socket.socket) -> None:
        """Serve a connection that did not come through the socket."""
        assert self._runner is not None
        assert self._runner.server is not None
        connection.setblocking(False)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._runner.server, connection)
        except BaseException:
            connection.close()
            raise

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        self._listener.close()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        return await self._proxy.serve(request, self._devbox_id, self._bodies)


class _Server(web.Server):
    """HTTP server that aborts connections beyond a limit."""

    def connection_made(self, handler: RequestHandler, transport: Any) -> None:
        super().connection_made(handler, transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()


class ServedDoors:
    """Every door of this process, by devbox and kind."""

    def __init__(self) -> None:
        self._doors: dict[tuple[str, str], tuple[int, Door]] = {}
        self._changing = asyncio.Lock()
        """Lock for replacing doors: without it, one of two opened at once could be left open for ever."""

    def has(self, devbox_id: str, kind: str, listener: socket.socket) -> bool:
        """Tell whether this very socket is served already, as when a restarted server sends it again."""
        inode, _door = self._doors.get((devbox_id, kind), (None, None))
        return inode == os.fstat(listener.fileno()).st_ino

    def find(self, devbox_id: str, kind: str) -> Door | None:
        """Return the door of a kind that a devbox has; None if there is none."""
        return self._doors.get((devbox_id, kind), (0, None))[1]

    async def put(self, devbox_id: str, kind: str, listener: socket.socket, door: Door) -> None:
        """Serve a door in place of the devbox's previous one."""
        async with self._changing:
            await self._close(devbox_id, kind)
            await door.open()
            self._doors[devbox_id, kind] = (os.fstat(listener.fileno()).st_ino, door)

    async def close(self, devbox_id: str) -> None:
        """Close the doors of a devbox; a devbox without doors is fine."""
        for name, kind in [door for door in self._doors if door[0] == devbox_id]:
            await self.close_kind(name, kind)

    async def close_kind(self, devbox_id: str, kind: str) -> None:
        """Close one kind of door of a devbox; a door that does not exist is fine."""
        async with self._changing:
            await self._close(devbox_id, kind)

    async def close_all(self) -> None:
        """Close every door."""
        for devbox_id in list(self.devboxes()):
            await self.close(devbox_id)

    def devboxes(self) -> Iterator[str]:
        """Yield the ids of devboxes with doors."""
        yield from dict.fromkeys(devbox_id for devbox_id, _kind in self._doors)

    async def _close(self, devbox_id: str, kind: str) -> None:
        known = self._doors.pop((devbox_id, kind), None)
        if known is not None:
            await known[1].close()


def listener_from_descriptor(descriptor: int) -> socket.socket:
    """Return the listening socket of a descriptor, which the socket then owns; raises UsageError."""
    try:
        sock = socket.socket(fileno=descriptor)
    except OSError as error:
        os.close(descriptor)
        raise UsageError("this is not a listening socket") from error
    if sock.type != socket.SOCK_STREAM or not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        sock.close()
        raise UsageError("this is not a listening socket")
    sock.setblocking(False)
    return sock


EGRESS = "egress"


class EgressDoor(Door):
    """Door to the hosts that its rules allow; the rules may change while it is open."""

    def __init__(self, listener: socket.socket, rules: Rules) -> None:
        self._listener = listener
        self._rules = rules
        self._served: proxy.EgressProxy | None = None

    async def open(self) -> None:
        self._served = await proxy.serve_egress(self._listener, lambda: self._rules)

    async def close(self) -> None:
        if self._served is not None:
            await self._served.close()
        self._listener.close()

    def refused(self) -> dict[str, int]:
        """Return how often each host was refused, by its name and port."""
        refusals = self._served.log.refused() if self._served is not None else []
        return {f"{entry.host}:{entry.port}": entry.count for entry in refusals}

    def change(self, rules: Rules) -> None:
        """Apply other rules, and end connections that they do not allow."""
        self._rules = rules
        if self._served is not None:
            self._served.enforce()


class EgressOperations:
    """Operations about egress that the server can request."""

    def __init__(self, doors: ServedDoors) -> None:
        self._doors = doors
        self._open: dict[str, EgressDoor] = {}

    async def serve(self, message: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Serve a devbox's door by these rules; the same socket again only changes the rules."""
        devbox_id, rules = str(message["devbox_id"]), Rules.from_json(message["rules"])
        listener = listener_from_descriptor(os.dup(descriptors[0]))
        known = self._open.get(devbox_id)
        if known is not None and self._doors.has(devbox_id, EGRESS, listener):
            listener.close()
            known.change(rules)
            return {}
        self._open[devbox_id] = EgressDoor(listener, rules)
        await self._doors.put(devbox_id, EGRESS, listener, self._open[devbox_id])
        return {}

    async def refused(self, message: dict[str, Any], _descriptors: list[int]) -> dict[str, Any]:
        """Return how often each host was refused to a devbox."""
        door = self._open.get(str(message["devbox_id"]))
        return {"refused": door.refused() if door is not None else {}}

    async def end(self, message: dict[str, Any], _descriptors: list[int]) -> dict[str, Any]:
        """Stop serving a devbox's door."""
        devbox_id = str(message["devbox_id"])
        self._open.pop(devbox_id, None)
        await self._doors.close_kind(devbox_id, EGRESS)
        return {}
