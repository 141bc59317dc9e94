"""Traffic through the egress proxy: tunnels are passed unread, plain HTTP is written anew."""

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus

import h11

from benchyard.gateway.proxy.requests import HOP_HEADERS

MOST_HEAD = 64 * 1024
CHUNK = 64 * 1024
_LINGER_SECONDS = 5.0
_LINGER_READS = 64
_ONE_HOP = frozenset(name.encode() for name in HOP_HEADERS)

Header = tuple[bytes, bytes]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ProxySide:
    """An end of a proxied connection: the devbox's, or the host's."""

    def __init__(self, streams: Streams, role: type[h11.CLIENT] | type[h11.SERVER]) -> None:
        self.reader, self.writer = streams
        self.http = h11.Connection(role, max_incomplete_event_size=MOST_HEAD)
        self.limit: asyncio.Timeout | None = None
        self.patience = 0.0

    def used(self) -> None:
        """Restart the idle timeout, because data has passed."""
        if self.limit is not None:
            self.limit.reschedule(asyncio.get_running_loop().time() + self.patience)

    async def next(self) -> h11.Event:
        """Return the next event; raises h11.RemoteProtocolError if no more can come."""
        while True:
            event = self.http.next_event()
            if event is h11.NEED_DATA:
                self.http.receive_data(await self.reader.read(CHUNK))
                self.used()
            elif isinstance(event, h11.Event) and not isinstance(event, h11.ConnectionClosed):
                return event
            else:
                raise h11.RemoteProtocolError("the connection ended")

    async def send(self, event: h11.Event) -> None:
        """Send one event."""
        if data := self.http.send(event):
            self.writer.write(data)
            await self.writer.drain()
            self.used()

    async def answer(self, status: int, text: str) -> None:
        """Answer with a line of text; the connection ends after that."""
        body = f"{text}\n".encode()
        headers = [
            ("content-type", "text/plain; charset=utf-8"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        reason = HTTPStatus(status).phrase.encode()
        await self.send(h11.Response(status_code=status, headers=headers, reason=reason))
        await self.send(h11.Data(body))
        await self.send(h11.EndOfMessage())
        await self._hear_out()

    async def _hear_out(self) -> None:
        """Read data already on its way: unread data at closing would make the peer lose the answer."""
        self.writer.write_eof()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_SECONDS):
                for _ in range(_LINGER_READS):
                    if not await self.reader.read(CHUNK):
                        return

    async def close(self) -> None:
        """Send the remaining data, and close."""
        self.writer.close()
        await self.writer.wait_closed()

    async def abort(self) -> None:
        """Close at once, dropping unsent data."""
        self.writer.transport.abort()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


@dataclass(frozen=True)
class PlainRequest:
    """A plain HTTP request, with its host and path."""

    request: h11.Request
    authority: bytes
    path: bytes


async def exchange_plain(caller: ProxySide, upstream: ProxySide, request: PlainRequest) -> None:
    """Pass one request on and its answer back; raises h11.RemoteProtocolError or OSError."""
    if caller.http.they_are_waiting_for_100_continue:
        await caller.send(h11.InformationalResponse(status_code=100, headers=[]))
    await upstream.send(_request(request))
    uploading = asyncio.ensure_future(_upload(caller, upstream))
    try:
        await _download(upstream, caller)
    finally:
        uploading.cancel()
        await asyncio.wait({uploading})
        if not uploading.cancelled():
            # A caller with an invalid body gets no other request through this connection.
            uploading.exception()


def _request(request: PlainRequest) -> h11.Request:
    headers = [
        (b"host", request.authority),
        *_end_to_end_headers(request.request.headers, {b"host", b"expect"}),
    ]
    return h11.Request(
        method=request.request.method, target=request.path, headers=[*headers, (b"connection", b"close")]
    )


def _end_to_end_headers(headers: Iterable[Header], dropped: set[bytes]) -> list[Header]:
    """Return the headers for the next hop: no hop-by-hop ones, and a single way to mark the body's end."""
    headers_kept = list(headers)
    named = {
        token.strip().lower()
        for name, value in headers_kept
        if name == b"connection"
        for token in value.split(b",")
    }
    is_chunked = any(name == b"transfer-encoding" for name, _value in headers_kept)
    left_out = _ONE_HOP | dropped | named | ({b"content-length"} if is_chunked else set())
    passing = [(name, value) for name, value in headers_kept if name not in left_out]
    return [*passing, (b"transfer-encoding", b"chunked")] if is_chunked else passing


async def _upload(caller: ProxySide, upstream: ProxySide) -> None:
    while True:
        try:
            event = await caller.next()
        except (OSError, h11.RemoteProtocolError):
            # Abort the upstream, which would otherwise keep waiting for the rest of the request.
            upstream.writer.transport.abort()
            raise
        if isinstance(event, h11.Data):
            await upstream.send(event)
        elif isinstance(event, h11.EndOfMessage):
            await upstream.send(h11.EndOfMessage())
            return


async def _download(upstream: ProxySide, caller: ProxySide) -> None:
    while True:
        event = await upstream.next()
        if isinstance(event, h11.Response):
            headers = _end_to_end_headers(event.headers, set())
            await caller.send(h11.Response(status_code=event.status_code, headers=headers))
        elif isinstance(event, h11.Data):
            await caller.send(event)
        elif isinstance(event, h11.EndOfMessage):
            await caller.send(h11.EndOfMessage())
            return


async def carry_tunnel(caller: ProxySide, upstream: ProxySide) -> None:
    """Pass bytes both ways until both sides have finished, or one is gone."""
    early = caller.http.trailing_data[0]
    if early:
        upstream.writer.write(early)
    ways = [
        asyncio.ensure_future(_pump(caller, upstream)),
        asyncio.ensure_future(_pump(upstream, caller)),
    ]
    try:
        # A failing direction ends the other; a direction that reaches its end does not.
        await asyncio.gather(*ways)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.wait(ways)


async def _pump(source: ProxySide, target: ProxySide) -> None:
    while data := await source.reader.read(CHUNK):
        source.used()
        target.writer.write(data)
        await target.writer.drain()
        source.used()
    if target.writer.can_write_eof():
        target.writer.write_eof()
