"""The first process of a devbox that a container engine holds: the guest's pid 1, in a container.

The engine starts it from a folder that is mounted read-only, whatever the image holds. It meets whoever
started the container at a socket in another such folder, and is given there the socket on which it takes
requests: one that nothing inside can reach by a name. The walls are the engine's.
"""

import os
import signal
import socket
import sys

from benchyard.devboxes.guest import confinement, freezer, pid1, processes, syscalls, tracing, wire
from benchyard.devboxes.guest.tracing import Tracing


def main() -> None:
    """Meet, get ready, say so, and serve; the argument is where to meet."""
    meeting = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    meeting.connect(sys.argv[1])
    request, descriptors = wire.receive(meeting)
    if request is None:
        sys.exit("whoever started this container has gone away")
    processes.set_title("benchyard")
    # Python would end itself on this one; to a first process others do nothing unless it asks for them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.umask(0o022)
    confinement.limit_resources()
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    confinement.close_all_but({meeting.fileno(), *descriptors})
    listener = socket.socket(fileno=descriptors[0])
    held = freezer.make_freezer(descriptors[1:], everybody=True)
    # No filter can be added in here: that takes a right which the engine does not give, or costs `sudo`.
    means = Tracing(None, marks=tracing.can_mark()) if request["tracing_switch"] else None
    first = pid1.Pid1(listener, held, can_change_user=True, lease=request["lease"], tracing=means)
    wire.send(meeting, {"ready": True})
    meeting.close()
    first.run()
    os._exit(0)
