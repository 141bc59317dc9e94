"""Connecting to a port of the devbox's own loopback, for the host, without waiting for an answer.

And handing out the network itself, for a devbox that is to share it, and the root, to look for files in.
"""

import errno
import os
import socket
from typing import Any

from benchyard.devboxes.box import wire

LOOPBACK = {4: (socket.AF_INET, "127.0.0.1"), 6: (socket.AF_INET6, "::1")}
_KIND = socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC


def share(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send the host a descriptor of this devbox's network namespace, or of its root."""
    if message["op"] == "network":
        shared = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    else:
        shared = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        wire.send(connection, {"seq": message["seq"], "ok": True}, [shared])
    finally:
        os.close(shared)


def answer(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send the host a socket that is about to be connected: whoever asked for it waits for that, not we."""
    family, address = LOOPBACK[message["version"]]
    try:
        with socket.socket(family, _KIND) as made:
            number = made.connect_ex((address, message["port"]))
            if number in (0, errno.EINPROGRESS):
                wire.send(connection, {"seq": message["seq"], "ok": True}, [made.fileno()])
                return
    except OSError as error:
        # A kernel without this version of the protocol, or no descriptor left.
        number = error.errno or errno.EIO
    wire.send(connection, {"seq": message["seq"], "ok": False, "errno": number})
