"""Ssh over connections that are something else at first: TLS of the right name, or a websocket."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchyard.api.ssh.opening import Serving
from benchyard.api.tunnels.streams import Idling, Stream, carry, opened


@asynccontextmanager
async def spoken(serving: Serving) -> AsyncIterator[Stream]:
    """A stream at whose other end the ssh server is."""
    ours, theirs = socket.socketpair()
    speaking = asyncio.ensure_future(serving.serve(theirs))
    try:
        async with opened(ours.detach()) as stream:
            yield stream
    finally:
        # The server sees the end of the stream, and has until then to put away what it had open.
        await asyncio.wait({speaking})


async def speak(serving: Serving, outside: Stream) -> None:
    """Let a client that is connected otherwise speak ssh, to the end."""
    try:
        async with spoken(serving) as inside:
            await carry(outside, inside, Idling(lambda: None))
    finally:
        outside.close()
