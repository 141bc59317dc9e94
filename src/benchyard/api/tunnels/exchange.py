"""Requests and answers over a stream into a devbox, both passed on piece by piece."""

import re
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass

import h11
from starlette.types import Receive, Scope

from benchyard.api.middleware.limits import MAX_HEADER_BYTES
from benchyard.api.tunnels.addresses import TunnelAddress
from benchyard.api.tunnels.streams import CHUNK_BYTES, ByteStream, IdleClock

ResponseHead = h11.Response | h11.InformationalResponse

_SWITCHING = 101


class TunnelExchange:
    """HTTP with a program inside a devbox, whose answers are parsed strictly and within limits."""

    def __init__(self, stream: ByteStream, idling: IdleClock) -> None:
        self._stream = stream
        self._idling = idling
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEADER_BYTES)

    async def begin(self, head: h11.Request) -> None:
        """Send the request's head."""
        await self._send(head)

    async def upload(self, receive: Receive) -> None:
        """Send the request's body as it arrives, and return when the client has gone."""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            self._idling.used()
            if self._http.our_state is not h11.SEND_BODY:
                continue
            try:
                if message.get("body"):
                    await self._send(h11.Data(message["body"]))
                if not message.get("more_body", False):
                    await self._send(h11.EndOfMessage())
            except OSError:
                # The program does not want the rest; its answer is still to be read.
                continue

    async def answer(self) -> ResponseHead:
        """Return the head of the answer; raises h11.RemoteProtocolError if none comes."""
        while True:
            event = await self._next()
            if isinstance(event, h11.Response):
                return event
            if isinstance(event, h11.InformationalResponse) and event.status_code == _SWITCHING:
                return event

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the answer's body to its end; raises h11.RemoteProtocolError if it is cut short."""
        while True:
            event = await self._next()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return

    @property
    def unparsed(self) -> bytes:
        """Bytes after the answer's head, if that switched to another protocol."""
        return self._http.trailing_data[0]

    async def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            await self._stream.send(data)

    async def _next(self) -> h11.Event:
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                data = await self._stream.reader.read(CHUNK_BYTES)
                self._idling.used()
                self._http.receive_data(data)
            elif isinstance(event, h11.Event) and not isinstance(event, h11.ConnectionClosed):
                return event
            else:
                raise h11.RemoteProtocolError("the connection ended before the answer")


Header = tuple[bytes, bytes]

TOKEN_HEADERS = (b"x-runloop-tunnel-authorization", b"x-benchyard-tunnel-authorization")
SANDBOX = b"sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts"
"""Rights of a devbox's page at the API's own address: all except sharing the API's origin."""

_ONE_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection "
    b"te trailer transfer-encoding upgrade".split()
)
_FORWARDED = frozenset(
    b"forwarded x-forwarded-for x-forwarded-host x-forwarded-port x-forwarded-prefix "
    b"x-forwarded-proto".split()
)
_OURS = _FORWARDED.union(TOKEN_HEADERS, [b"expect"])
_OF_ONE_ANSWER = frozenset(
    b"accept-patch accept-post accept-ranges age allow cache-control content-digest content-disposition "
    b"content-encoding content-language content-length content-location content-md5 content-range "
    b"content-security-policy content-security-policy-report-only content-type cross-origin-embedder-policy "
    b"cross-origin-opener-policy cross-origin-resource-policy date dav digest docker-content-digest etag "
    b"expires last-modified location mcp-protocol-version mcp-session-id permissions-policy pragma "
    b"preference-applied referrer-policy refresh repr-digest request-id retry-after server server-timing "
    b"sourcemap tk timing-allow-origin tus-resumable upload-offset upload-length vary via warning".split()
)
"""Headers that an answer may have at the API's own address: all of them concern that answer only."""
_FAMILIES = (b"access-control-", b"grpc-", b"ratelimit", b"x-")
"""Prefixes of further such headers: those of programs, and those about one answer."""
_OF_THE_ORIGIN = frozenset([b"x-dns-prefetch-control", b"x-permitted-cross-domain-policies"])
"""Headers with those prefixes that browsers apply to the whole address."""
_ORDERS = (b"x-accel-", b"x-sendfile", b"x-lighttpd-", b"x-litespeed-", b"x-lsadc-", b"x-reproxy-")
"""Prefixes of orders to a reverse proxy, such as to answer with a file or an internal address of its own."""
_HARMLESS_ORDERS = frozenset([b"x-accel-buffering"])
"""Passed on by name: programs that stream an answer have a proxy not hold it back."""
_OF_A_SWITCH = frozenset([b"connection", b"upgrade"])
_CONTROLS = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_BODILESS = (204, 304)


@dataclass(frozen=True)
class InboundRequest:
    """A request to a tunnel, as received."""

    scope: Scope
    address: TunnelAddress

    @property
    def headers(self) -> list[Header]:
        """Headers of the request, with names in lower case."""
        found: list[Header] = self.scope["headers"]
        return found

    def value(self, name: bytes) -> bytes:
        """Return the first value of a header; empty if it is missing."""
        return next((value for each, value in self.headers if each == name), b"")

    @property
    def tokens(self) -> list[str]:
        """Candidates for the tunnel's token: from its own headers, and from `Authorization`."""
        return [token for name in (*TOKEN_HEADERS, b"authorization") if (token := _bearer(self.value(name)))]

    @property
    def upgrade(self) -> bytes:
        """The protocol that the client wants to switch to; empty without one."""
        tokens = [token for name, value in self.headers if name == b"connection" for token in _tokens(value)]
        return self.value(b"upgrade") if b"upgrade" in tokens else b""


def request_head(asked: InboundRequest, is_ours: Callable[[str], bool]) -> h11.Request:
    """Return the request's head for the program inside, without credentials of this server.

    Raises h11.LocalProtocolError if the head is invalid.
    """
    headers = [
        (name, value)
        for name, value in end_to_end_headers(asked.headers, _OURS)
        if not (name == b"authorization" and is_ours(_bearer(value)))
        and not (asked.address.prefix and name == b"cookie")
    ]
    if not asked.value(b"host"):
        headers.insert(0, (b"host", b"localhost:%d" % asked.address.port))
    headers += _forwarding_headers(asked)
    if any(name == b"transfer-encoding" for name, _ in asked.headers):
        headers = [(name, value) for name, value in headers if name != b"content-length"]
        headers.append((b"transfer-encoding", b"chunked"))
    upgrade = asked.upgrade
    headers += (
        [(b"connection", b"upgrade"), (b"upgrade", upgrade)] if upgrade else [(b"connection", b"close")]
    )
    query: bytes = asked.scope["query_string"]
    target = asked.address.path + (b"?" + query if query else b"")
    return h11.Request(method=asked.scope["method"], target=target, headers=headers)


def answer_headers(asked: InboundRequest, answer: h11.Response) -> list[Header]:
    """Return the answer's headers for the client; raises h11.RemoteProtocolError if they are invalid."""
    headers_given = list(answer.headers)
    if not 200 <= answer.status_code <= 599 or any(_CONTROLS.search(value) for _, value in headers_given):
        raise h11.RemoteProtocolError("an invalid answer")
    has_coding = any(name == b"transfer-encoding" for name, _ in headers_given)
    dropped = frozenset([b"content-length"]) if has_coding or answer.status_code in _BODILESS else frozenset()
    headers = _without_orders(end_to_end_headers(headers_given, dropped))
    if asked.address.prefix:
        headers = [(name, value) for name, value in headers if _may_pass_by_path(name)]
        headers.append((b"content-security-policy", SANDBOX))
    if asked.upgrade:
        # Bytes that the client sent after its request are not another request.
        headers.append((b"connection", b"close"))
    return headers


def switch_head(asked: InboundRequest, answer: h11.InformationalResponse) -> bytes:
    """Return the head that tells the client to switch from HTTP to the other protocol."""
    headers = _without_orders(header for header in answer.headers if not _CONTROLS.search(header[1]))
    if asked.address.prefix:
        # A browser takes cookies and other headers from this head as from any other.
        headers = [
            (name, value)
            for name, value in headers
            if name in _OF_A_SWITCH or name.startswith(b"sec-websocket-") or _may_pass_by_path(name)
        ]
    lines = [b"%b: %b" % header for header in headers]
    return b"\r\n".join([b"HTTP/1.1 101 Switching Protocols", *lines, b"", b""])


def end_to_end_headers(headers: Iterable[Header], dropped: frozenset[bytes]) -> Iterable[Header]:
    """Return headers without hop-by-hop ones and without the given ones."""
    headers_kept = list(headers)
    named = {token for name, value in headers_kept if name == b"connection" for token in _tokens(value)}
    left_out = _ONE_HOP | dropped | named
    return ((name, value) for name, value in headers_kept if name not in left_out)


def _without_orders(headers: Iterable[Header]) -> list[Header]:
    """Return headers without those that a proxy before this server would obey as the server's own."""
    return [
        (name, value) for name, value in headers if name in _HARMLESS_ORDERS or not name.startswith(_ORDERS)
    ]


def _may_pass_by_path(name: bytes) -> bool:
    """Tell whether a header concerns its own answer only, or is one that no browser acts on."""
    return name in _OF_ONE_ANSWER or (
        name.startswith(_FAMILIES) and name not in _OF_THE_ORIGIN and name not in _HARMLESS_ORDERS
    )


def _forwarding_headers(asked: InboundRequest) -> list[Header]:
    client = asked.scope.get("client")
    headers = [
        (b"x-forwarded-for", client[0].encode() if client else b"unknown"),
        (b"x-forwarded-proto", str(asked.scope["scheme"]).encode()),
    ]
    if host := asked.value(b"host"):
        headers.append((b"x-forwarded-host", host))
    if asked.address.prefix:
        headers.append((b"x-forwarded-prefix", asked.address.prefix))
    return headers


def _bearer(value: bytes) -> str:
    kind, _, secret = value.decode("latin-1").partition(" ")
    return secret.strip() if kind.lower() == "bearer" else ""


def _tokens(value: bytes) -> list[bytes]:
    return [token.strip().lower() for token in value.split(b",")]
