"""The host's half of a connection into a devbox: its first process begins it, here it is waited for."""

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from benchyard.devboxes.box.connecting import LOOPBACK
from benchyard.errors import DevboxError, NotFound, StillWaiting, UsageError

PATIENCE_SECONDS = 10.0
_LARGEST_PORT = 65_535

Ask = Callable[[dict[str, Any]], Awaitable[tuple[dict[str, Any], list[int]]]]


async def connect(ask: Ask, devbox_id: str, port: int) -> int:
    """A connected descriptor, or the error that says why there is none."""
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
            f"port {port} of devbox {devbox_id} let no connection through in {PATIENCE_SECONDS:.0f} s; "
            "the devbox may stand still for a snapshot, or the program there accepts nobody",
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
    """A connected descriptor, or -1 and the number of the error."""
    reply, descriptors = await ask({"op": "connect", "port": port, "version": version})
    if not reply["ok"]:
        return -1, reply["errno"]
    await _writable(descriptors[0])
    with socket.socket(fileno=descriptors[0]) as made:
        number = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return (-1, number) if number else (made.detach(), 0)


async def _writable(descriptor: int) -> None:
    """Wait until it can be written to, which is when the other side has let it through, or refused it."""
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
