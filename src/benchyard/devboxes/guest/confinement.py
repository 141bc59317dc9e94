"""The walls around a devbox's processes: capabilities, system calls, limits, name and network."""

import fcntl
import os
import resource
import socket
import struct
from typing import Any

from benchyard.devboxes.guest import seccomp, syscalls, tracing
from benchyard.devboxes.guest.start_steps import start_step
from benchyard.devboxes.guest.tracing import Tracing

# chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, net_raw is left out,
# sys_chroot, setfcap, audit_write (which sudo asks for).
_KEPT_CAPABILITIES = frozenset({0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 29, 31})
_SIOCSIFFLAGS = 0x8914
_IFF_UP_RUNNING = 0x41
_OPEN_FILES = 65536


def confine(request: dict[str, Any]) -> Tracing | None:
    """Confine this process (the devbox's first); all its children inherit the walls.

    Returns the means to refuse tracing later, if the request asks for them.
    """
    with start_step("hostname"):
        syscalls.set_hostname(request["hostname"])
    if request["network"] == "none" and not request["joins"]:
        with start_step("loopback"):
            _raise_loopback()
    limit_resources()
    with start_step("seccomp"):
        if request["no_new_privileges"]:
            syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
        seccomp.install(request["filter"])
        if not request["tracing"]:
            seccomp.install(request["untraced"])
        listener = tracing.listen(request["asking"]) if request["tracing_switch"] else None
    with start_step("capabilities"):
        marks = request["tracing_switch"] and tracing.can_mark()
        syscalls.limit_capabilities(_KEPT_CAPABILITIES | ({tracing.MARK} if marks else frozenset()))
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    return Tracing(listener, marks=marks) if request["tracing_switch"] else None


def limit_resources() -> None:
    """Set the resource limits that each process of a devbox has for itself."""
    _limit_open_files()
    # Not 0, with which the kernel still passes dumps to a core handler of the host, if there is one.
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    # Whatever priority the server may use, no devbox takes precedence over the rest of the machine.
    for limit in (resource.RLIMIT_RTPRIO, resource.RLIMIT_NICE):
        resource.setrlimit(limit, (0, 0))


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP_RUNNING))


def _limit_open_files() -> None:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def close_all_but(keep: set[int]) -> None:
    """Close every descriptor but `keep`; connect the standard streams to /dev/null."""
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    last = 2
    for number in sorted(keep):
        os.closerange(last + 1, number)
        last = number
    os.closerange(last + 1, _OPEN_FILES)
