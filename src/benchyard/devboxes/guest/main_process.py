"""The process that holds a devbox of the `process` driver: the guest's pid 1 without a pid namespace.

Run as `main` in a separate process. It outlives the process that started it.
"""

import json
import os
import socket
import sys
from typing import Any

from benchyard.devboxes.guest import freezer, landlock, pid1, processes, seccomp, syscalls

_MOST_TRIES = 3
# chown, dac_override, fowner, fsetid, kill, setgid, setuid, net_bind_service
_KEPT_CAPABILITIES = frozenset({0, 1, 3, 4, 5, 6, 7, 10})


def main() -> None:
    """Detach, print the keeper's pid on standard output, and serve."""
    request = json.loads(sys.argv[1])
    listener = socket.socket(fileno=request["listener"])
    os.set_inheritable(listener.fileno(), False)
    groups: list[int] = request["groups"]
    for descriptor in groups:
        os.set_inheritable(descriptor, False)
    _close_all_but({listener.fileno(), *groups})
    pid = os.fork()
    if pid:
        os.write(1, str(pid).encode())
        os._exit(0)
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    if groups:
        freezer.join(groups)
    os.chdir("/")
    _keep_walls(request)
    nowhere = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for number in range(3):
        os.dup2(nowhere, number)
    everybody = request["walls"] and landlock.version() >= landlock.SCOPES_SINCE
    held = freezer.make_freezer(groups, everybody=everybody)
    # Kept until the end: the caller waits for its connection to close.
    first = pid1.Pid1(listener, held, can_change_user=False, lease=request["lease"])
    first.run()
    for _ in range(_MOST_TRIES):
        if held.kill(lambda: processes.descendants(os.getpid())):
            break
    os._exit(0)


def _close_all_but(kept: set[int]) -> None:
    """Close other inherited descriptors: some event loops leave a second end of the output pipe open."""
    last = 2
    for number in sorted(kept):
        os.closerange(last + 1, number)
        last = number
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))


def _keep_walls(request: dict[str, Any]) -> None:
    """Confine this process and its children, and keep commands from tracing the holder of their output."""
    if not request["tracing"]:
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
        seccomp.install(seccomp.untraced_here())
    if not request["walls"]:
        return
    landlock.restrict(landlock.ruleset(request["readable"], request["writable"]))
    if os.geteuid() == 0:
        syscalls.limit_capabilities(_KEPT_CAPABILITIES)
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
