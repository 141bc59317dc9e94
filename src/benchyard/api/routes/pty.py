"""Terminals of a devbox: a pass, a session, and the socket that carries its bytes."""

import asyncio
import hmac
from contextlib import AsyncExitStack
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, WebSocket
from fastapi import Query as Parameter
from fastapi.requests import HTTPConnection
from starlette.websockets import WebSocketDisconnect

from benchyard.api.deps import Services, ServicesDep, services_of
from benchyard.api.errors import error_response
from benchyard.api.lazy_route import LazyRoute
from benchyard.api.tunnels.addresses import TERMINALS
from benchyard.api.tunnels.exchange import TOKEN_HEADERS
from benchyard.engine.devboxes.terminals import IDLE_TTL_SECONDS, TerminalSession, valid_size
from benchyard.engine.signed_tokens import check_token, make_token
from benchyard.errors import BenchyardError, NotFound, Unauthorized, UsageError
from benchyard.models.devboxes import PtyConnectView, PtyControlRequest, PtyControlResultView, PtyTunnelView
from benchyard.store.vault import Vault

router = APIRouter(tags=["pty"], route_class=LazyRoute)

TUNNEL_SECONDS = 24 * 3600
TICKET_SECONDS = 300
_ENDED, _RESTARTING = 4000, 1012
"""Code 4000 means the end of the shell to clients of the original service."""
_KEY_DIGITS = 32
_LAST_OUTPUT_SECONDS = 5.0
_TUNNEL, _TICKET = "pty-tunnel", "pty-ticket"


async def _devbox_of(connection: HTTPConnection, devbox_id: Annotated[str | None, Parameter()] = None) -> str:
    vault = services_of(connection).vault
    if token := _token(connection):
        found = check_token(vault, _TUNNEL, token)
    elif connection.state.key_id is None:
        raise Unauthorized(
            "send the auth_token of create_pty_tunnel as `X-Runloop-Tunnel-Authorization: Bearer AUTH_TOKEN` "
            "or as `Authorization`, or an API key and devbox_id"
        )
    elif devbox_id:
        found = devbox_id
    else:
        raise UsageError(
            "which devbox? send X-Runloop-Tunnel-Authorization (from create_pty_tunnel) or devbox_id"
        )
    key = getattr(connection.state, "terminal_key", None)
    if key is not None and not hmac.compare_digest(key.encode(), _terminal_key(vault, found).encode()):
        raise NotFound("there is no such tunnel; create_pty_tunnel gives a key and its token together")
    return found


def _token(connection: HTTPConnection) -> str:
    """Return the pass of a client: from a header, the query, or, for browsers, a subprotocol."""
    headers = [connection.headers.get(name.decode(), "") for name in TOKEN_HEADERS]
    if connection.state.key_id is None:
        headers.append(connection.headers.get("authorization", ""))
    for header in headers:
        kind, _, token = header.partition(" ")
        if kind.lower() == "bearer" and token.strip():
            return token.strip()
    offered = _subprotocol(connection) if connection.state.key_id is None else None
    return connection.query_params.get("token") or offered or ""


def _subprotocol(connection: HTTPConnection) -> str | None:
    """Return the first protocol that a client offers for its socket, and expects in the answer."""
    offered = connection.headers.get("sec-websocket-protocol", "").partition(",")[0].strip()
    return offered or None


def _terminal_key(vault: Vault, devbox_id: str) -> str:
    return TERMINALS + vault.derive("pty-key", devbox_id).hex()[:_KEY_DIGITS]


DevboxOf = Annotated[str, Depends(_devbox_of)]


@router.post("/v1/devboxes/{devbox_id}/create_pty_tunnel")
async def create_pty_tunnel(devbox_id: str, services: ServicesDep) -> PtyTunnelView:
    """Get a pass to a devbox's terminals, here and at `PORT-TUNNEL_KEY.tunnel.NAME`, whatever the port."""
    await services.engine.devboxes.running(devbox_id)
    token = make_token(services.vault, _TUNNEL, devbox_id, TUNNEL_SECONDS)
    return PtyTunnelView(auth_token=token, tunnel_key=_terminal_key(services.vault, devbox_id))


@router.get("/pty/{session_name}")
async def connect(
    session_name: str,
    services: ServicesDep,
    devbox_id: DevboxOf,
    cols: Annotated[int | None, Parameter()] = None,
    rows: Annotated[int | None, Parameter()] = None,
) -> PtyConnectView:
    """Find or make a terminal session; its bytes go over the socket at `connect_url`."""
    session, is_new = await services.engine.terminals.connect(devbox_id, session_name, valid_size(cols, rows))
    ticket = make_token(services.vault, _TICKET, f"{devbox_id}/{session_name}", TICKET_SECONDS)
    return PtyConnectView(
        session_name=session_name,
        status="created" if is_new else "connected",
        created=is_new,
        attached=session.is_attached,
        cols=session.size[0],
        rows=session.size[1],
        connect_url=f"/pty/{quote(session_name)}/ws?ticket={ticket}",
        idle_ttl_seconds=IDLE_TTL_SECONDS,
    )


@router.post("/pty/{session_name}/control")
async def control(
    session_name: str, services: ServicesDep, devbox_id: DevboxOf, body: PtyControlRequest
) -> PtyControlResultView:
    """Resize, signal or close a terminal session."""
    status = await services.engine.terminals.control(devbox_id, session_name, body)
    return PtyControlResultView(session_name=session_name, status=status)


@router.websocket("/pty/{session_name}/ws")
async def attach(socket: WebSocket, session_name: str) -> None:
    """Carry a terminal's bytes both ways; a second client is refused before the upgrade."""
    await _attach(socket, session_name)


@router.websocket("/pty/{session_name}/attach")
async def find_and_attach(
    socket: WebSocket,
    session_name: str,
    cols: Annotated[int | None, Parameter()] = None,
    rows: Annotated[int | None, Parameter()] = None,
) -> None:
    """Find or make a terminal session and carry its bytes, in one step."""
    await _attach(socket, session_name, wanted=(cols, rows))


async def _attach(
    socket: WebSocket, session_name: str, wanted: tuple[int | None, int | None] | None = None
) -> None:
    terminals = services_of(socket).engine.terminals
    async with AsyncExitStack() as stack:
        try:
            devbox_id = await _ticket_holder(socket, session_name)
            if wanted is not None:
                await terminals.connect(devbox_id, session_name, valid_size(*wanted))
            session = await stack.enter_async_context(terminals.attach(devbox_id, session_name))
        except BenchyardError as error:
            await socket.send_denial_response(error_response(error))
            return
        await socket.accept(_subprotocol(socket))
        await _carry(services_of(socket), socket, session)


async def _ticket_holder(socket: WebSocket, session_name: str) -> str:
    ticket = socket.query_params.get("ticket")
    if not ticket:
        return await _devbox_of(socket, socket.query_params.get("devbox_id"))
    devbox_id, _, name = check_token(services_of(socket).vault, _TICKET, ticket).partition("/")
    if name != session_name:
        raise Unauthorized("this ticket is for another terminal session")
    return devbox_id


async def _carry(services: Services, socket: WebSocket, session: TerminalSession) -> None:
    output = asyncio.ensure_future(_send_output(services, socket, session))
    typing = asyncio.ensure_future(_take_input(services, socket, session))
    stopping = asyncio.ensure_future(services.stopping.wait())
    jobs = {output, typing, stopping}
    try:
        await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
        if stopping.done():
            await socket.close(_RESTARTING, "the server is stopping")
        elif not (typing.done() and isinstance(typing.exception(), WebSocketDisconnect)):
            # The shell has ended; its last output is sent before its exit status.
            await asyncio.wait({output}, timeout=_LAST_OUTPUT_SECONDS)
            status = await services.engine.terminals.exit_status(session)
            await socket.close(_ENDED, f"exit {status}" if status is not None else "")
    finally:
        for job in jobs:
            job.cancel()
        ended = await asyncio.gather(*jobs, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception) and not isinstance(error, WebSocketDisconnect | BenchyardError):
            raise error


async def _send_output(services: Services, socket: WebSocket, session: TerminalSession) -> None:
    async for data in services.engine.terminals.output(session):
        await socket.send_bytes(data)


async def _take_input(services: Services, socket: WebSocket, session: TerminalSession) -> None:
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000))
        data = message.get("bytes")
        if not await services.engine.terminals.type(
            session, (message.get("text") or "").encode() if data is None else data
        ):
            return
