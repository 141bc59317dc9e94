"""Where a container's first process meets the driver that started it, and is given its socket.

The place is a folder that the container has mounted read-only. Once they have met, the socket in it is gone:
nothing that runs later in the container can take the part of either.
"""

import asyncio
import contextlib
import logging
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchyard.devboxes.box import freezer, wire
from benchyard.devboxes.parts import cgroups
from benchyard.devboxes.parts.running import bind
from benchyard.errors import StartFailed

_log = logging.getLogger(__name__)

FOLDER = "meeting"
"""In a devbox's folder."""
SOCKET = "socket"


@contextlib.contextmanager
def convened(folder: Path) -> Iterator[socket.socket]:
    """The socket at which to meet the first process of the devbox in `folder`; gone afterwards."""
    place = folder / FOLDER
    place.mkdir(exist_ok=True)
    place.chmod(0o755)
    with bind(place, SOCKET) as listener:
        # Root in the container may be somebody else out here; nobody else gets as far as this folder.
        (place / SOCKET).chmod(0o666)
        listener.setblocking(False)
        try:
            yield listener
        finally:
            (place / SOCKET).unlink(missing_ok=True)


async def meet(meeting: socket.socket, request: dict[str, Any], listener: socket.socket) -> int:
    """Hand over the socket on which the first process takes requests; its pid, once it is ready."""
    await _readable(meeting)
    connection, _address = meeting.accept()
    with connection:
        connection.setblocking(False)
        told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid: int = struct.unpack("3i", told)[0]
        groups = await asyncio.to_thread(_enclosed, pid)
        try:
            wire.send(connection, request, [listener.fileno(), *groups])
        finally:
            for descriptor in groups:
                os.close(descriptor)
        await _readable(connection)
        try:
            answer, _none = wire.receive(connection)
        except OSError:
            answer = None
        if not answer or not answer.get("ready"):
            raise StartFailed("the devbox's first process ended before it was ready", step="meeting")
    return pid


def _enclosed(pid: int) -> list[int]:
    """Descriptors by which a first process, put into a group of its own, can freeze all others of it."""
    try:
        group = cgroups.enclose(pid)
        return freezer.open_group(str(group)) if group else []
    except OSError as error:
        _log.info("what runs in a container cannot be frozen by its group, only by signals: %s", error)
        return []


async def _readable(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sock.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sock.fileno())
