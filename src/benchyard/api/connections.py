"""Connections of clients: their limits, closing of idle ones, and the connection below each request."""

import asyncio
import fcntl
import resource
import socket
import sys
import termios
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from starlette.types import Scope

from benchyard.api.log import logger

_MOST_DESCRIPTORS = 65_536
_OWN_DESCRIPTORS = 1024
"""Descriptors kept for files, devboxes and the database."""
_LOOKS = 4
_MOST_STREAMS = 10_000
"""Limit for the requests of all clients on shared connections, since connections alone do not limit load."""
_BYTES_ACKED = slice(120, 128)
"""Position of the number of acknowledged bytes in the kernel's `tcp_info`."""


class ClientConnection(Protocol):
    """A client's connection, in any protocol."""

    transport: asyncio.Transport


@dataclass
class _Progress:
    acked: int
    since: float


class ConnectionLimits:
    """Open connections; `seconds` limits the time without a request, or without taking bytes of an answer."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most = most
        self.seconds = seconds
        self.streams: set[object] = set()
        """Requests on connections that carry several at once."""
        self._waiting: dict[ClientConnection, None] = {}
        self._taking: WeakKeyDictionary[ClientConnection, _Progress] = WeakKeyDictionary()

    def waits(self, connection: ClientConnection) -> None:
        """Note that a connection has no request under way."""
        self._waiting.pop(connection, None)
        self._waiting[connection] = None

    def works(self, connection: ClientConnection) -> None:
        """Note that a connection has a request under way, or is gone."""
        self._waiting.pop(connection, None)

    def has_room(self, connected: int) -> bool:
        """Tell whether one more connection fits; if needed, close the one that is idle for longest."""
        if connected <= self.most:
            return True
        if not self._waiting:
            return False
        oldest = next(iter(self._waiting))
        del self._waiting[oldest]
        oldest.transport.abort()
        return True

    def has_room_for_stream(self) -> bool:
        """Tell whether one more request fits on the connections that carry several."""
        return len(self.streams) < _MOST_STREAMS

    async def watch(self, connections: Iterable[ClientConnection]) -> None:
        """Drop connections whose clients do not take the waiting bytes of their answers; runs for ever."""
        while True:
            await asyncio.sleep(self.seconds / _LOOKS)
            for connection in list(connections):
                if self._is_stuck(connection, asyncio.get_running_loop().time()):
                    logger.info("dropped a client that did not read its answer")
                    connection.transport.abort()

    def _is_stuck(self, connection: ClientConnection, now: float) -> bool:
        state = _state(connection.transport)
        if state is None or not state[0]:
            self._taking.pop(connection, None)
            return False
        taking = self._taking.get(connection)
        if taking is None or taking.acked != state[1]:
            self._taking[connection] = _Progress(state[1], now)
            return False
        return now - taking.since >= self.seconds


def _state(transport: asyncio.Transport) -> tuple[int, int] | None:
    """Return the numbers of waiting and acknowledged bytes; None for a closed connection."""
    sock: socket.socket | None = transport.get_extra_info("socket")
    try:
        if sock is None or sock.fileno() < 0:
            return None
        queued = int.from_bytes(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
        known = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_ACKED.stop)
    except OSError:
        return None
    waiting = queued + transport.get_write_buffer_size()
    return waiting, int.from_bytes(known[_BYTES_ACKED], sys.byteorder)


def raise_descriptor_limit() -> None:
    """Raise this process's limit of open files as far as allowed, up to a maximum."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _within_reason(hard)
    if _within_reason(soft) < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def most_connections(asked: int) -> int:
    """Return how many connections to allow, so that descriptors remain for everything else."""
    descriptors = _within_reason(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    return min(asked, max(descriptors - _OWN_DESCRIPTORS, descriptors // 2))


def _within_reason(descriptors: int) -> int:
    is_endless = descriptors == resource.RLIM_INFINITY
    return _MOST_DESCRIPTORS if is_endless else min(descriptors, _MOST_DESCRIPTORS)


_KEY = "benchyard.underneath"


class RequestCarrier(Protocol):
    """Connection or stream that carries one request and its answer."""

    def cut(self) -> None:
        """End an answer that cannot be finished, so that the client does not take it for complete."""


def carrier_extensions(carrier: RequestCarrier) -> dict[str, Any]:
    """Return the extensions of a scope that let `carrier_of` find the carrier."""
    return {_KEY: {"held": carrier}}


def carrier_of(scope: Scope) -> RequestCarrier:
    """Return the carrier of a request."""
    carrier: RequestCarrier = scope["extensions"][_KEY]["held"]
    return carrier
