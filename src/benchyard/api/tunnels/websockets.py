"""Byte streams over a websocket, for clients that can reach only this server."""

import asyncio

from fastapi import WebSocket
from starlette.websockets import WebSocketDisconnect

from benchyard.api.deps import Services
from benchyard.api.tunnels.streams import CHUNK_BYTES, ByteStream

_NORMAL, _RESTARTING = 1000, 1012


async def carry_socket(services: Services, socket: WebSocket, stream: ByteStream) -> None:
    """Carry bytes both ways until one side ends or the server stops."""
    ways = [asyncio.ensure_future(_send(socket, stream)), asyncio.ensure_future(_take(socket, stream))]
    stopping = asyncio.ensure_future(services.stopping.wait())
    try:
        await asyncio.wait([*ways, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not ways[1].done():
            await _close(socket, _RESTARTING if stopping.done() else _NORMAL)
    finally:
        for task in (*ways, stopping):
            task.cancel()
        await asyncio.wait([*ways, stopping])


async def _close(socket: WebSocket, code: int) -> None:
    try:
        await socket.close(code)
    except (OSError, RuntimeError, WebSocketDisconnect):
        # The client closed the socket first.
        return


async def _send(socket: WebSocket, stream: ByteStream) -> None:
    try:
        while data := await stream.reader.read(CHUNK_BYTES):
            await socket.send_bytes(data)
    except (OSError, WebSocketDisconnect):
        return


async def _take(socket: WebSocket, stream: ByteStream) -> None:
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
        data = message.get("bytes")
        try:
            await stream.send((message.get("text") or "").encode() if data is None else data)
        except OSError:
            return
