"""The first process of a devbox held by a container engine: the guest's pid 1, in a container.

The engine starts it from a read-only mount, whatever the image holds. It meets the driver at a socket in
another mounted folder, and receives the socket on which it takes requests: one that nothing inside can reach
by a name. The walls are the engine's.
"""

import os
import signal
import socket
import sys

from benchyard.devboxes.guest import confinement, freezer, pid1, processes, syscalls, tracing, wire
from benchyard.devboxes.guest.tracing import Tracing


def main() -> None:
    """Meet the driver, get ready, report, and serve; the argument is the folder to meet in."""
    meeting = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    meeting.connect(sys.argv[1])
    request, descriptors = wire.receive(meeting)
    if request is None:
        sys.exit("the process that started this container is gone")
    processes.set_title("benchyard")
    # Python would end itself on this signal; without a handler, a first process ignores signals from inside.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.umask(0o022)
    confinement.limit_resources()
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    confinement.close_all_but({meeting.fileno(), *descriptors})
    listener = socket.socket(fileno=descriptors[0])
    held = freezer.make_freezer(descriptors[1:], everybody=True)
    # No filter can be added in here: that takes a right which the engine does not give, or breaks `sudo`.
    means = Tracing(None, marks=tracing.can_mark()) if request["tracing_switch"] else None
    first = pid1.Pid1(listener, held, can_change_user=True, lease=request["lease"], tracing=means)
    wire.send(meeting, {"ready": True})
    meeting.close()
    first.run()
    os._exit(0)
