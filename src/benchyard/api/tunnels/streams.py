"""Byte streams for tunnels: bytes pass to the other side as fast as it takes them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

CHUNK_BYTES = 64 * 1024
IDLE_SECONDS = 600.0
"""Seconds without any byte in either direction after which a tunnel's connection ends."""
_CLOSE_SECONDS = 5.0


@dataclass(frozen=True)
class ByteStream:
    """Both directions of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Send bytes, waiting while the other side is slow; raises OSError when it is gone."""
        self.writer.write(data)
        await self.writer.drain()

    def end(self) -> None:
        """Signal the end of this direction; close both if the connection cannot end one alone."""
        if self.writer.can_write_eof():
            self.writer.write_eof()
        else:
            self.close()

    def close(self) -> None:
        """Close after the last bytes are taken, or after a while if they are not."""
        self.writer.close()
        asyncio.get_running_loop().call_later(_CLOSE_SECONDS, self.writer.transport.abort)


@asynccontextmanager
async def open_stream(descriptor: int) -> AsyncIterator[ByteStream]:
    """Open a connected descriptor as a stream, which is closed in the end."""
    sock = socket.socket(fileno=descriptor)
    try:
        stream = ByteStream(*await asyncio.open_connection(sock=sock, limit=CHUNK_BYTES))
    except BaseException:
        sock.close()
        raise
    try:
        yield stream
    finally:
        stream.close()


def stream_from_transport(transport: asyncio.Transport, early: bytes, *, is_all: bool) -> ByteStream:
    """Turn a connection that spoke another protocol into a stream that begins with these bytes."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(CHUNK_BYTES)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    if early:
        reader.feed_data(early)
    if is_all:
        reader.feed_eof()
    transport.resume_reading()
    return ByteStream(reader, asyncio.StreamWriter(transport, protocol, reader, loop))


class IdleClock:
    """Clock of the time since bytes last passed."""

    def __init__(self, on_use: Callable[[], None]) -> None:
        self._on_use = on_use
        self._last = asyncio.get_running_loop().time()

    def used(self) -> None:
        """Note that bytes pass."""
        self._last = asyncio.get_running_loop().time()
        self._on_use()

    async def over(self) -> None:
        """Return once nothing has passed for too long."""
        left = IDLE_SECONDS
        while left > 0:
            await asyncio.sleep(left)
            left = self._last + IDLE_SECONDS - asyncio.get_running_loop().time()


async def carry(ours: ByteStream, theirs: ByteStream, idling: IdleClock) -> None:
    """Carry bytes both ways until both sides have ended, or one is gone."""
    ways = [asyncio.ensure_future(_carry(*way, idling)) for way in ((ours, theirs), (theirs, ours))]
    try:
        await asyncio.gather(*ways)
    except OSError:
        return
    finally:
        for way in ways:
            way.cancel()
        await asyncio.wait(ways)


async def _carry(source: ByteStream, target: ByteStream, idling: IdleClock) -> None:
    while data := await source.reader.read(CHUNK_BYTES):
        idling.used()
        await target.send(data)
    target.end()
