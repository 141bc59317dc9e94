"""Small servers on loopback for tests of the egress proxy, and the proxy before them."""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from benchyard.gateway.egress.proxy import EgressOptions, EgressProxy, serve_egress
from benchyard.gateway.egress.rules import Address, Block, Rules

PATIENCE_SECONDS = 60.0
LOOPBACK = ipaddress.ip_address("127.0.0.1")
ANY_LOOPBACK = Block.of("127.0.0.0/8")
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class World:
    """A proxy, what it was told of names, and what it was asked to look up."""

    def __init__(self, rules: Rules, **ways: Any) -> None:
        self.rules = rules
        self.names: dict[str, Sequence[Address]] = {}
        self.looked_up: list[str] = []
        self.ways = replace(EgressOptions(resolve=self._resolve), **ways)
        self.egress: EgressProxy
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def _resolve(self, name: str, _port: int) -> Sequence[Address]:
        self.looked_up.append(name)
        if name not in self.names:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return self.names[name]

    async def open(self) -> None:
        """Start the proxy."""
        sock = socket.create_server(("127.0.0.1", 0))
        self.port = sock.getsockname()[1]
        self.egress = await serve_egress(sock, lambda: self.rules, self.ways)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the proxy, as from inside the devbox."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writers.append(writer)
        return reader, writer

    async def close(self) -> None:
        """End the proxy and all who are connected to it."""
        await self.egress.close()
        for writer in self._writers:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def said(self, request: bytes) -> bytes:
        """All that the proxy answers until it closes."""
        reader, writer = await self.connect()
        writer.write(request)
        return await reader.read()

    async def tunnel(self, authority: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A tunnel that the proxy let through."""
        reader, writer = await self.connect()
        writer.write(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        return reader, writer


@asynccontextmanager
async def server(handler: Handler) -> AsyncIterator[int]:
    """A server on loopback; its port."""

    async def handled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
            writer.close()
        except (OSError, asyncio.IncompleteReadError):
            # Whoever asked has gone.
            return
        finally:
            if not writer.is_closing():
                writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    tasks: set[asyncio.Task[None]] = set()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.ensure_future(handled(reader, writer)))

    made = await asyncio.start_server(begin, "127.0.0.1", 0)
    try:
        yield made.sockets[0].getsockname()[1]
    finally:
        made.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def in_world(test: Callable[[World], Awaitable[None]], rules: Rules | None = None, **ways: Any) -> None:
    """Run a test with a proxy of its own."""

    async def live() -> None:
        world = World(rules or Rules.of(blocks=[ANY_LOOPBACK]), **ways)
        await world.open()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await test(world)
        finally:
            await world.close()

    asyncio.run(live())
