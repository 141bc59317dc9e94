"""Messages between server, zygote, devbox and supervisor: JSON packets with descriptors beside them."""

import array
import json
import socket
from typing import Any

MAX_MESSAGE = 160 * 1024
"""Most bytes of a packet: less than the kernel's default socket buffer."""
_MAX_DESCRIPTORS = 16


def send(sock: socket.socket, message: dict[str, Any], descriptors: tuple[int, ...] | list[int] = ()) -> None:
    """Send one message, with copies of descriptors."""
    sock.sendmsg([json.dumps(message).encode()], ancillary(descriptors))


def ancillary(descriptors: tuple[int, ...] | list[int]) -> list[tuple[int, int, bytes]]:
    """Return the control data that carries descriptors."""
    if not descriptors:
        return []
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors).tobytes())]


def receive(sock: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Return the next message and its descriptors; None at the end of the connection."""
    space = socket.CMSG_LEN(_MAX_DESCRIPTORS * 4)
    data, control, _flags, _address = sock.recvmsg(MAX_MESSAGE, space, socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, payload in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(payload[: len(payload) - len(payload) % 4])
    if not data:
        return None, list(descriptors)
    return json.loads(data), list(descriptors)
