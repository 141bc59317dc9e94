"""The egress proxy: serves a door of a devbox and connects to the hosts that the devbox may reach."""

import asyncio
import contextlib
import ipaddress
import re
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import h11

from benchyard.gateway.egress.exchange import PlainRequest, ProxySide, Streams, carry_tunnel, exchange_plain
from benchyard.gateway.egress.rules import (
    Address,
    Host,
    Rules,
    authority_of,
    is_own,
    missing_rule,
    plain_address,
)

MOST_ENTRIES = 256
_MOST_HOST = 255


@dataclass
class EgressLogEntry:
    """Requests of a devbox for one host and port, either passed or refused."""

    host: str
    port: int
    refused: str | None
    """The reason, with the missing rule; None if the requests were passed."""
    count: int = 0
    first_ms: int = 0
    last_ms: int = 0


class EgressLog:
    """Log of requests by host and port, in the order of their first request."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int, bool], EgressLogEntry] = {}
        self.left_out = 0
        """Number of requests without an entry, because there were too many different hosts."""

    def note(self, host: str, port: int, refused: str | None = None) -> None:
        """Count one request."""
        now = time.time_ns() // 1_000_000
        key = (host[:_MOST_HOST], port, refused is None)
        entry = self._entries.get(key)
        if entry is None:
            if len(self._entries) >= MOST_ENTRIES:
                self.left_out += 1
                return
            entry = self._entries[key] = EgressLogEntry(key[0], port, refused, first_ms=now)
        entry.refused = refused
        entry.count += 1
        entry.last_ms = now

    def refused(self) -> list[EgressLogEntry]:
        """Return the entries of refused requests."""
        return [entry for entry in self._entries.values() if entry.refused is not None]

    def passed(self) -> list[EgressLogEntry]:
        """Return the entries of passed requests."""
        return [entry for entry in self._entries.values() if entry.refused is None]

    def to_json(self) -> dict[str, Any]:
        """Return the log as JSON, for another process."""
        return {"entries": [asdict(entry) for entry in self._entries.values()], "left_out": self.left_out}


Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]

_HTTP_PORT = 80
_WAITING = 512
_MOST_ADDRESSES = 4
"""Largest number of addresses of a name that are tried."""
_CAN_ANSWER = (h11.IDLE, h11.SEND_RESPONSE)
_PLAIN = re.compile(r"http://([^/?#@\\]+)(/[^#]*|\?[^#]*)?", re.IGNORECASE)


async def resolve(name: str, port: int) -> list[Address]:
    """Return the addresses of a name, as this machine resolves it; raises OSError."""
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return list(
        dict.fromkeys(
            plain_address(ipaddress.ip_address(str(address[4][0]).partition("%")[0])) for address in addresses
        )
    )


@dataclass(frozen=True)
class EgressOptions:
    """Options of the proxy: name resolution, and limits for one devbox."""

    resolve: Resolve = resolve
    own: Callable[[Address], bool] = is_own
    most_connections: int = 128
    most_lookups: int = 4
    """Concurrent lookups of names."""
    most_requests: int = 100
    """Plain requests, one after the other, on one connection."""
    head_seconds: float = 30.0
    connect_seconds: float = 30.0
    idle_seconds: float = 600.0


class _NoWay(Exception):
    """A host cannot be reached; the message gives the reason, `status` the HTTP status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class _Passage:
    """An open connection to a host, and the task that passes its bytes."""

    host: Host
    port: int
    address: Address
    task: "asyncio.Task[None] | None"


class EgressProxy:
    """The proxy of one devbox; made by `serve_egress`."""

    def __init__(self, rules: Callable[[], Rules], ways: EgressOptions) -> None:
        self.log = EgressLog()
        self._rules = rules
        self._ways = ways
        self._lookups = asyncio.Semaphore(ways.most_lookups)
        self._visits: set[asyncio.Task[None]] = set()
        self._passages: set[_Passage] = set()
        self._server: asyncio.Server | None = None

    async def open(self, sock: socket.socket) -> None:
        """Begin to serve a listening socket."""
        self._server = await asyncio.start_server(self._visit, sock=sock, backlog=_WAITING)

    async def close(self) -> None:
        """Accept no more connections, and end the open ones; the devbox keeps the door."""
        if self._server is not None:
            self._server.close()
        for task in (visits := set(self._visits)):
            task.cancel()
        if visits:
            await asyncio.wait(visits)

    def enforce(self) -> int:
        """End open connections that the rules no longer allow, and return their number."""
        rules = self._rules()
        ended = [passage for passage in self._passages if not self._allows(rules, passage)]
        for passage in ended:
            if passage.task is not None:
                passage.task.cancel()
        return len(ended)

    def _allows(self, rules: Rules, passage: _Passage) -> bool:
        by_name = isinstance(passage.host, str)
        if isinstance(passage.host, str) and not rules.allows_name(passage.host):
            return False
        return rules.allows_address(passage.address, passage.port, by_name=by_name, own=self._ways.own)

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caller = ProxySide((reader, writer), h11.SERVER)
        task = asyncio.current_task()
        assert task is not None
        is_welcome = len(self._visits) < self._ways.most_connections
        self._visits.add(task)
        try:
            await (self._serve(caller) if is_welcome else self._send_away(caller))
            async with asyncio.timeout(self._ways.head_seconds):
                await caller.close()
        except (OSError, h11.ProtocolError, asyncio.CancelledError):
            # The caller went away, timed out, broke off, or is no longer allowed: no answer can be sent.
            return
        finally:
            await caller.abort()
            self._visits.discard(task)

    async def _send_away(self, caller: ProxySide) -> None:
        async with asyncio.timeout(self._ways.head_seconds):
            await caller.next()
            text = f"over {self._ways.most_connections} connections at the same time; close some first"
            await caller.answer(503, text)

    async def _serve(self, caller: ProxySide) -> None:
        for _ in range(self._ways.most_requests):
            try:
                async with asyncio.timeout(self._ways.head_seconds):
                    request = await caller.next()
                assert isinstance(request, h11.Request)
                if not await self._pass(caller, request):
                    return
            except _NoWay as error:
                await caller.answer(error.status, str(error))
                return
            except h11.RemoteProtocolError as error:
                if caller.http.their_state is not h11.ERROR or caller.http.our_state not in _CAN_ANSWER:
                    raise
                await caller.answer(error.error_status_hint, "this is not proper HTTP/1.1")
                return
            caller.http.start_next_cycle()

    async def _pass(self, caller: ProxySide, request: h11.Request) -> bool:
        """Serve one request; return False if it was the connection's last."""
        host, port, target = _target(request)
        async with self._reach(host, port) as upstream, self._idling(caller, upstream):
            if target is None:
                await caller.send(h11.Response(status_code=200, headers=[], reason=b"Connection established"))
                await carry_tunnel(caller, upstream)
                return False
            try:
                await exchange_plain(caller, upstream, target)
            except (OSError, h11.RemoteProtocolError) as error:
                if caller.http.our_state is not h11.SEND_RESPONSE:
                    raise
                raise _NoWay(502, f"{host} gave an invalid answer") from error
        return caller.http.our_state is h11.DONE and caller.http.their_state is h11.DONE

    @contextlib.asynccontextmanager
    async def _idling(self, *sides: ProxySide) -> AsyncIterator[None]:
        async with asyncio.timeout(self._ways.idle_seconds) as limit:
            for side in sides:
                side.limit, side.patience = limit, self._ways.idle_seconds
            try:
                yield
            finally:
                for side in sides:
                    side.limit = None

    @contextlib.asynccontextmanager
    async def _reach(self, host: Host, port: int) -> AsyncIterator[ProxySide]:
        addresses = await self._allowed_addresses(host, port)
        streams, address = await self._connect(host, port, addresses)
        upstream = ProxySide(streams, h11.CLIENT)
        passage = _Passage(host, port, address, asyncio.current_task())
        self._passages.add(passage)
        try:
            # The rules may have changed during connecting.
            if not self._allows(self._rules(), passage):
                raise self._refuse(host, port, is_name_allowed=False)
            yield upstream
        finally:
            self._passages.discard(passage)
            await upstream.abort()

    async def _allowed_addresses(self, host: Host, port: int) -> list[Address]:
        """Return the addresses of a host that may be reached, at least one; raises _NoWay."""
        rules = self._rules()
        if not isinstance(host, str):
            addresses: Sequence[Address] = [host]
        elif rules.allows_name(host):
            addresses = await self._look_up(host, port)
        else:
            raise self._refuse(host, port, is_name_allowed=False)
        by_name = isinstance(host, str)
        allowed = [
            address
            for address in addresses
            if rules.allows_address(address, port, by_name=by_name, own=self._ways.own)
        ]
        if not allowed:
            raise self._refuse(host, port, is_name_allowed=by_name)
        self.log.note(str(host), port)
        return allowed[:_MOST_ADDRESSES]

    def _refuse(self, host: Host, port: int, *, is_name_allowed: bool) -> _NoWay:
        text = missing_rule(host, port, is_name_allowed=is_name_allowed)
        self.log.note(str(host), port, text)
        return _NoWay(403, f"the devbox's network policy forbids this: {text}")

    async def _look_up(self, name: str, port: int) -> Sequence[Address]:
        try:
            async with asyncio.timeout(self._ways.connect_seconds), self._lookups:
                addresses = await self._ways.resolve(name, port)
        except (OSError, UnicodeError) as error:
            raise _NoWay(502, f"no address is known for {name}") from error
        if not addresses:
            raise _NoWay(502, f"no address is known for {name}")
        return addresses

    async def _connect(self, host: Host, port: int, addresses: Sequence[Address]) -> tuple[Streams, Address]:
        for address in addresses:
            try:
                async with asyncio.timeout(self._ways.connect_seconds):
                    return await asyncio.open_connection(str(address), port), address
            except OSError:
                # Try the next address.
                continue
        raise _NoWay(502, f"{host} port {port} does not answer")


def _target(request: h11.Request) -> tuple[Host, int, PlainRequest | None]:
    """Return the target host and port of a request, and the plain request unless it asks for a tunnel."""
    text = request.target.decode("latin-1")
    if request.method == b"CONNECT":
        return (*_authority(text, None), None)
    match = _PLAIN.fullmatch(text)
    if match is None:
        raise _NoWay(400, "this is a proxy: ask for http://HOST/PATH, or CONNECT to HOST:PORT")
    host, port = _authority(match[1], _HTTP_PORT)
    path = match[2] or "/"
    path = path if path.startswith("/") else f"/{path}"
    return (
        host,
        port,
        PlainRequest(request, _authority_text(host, port).encode("ascii"), path.encode("latin-1")),
    )


def _authority(text: str, default_port: int | None) -> tuple[Host, int]:
    try:
        return authority_of(text, default_port)
    except ValueError as error:
        raise _NoWay(400, str(error)) from error


def _authority_text(host: Host, port: int) -> str:
    name = f"[{host}]" if isinstance(host, ipaddress.IPv6Address) else str(host)
    return name if port == _HTTP_PORT else f"{name}:{port}"


async def serve_egress(
    sock: socket.socket, rules: Callable[[], Rules], ways: EgressOptions | None = None
) -> EgressProxy:
    """Serve the egress proxy on a listening socket, which the proxy then owns; `close` ends it."""
    egress = EgressProxy(rules, ways or EgressOptions())
    await egress.open(sock)
    return egress
