"""Program that opens a build's socket to its proxy, then becomes the build's command.

Run inside the build's namespaces: `python door.py CHANNEL PORT COMMAND...`. The socket listens on the
loopback there; a copy is sent out by CHANNEL, a descriptor, and no copy stays inside.
"""

import fcntl
import os
import socket
import struct
import sys

_SIOCSIFFLAGS = 0x8914
_UP_AND_RUNNING = 0x41
_WAITING = 512
_FAILED = 125


def main(channel: int, port: int, command: list[str]) -> None:
    """Hand the socket out and run the command in place of this process."""
    with socket.socket(fileno=channel) as outside, socket.socket(socket.AF_INET, socket.SOCK_STREAM) as door:
        fcntl.ioctl(door, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _UP_AND_RUNNING))
        door.bind(("127.0.0.1", port))
        door.listen(_WAITING)
        socket.send_fds(outside, [b"d"], [door.fileno()])
        # The build must not start before the door is served.
        if not outside.recv(1):
            sys.exit(_FAILED)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
