"""The proxy to all tunnels, ahead of the API: finds the devbox, checks the token, and passes requests on."""

import asyncio
import hmac
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import h11
from starlette.types import ASGIApp, Receive, Scope, Send

from benchyard.api.connections import RequestCarrier, carrier_of
from benchyard.api.deps import Services
from benchyard.api.errors import MethodNotAllowed, error_response
from benchyard.api.protocol import BoundedHttp
from benchyard.api.tunnels.addresses import ROUTE, TunnelAddress, address_of
from benchyard.api.tunnels.exchange import (
    InboundRequest,
    TunnelExchange,
    answer_headers,
    request_head,
    switch_head,
)
from benchyard.api.tunnels.streams import ByteStream, IdleClock, carry, open_stream, stream_from_transport
from benchyard.engine.devboxes.tunnels import TunnelConnection
from benchyard.errors import (
    BenchyardError,
    DevboxError,
    DevboxGone,
    NotFound,
    StillWaiting,
    Unauthorized,
    UsageError,
)

_TERMINAL_PATHS = b"/pty/"
_NOT_PASSED = ("CONNECT", "TRACE", "TRACK")


class NoResponse(DevboxError):
    """The program inside is not there, or its answer cannot be passed on."""

    code = "no_answer"
    http_status = 502


class ResponseLate(DevboxError):
    """The program inside did not answer in time."""

    code = "answer_late"
    http_status = 504


@dataclass
class _Client:
    """Sender of a request, and whether the answer has begun."""

    asked: InboundRequest
    receive: Receive
    send: Send
    underneath: RequestCarrier
    is_answered: bool = False

    async def begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.is_answered = True
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    async def refuse(self, error: BenchyardError) -> None:
        response = error_response(error)
        if "retry_after" in error.details:
            response.headers["retry-after"] = str(error.details["retry_after"])
        if self.asked.upgrade:
            response.headers["connection"] = "close"
        await response(self.asked.scope, self.receive, self.send)


class TunnelProxy:
    """Serves requests to tunnels; those to terminals, and all others, go on to the API."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_asked = scope["type"] in ("http", "websocket")
        address = address_of(scope["raw_path"], scope["headers"]) if is_asked else None
        if address is None or address.is_terminal:
            await self._app(_to_terminal(scope, address) if address else scope, receive, send)
            return
        scope["route"] = SimpleNamespace(path=ROUTE)
        client = _Client(InboundRequest(scope, address), receive, send, carrier_of(scope))
        try:
            await self._let_in(client)
        except BenchyardError as error:
            if client.is_answered:
                client.underneath.cut()
            else:
                await client.refuse(error)

    async def _let_in(self, client: _Client) -> None:
        asked, tunnels = client.asked, self._services.engine.tunnels
        with tunnels.entered(asked.address.key, asked.tokens) as passage:
            if not asked.address.port:
                raise NotFound("there is no such tunnel")
            if asked.scope["method"].upper() in _NOT_PASSED:
                raise MethodNotAllowed(f"{asked.scope['method']} does not pass through tunnels")
            await tunnels.awake(passage)
            async with AsyncExitStack() as stack:
                stream = await stack.enter_async_context(open_stream(await self._connect(passage, asked)))
                idling = IdleClock(lambda: tunnels.used(passage))
                await self._watched(passage, idling, self._pass(client, passage, stream, idling))

    async def _connect(self, passage: TunnelConnection, asked: InboundRequest) -> int:
        try:
            return await self._services.host.connect(passage.devbox_id, asked.address.port)
        except NotFound as error:
            raise NoResponse(
                f"nothing listens on port {asked.address.port} of the devbox", port=asked.address.port
            ) from error
        except DevboxGone as error:
            raise NoResponse("the devbox ended just now") from error
        except StillWaiting as error:
            raise ResponseLate(
                f"port {asked.address.port} of the devbox accepts no connection", port=asked.address.port
            ) from error

    async def _watched(self, passage: TunnelConnection, idling: IdleClock, work: Any) -> None:
        """Run the work until the tunnel is removed, nothing passes for too long, or the server stops."""
        working = asyncio.ensure_future(work)
        waits = (passage.closed.wait(), self._services.stopping.wait(), idling.over())
        ends = [asyncio.ensure_future(wait) for wait in waits]
        try:
            await asyncio.wait([working, *ends], return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise ResponseLate("the tunnel was closed before an answer came")
            working.result()
        finally:
            for task in (working, *ends):
                task.cancel()
            await asyncio.wait([working, *ends])

    async def _pass(
        self, client: _Client, passage: TunnelConnection, stream: ByteStream, idling: IdleClock
    ) -> None:
        exchange = TunnelExchange(stream, idling)

        def is_ours(secret: str) -> bool:
            # A value that is not a bearer token is empty here, and so is the token of an open tunnel.
            known = hmac.compare_digest(secret.encode(), passage.token.encode())
            return bool(secret) and (known or self._is_our_key(secret))

        try:
            await exchange.begin(request_head(client.asked, is_ours))
        except h11.LocalProtocolError as error:
            raise UsageError("this request cannot be passed on; it is not proper HTTP/1.1") from error
        except OSError as error:
            raise _no_answer(client) from error
        uploading = asyncio.ensure_future(exchange.upload(client.receive))
        answering = asyncio.ensure_future(_answer(client, exchange))
        try:
            await asyncio.wait({uploading, answering}, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                switch = answering.result()
            else:
                # The client has gone, or its request turned out to be invalid.
                uploading.result()
                return
        except (h11.RemoteProtocolError, h11.LocalProtocolError, OSError) as error:
            raise _no_answer(client) from error
        finally:
            for task in (uploading, answering):
                task.cancel()
            await asyncio.wait({uploading, answering})
        if switch is not None:
            await _switch(client, exchange, stream, switch, idling)

    def _is_our_key(self, secret: str) -> bool:
        try:
            self._services.keys.check(secret)
        except Unauthorized:
            return False
        return True


def _to_terminal(scope: Scope, address: TunnelAddress) -> Scope:
    """Rewrite a request so that it reaches the API's terminals and no other route."""
    raw = address.path if address.path.startswith(_TERMINAL_PATHS) else _TERMINAL_PATHS
    scope.setdefault("state", {})["terminal_key"] = address.key
    scope["raw_path"], scope["path"] = raw, unquote(raw.decode("latin-1"))
    return scope


async def _answer(client: _Client, exchange: TunnelExchange) -> h11.InformationalResponse | None:
    """Pass the answer on; return it instead if it switches to another protocol."""
    answer = await exchange.answer()
    if isinstance(answer, h11.InformationalResponse):
        if not client.asked.upgrade:
            raise h11.RemoteProtocolError("the answer switches to a protocol that was not requested")
        return answer
    await client.begin(answer.status_code, answer_headers(client.asked, answer))
    async for data in exchange.body():
        await client.send({"type": "http.response.body", "body": data, "more_body": True})
    await client.send({"type": "http.response.body", "body": b""})
    return None


async def _switch(
    client: _Client,
    exchange: TunnelExchange,
    stream: ByteStream,
    answer: h11.InformationalResponse,
    idling: IdleClock,
) -> None:
    connection = client.underneath
    # Only HTTP/1.1 connections allow a switch to another protocol.
    assert isinstance(connection, BoundedHttp)
    early, is_all = connection.take_over()
    # This is for the log and the metrics only; the client gets the program's own head.
    await client.begin(101, [])
    outside = stream_from_transport(connection.transport, early, is_all=is_all)
    try:
        await outside.send(switch_head(client.asked, answer) + exchange.unparsed)
        await carry(outside, stream, idling)
    except OSError:
        return
    finally:
        outside.close()
        connection.leave()


def _no_answer(client: _Client) -> NoResponse:
    port = client.asked.address.port
    return NoResponse(f"the program on port {port} of the devbox gave an invalid answer", port=port)
