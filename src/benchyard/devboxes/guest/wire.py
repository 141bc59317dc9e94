"""Messages between server, zygote, devbox and supervisor: JSON packets with descriptors beside them."""

import array
import json
import socket
from typing import Any

MAX_MESSAGE = 160 * 1024
"""Most bytes of a packet: less than the kernel's default socket buffer."""
_MAX_DESCRIPTORS = 16
_CONTROL_BYTES = socket.CMSG_LEN(_MAX_DESCRIPTORS * 4)
_buffers = [bytearray(MAX_MESSAGE)]
"""Buffers for messages that no thread receives into at the moment."""


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
    # Reused: memory for the largest message would be mapped and unmapped for each small one.
    buffer = _buffers.pop() if _buffers else bytearray(MAX_MESSAGE)
    try:
        size, control, _flags, _address = sock.recvmsg_into([buffer], _CONTROL_BYTES, socket.MSG_CMSG_CLOEXEC)
        text = buffer[:size].decode()
        # A process forked from this one for another devbox must not inherit it.
        buffer[:size] = bytes(size)
    finally:
        _buffers.append(buffer)
    descriptors = array.array("i")
    for level, kind, payload in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(payload[: len(payload) - len(payload) % 4])
    return json.loads(text) if text else None, list(descriptors)
