"""Doors out of a devbox: sockets that listen on its loopback and are served from outside.

The first process makes them, keeps them, and sends the host copies. Nothing else in the devbox ever holds
one: supervisors close theirs as soon as they are forked, and what they start inherits none.
"""

import errno
import socket
from typing import Any

from benchyard.devboxes.box import wire

MOST = 8
_WAITING = 512
"""Connections that may wait while nobody serves the door."""
_KIND = socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC


class Doors:
    """The doors of one devbox, by port."""

    def __init__(self) -> None:
        self._open: dict[int, socket.socket] = {}

    def answer(self, connection: socket.socket, message: dict[str, Any]) -> None:
        """Send the host the door on that port, made now unless it is there already; or why there is none."""
        try:
            door = self._open.get(message["port"]) or self._make(message["port"])
        except OSError as error:
            wire.send(connection, {"seq": message["seq"], "ok": False, "errno": error.errno or errno.EIO})
            return
        wire.send(connection, {"seq": message["seq"], "ok": True}, [door.fileno()])

    def _make(self, port: int) -> socket.socket:
        if len(self._open) >= MOST:
            raise OSError(errno.EMFILE, "too many doors")
        made = socket.socket(socket.AF_INET, _KIND)
        try:
            # So that connections which have just ended do not keep the port. Not REUSEPORT: programs of the
            # devbox could listen beside us then.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(("127.0.0.1", port))
            made.listen(_WAITING)
        except OSError:
            made.close()
            raise
        self._open[made.getsockname()[1]] = made
        return made

    def close(self) -> None:
        """Let go of all: for a child, which must not hold them."""
        for door in self._open.values():
            door.close()
        self._open.clear()
