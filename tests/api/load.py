"""Many clients at once over plain sockets, and what a server's process uses, for tests of load and attack."""

import asyncio
import json
import resource
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from benchyard.testing.server import RunningServer

MB = 1024**2
_PATIENCE_SECONDS = 120.0


def allow_descriptors(number: int) -> None:
    """Let this process open that many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < number:
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))


def memory(server: RunningServer) -> int:
    """The resident memory of the server's process; its peak counts from now on."""
    # A forked server begins with the peak of the process that it was forked from.
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")
    return _status(server, "VmRSS") * 1024


def peak_memory(server: RunningServer) -> int:
    """The most resident memory the server's process had since `memory` was asked for."""
    return _status(server, "VmHWM") * 1024


def descriptors(server: RunningServer) -> int:
    """How many files the server has open."""
    return sum(1 for _ in Path(f"/proc/{server.pid}/fd").iterdir())


def _status(server: RunningServer, name: str) -> int:
    for line in Path(f"/proc/{server.pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise AssertionError(f"the kernel tells no {name}")


def address(server: RunningServer) -> tuple[str, int]:
    """Where it listens."""
    parts = urlsplit(server.url)
    assert parts.hostname
    assert parts.port
    return parts.hostname, parts.port


def head(server: RunningServer, method: str, path: str, *headers: str) -> bytes:
    """The beginning of a request with the server's first key, up to and with the empty line."""
    lines = [f"{method} {path} HTTP/1.1", "host: x", f"authorization: Bearer {server.key}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def request(server: RunningServer, method: str, path: str, body: object = None) -> bytes:
    """A whole request, after whose answer the connection is closed."""
    content = b"" if body is None else json.dumps(body).encode()
    kind = ("content-type: application/json", f"content-length: {len(content)}", "connection: close")
    return head(server, method, path, *kind) + content


def unread(server: RunningServer, sent: bytes, receive_buffer: int = 4096) -> socket.socket:
    """A connection that has asked for something, with next to no space for the answer."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(30)
    connection.connect(address(server))
    connection.sendall(sent)
    return connection


def is_dropped(connection: socket.socket) -> bool:
    """Whether the other side has ended this connection, read or not."""
    with connection.dup() as copy:
        copy.setblocking(False)
        try:
            copy.send(b"\r\n")
            return copy.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0
        except BlockingIOError:
            return False
        except OSError:
            return True


@asynccontextmanager
async def connected(
    server: RunningServer,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection, as streams."""
    reader, writer = await asyncio.open_connection(*address(server))
    try:
        yield reader, writer
    finally:
        writer.close()


async def answer(server: RunningServer, sent: bytes) -> tuple[int, bytes]:
    """The status and body of the answer to one request, read to the end of the connection."""
    async with asyncio.timeout(_PATIENCE_SECONDS), connected(server) as (reader, writer):
        writer.write(sent)
        status = int((await reader.readline()).split()[1])
        headers = await reader.readuntil(b"\r\n\r\n")
        body = b"".join([piece async for piece in _pieces(reader, is_chunked=b"chunked" in headers.lower())])
    return status, body


async def _pieces(reader: asyncio.StreamReader, *, is_chunked: bool) -> AsyncIterator[bytes]:
    while is_chunked and (size := int(await reader.readline(), 16)):
        yield await reader.readexactly(size)
        await reader.readline()
    while not is_chunked and (piece := await reader.read(65536)):
        yield piece


async def events(server: RunningServer, path: str, on_text: Callable[[str], None]) -> None:
    """Read a stream of server-sent events to its end, and hand on the output in each."""
    async with asyncio.timeout(_PATIENCE_SECONDS), connected(server) as (reader, writer):
        writer.write(head(server, "GET", path, "connection: close"))
        status = int((await reader.readline()).split()[1])
        assert status == 200, path
        await reader.readuntil(b"\r\n\r\n")
        rest = b""
        async for piece in _pieces(reader, is_chunked=True):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line.startswith(b"data: "):
                    on_text(json.loads(line[6:])["output"])
