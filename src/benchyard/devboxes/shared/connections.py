"""The host's half of connections into a devbox, which its first process begins, and of doors out of it."""

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from benchyard.devboxes.guest import sockets
from benchyard.devboxes.guest.sockets import LOOPBACK
from benchyard.errors import (
    BenchyardError,
    Conflict,
    DevboxError,
    Forbidden,
    NotFound,
    StillWaiting,
    TooMany,
    UsageError,
)

PATIENCE_SECONDS = 10.0
_DOOR_SECONDS = 30.0
_LARGEST_PORT = 65_535

Ask = Callable[[dict[str, Any]], Awaitable[tuple[dict[str, Any], list[int]]]]


async def connect(ask: Ask, devbox_id: str, port: int) -> int:
    """Return a connected descriptor, or raise the error that explains the failure."""
    if not 0 < port <= _LARGEST_PORT:
        raise UsageError(f"{port} is not a port; give one from 1 to {_LARGEST_PORT}")
    reasons = []
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            for version in LOOPBACK:
                descriptor, reason = await _try(ask, port, version)
                if descriptor >= 0:
                    return descriptor
                reasons.append(reason)
    except TimeoutError as error:
        raise StillWaiting(
            f"port {port} of devbox {devbox_id} accepted no connection in {PATIENCE_SECONDS:.0f} s; "
            "the devbox may be frozen for a snapshot, or the program there does not accept",
            port=port,
        ) from error
    if errno.ECONNREFUSED in reasons:
        raise NotFound(
            f"nothing listens on port {port} of devbox {devbox_id}; start a program there that does",
            port=port,
        )
    raise DevboxError(
        f"cannot connect to port {port} of devbox {devbox_id}: {os.strerror(reasons[0])}", port=port
    )


async def _try(ask: Ask, port: int, version: int) -> tuple[int, int]:
    """Return a connected descriptor, or -1 and the number of the error."""
    reply, descriptors = await ask({"op": "connect", "port": port, "version": version})
    if not reply["ok"]:
        return -1, reply["errno"]
    await _writable(descriptors[0])
    with socket.socket(fileno=descriptors[0]) as sock:
        number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return (-1, number) if number else (sock.detach(), 0)


async def _writable(descriptor: int) -> None:
    """Wait until it is writable, which it is once the other side has accepted or refused it."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(descriptor, ready.set)
    try:
        await ready.wait()
    except BaseException:
        loop.remove_writer(descriptor)
        os.close(descriptor)
        raise
    loop.remove_writer(descriptor)


async def listen(ask: Ask, devbox_id: str, port: int) -> tuple[int, int]:
    """Return a descriptor of a door and its port, or raise the error that explains the failure."""
    if not 0 <= port <= _LARGEST_PORT:
        raise UsageError(f"{port} is not a port; give one from 1 to {_LARGEST_PORT}, or 0 for a free one")
    try:
        async with asyncio.timeout(_DOOR_SECONDS):
            reply, descriptors = await ask({"op": "listen", "port": port})
    except TimeoutError as error:
        raise StillWaiting(
            f"devbox {devbox_id} opened no door in {_DOOR_SECONDS:.0f} s; it may be frozen for a snapshot",
            port=port,
        ) from error
    if not reply["ok"]:
        raise _no_door(reply["errno"], devbox_id, port)
    return _check_door(descriptors[0], devbox_id, port)


def _no_door(number: int, devbox_id: str, port: int) -> BenchyardError:
    if number == errno.EADDRINUSE:
        return Conflict(
            f"port {port} of devbox {devbox_id} is taken by a program there, or no port is free; "
            "end that program, or ask for another port",
            port=port,
        )
    if number == errno.EMFILE:
        return TooMany(
            f"devbox {devbox_id} has {sockets.MOST_DOORS} doors, which is the most it can have", port=port
        )
    if number == errno.EACCES:
        return Forbidden(
            f"devbox {devbox_id} may not listen on port {port}; ask for one above 1023", port=port
        )
    return DevboxError(f"devbox {devbox_id} opened no door on port {port}: {os.strerror(number)}", port=port)


def _check_door(descriptor: int, devbox_id: str, port: int) -> tuple[int, int]:
    """Check a descriptor from the devbox: it must be a socket that listens on its loopback."""
    with socket.socket(fileno=descriptor) as door:
        address, found = door.getsockname()
        listens = bool(door.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
        if not listens or address != LOOPBACK[4][1] or port not in (0, found):
            raise DevboxError(f"devbox {devbox_id} sent a socket that is not the door on port {port}")
        return door.detach(), found
