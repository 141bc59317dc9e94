"""Sockets of the devbox's loopback for the host: connections to its ports, and doors out of it.

The first process makes the doors, keeps them, and sends copies to the host. No other process in the devbox
ever holds one: supervisors close theirs right after the fork, and commands inherit none.
"""

import errno
import os
import socket
from typing import Any

from benchyard.devboxes.guest import wire

LOOPBACK = {4: (socket.AF_INET, "127.0.0.1"), 6: (socket.AF_INET6, "::1")}
_KIND = socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC


def send_namespace(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send the host a descriptor of this devbox's network namespace, or of its root."""
    if message["op"] == "network":
        shared = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    else:
        shared = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        wire.send(connection, {"seq": message["seq"], "ok": True}, [shared])
    finally:
        os.close(shared)


def answer_connect(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send the host a socket that is about to be connected: the requester waits for it."""
    family, address = LOOPBACK[message["version"]]
    try:
        with socket.socket(family, _KIND) as sock:
            number = sock.connect_ex((address, message["port"]))
            if number in (0, errno.EINPROGRESS):
                wire.send(connection, {"seq": message["seq"], "ok": True}, [sock.fileno()])
                return
    except OSError as error:
        # A kernel without this version of the protocol, or without a free descriptor.
        number = error.errno or errno.EIO
    wire.send(connection, {"seq": message["seq"], "ok": False, "errno": number})


MOST_DOORS = 8
_WAITING = 512
"""Connections that may wait while the door is not served."""


class GuestDoors:
    """The doors of one devbox, by port."""

    def __init__(self) -> None:
        self._open: dict[int, socket.socket] = {}

    def answer(self, connection: socket.socket, message: dict[str, Any]) -> None:
        """Send the host the door on that port, made now unless it exists; or the reason why not."""
        try:
            door = self._open.get(message["port"]) or self._make(message["port"])
        except OSError as error:
            wire.send(connection, {"seq": message["seq"], "ok": False, "errno": error.errno or errno.EIO})
            return
        wire.send(connection, {"seq": message["seq"], "ok": True}, [door.fileno()])

    def _make(self, port: int) -> socket.socket:
        if len(self._open) >= MOST_DOORS:
            raise OSError(errno.EMFILE, "too many doors")
        sock = socket.socket(socket.AF_INET, _KIND)
        try:
            # So that connections which have just ended do not keep the port. Not REUSEPORT: programs of the
            # devbox could listen beside us then.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", port))
            sock.listen(_WAITING)
        except OSError:
            sock.close()
            raise
        self._open[sock.getsockname()[1]] = sock
        return sock

    def close(self) -> None:
        """Close all doors: for a child, which must not hold them."""
        for door in self._open.values():
            door.close()
        self._open.clear()
