"""Calls of models by code outside of devboxes: passed to the gateway and back, piece by piece."""

import asyncio

import h11
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from benchyard.api.connections import carrier_of
from benchyard.api.deps import Services
from benchyard.api.tunnels.addresses import TunnelAddress
from benchyard.api.tunnels.exchange import InboundRequest, TunnelExchange, answer_headers, end_to_end_headers
from benchyard.api.tunnels.streams import IdleClock, open_stream
from benchyard.errors import BenchyardError, StillWaiting, UsageError

_PREFIX_PARTS = 3
_LEFT_OUT = frozenset([b"host", b"expect"])


class GatewayGone(BenchyardError):
    """The gateway ended before it had answered."""

    code = "gateway_gone"
    http_status = 502


class ModelCall(Response):
    """Response that passes a request to the gateway, and the gateway's answer back."""

    def __init__(self, services: Services, descriptor: int) -> None:
        super().__init__()
        self._services = services
        self._descriptor = descriptor
        self._has_begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and its answer back; cut an answer that breaks off."""
        try:
            async with open_stream(self._descriptor) as stream:
                exchange = TunnelExchange(stream, IdleClock(_ignore_use))
                await self._pass(exchange, InboundRequest(scope, _address(scope)), receive, send)
        except (h11.RemoteProtocolError, OSError, BenchyardError) as error:
            if self._has_begun:
                carrier_of(scope).cut()
            elif isinstance(error, BenchyardError):
                raise
            else:
                raise GatewayGone("the gateway went away; send the request again") from error

    async def _pass(
        self, exchange: TunnelExchange, asked: InboundRequest, receive: Receive, send: Send
    ) -> None:
        try:
            await exchange.begin(_head(asked))
        except h11.LocalProtocolError as error:
            raise UsageError("this request cannot be passed on; it is not proper HTTP/1.1") from error
        uploading = asyncio.ensure_future(exchange.upload(receive))
        answering = asyncio.ensure_future(self._answer(exchange, asked, send))
        stopping = asyncio.ensure_future(self._services.stopping.wait())
        tasks = (answering, uploading, stopping)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()
            elif uploading.done():
                # The client has gone, or its body was refused.
                uploading.result()
            else:
                raise StillWaiting("the server is stopping; send it again in a moment")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _answer(self, exchange: TunnelExchange, asked: InboundRequest, send: Send) -> None:
        answer = await exchange.answer()
        if isinstance(answer, h11.InformationalResponse):
            raise h11.RemoteProtocolError("the answer switches to a protocol that was not requested")
        headers = answer_headers(asked, answer)
        self._has_begun = True
        await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
        async for data in exchange.body():
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def _address(scope: Scope) -> TunnelAddress:
    """Return the address at the gateway: the part of the path after the run's id."""
    path: bytes = scope["raw_path"]
    rest = b"/" + path.split(b"/", _PREFIX_PARTS)[_PREFIX_PARTS]
    return TunnelAddress("", 0, rest, path[: len(path) - len(rest)])


def _head(asked: InboundRequest) -> h11.Request:
    headers = [
        (b"host", b"gateway"),
        *end_to_end_headers(asked.headers, _LEFT_OUT),
        (b"connection", b"close"),
    ]
    method, query = asked.scope["method"], asked.scope["query_string"]
    if method == "POST" and not asked.value(b"content-length"):
        headers.append((b"transfer-encoding", b"chunked"))
    target = asked.address.path + (b"?" + query if query else b"")
    return h11.Request(method=method, target=target, headers=headers)


def _ignore_use() -> None:
    """Do nothing on use: no idle time applies here, since the gateway gives up on silent providers."""
