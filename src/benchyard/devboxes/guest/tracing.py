"""Tracing, refused in a running devbox while the work in it is scored.

Two means, each used where it is available. A filter of system calls asks this process about every call by
which one process reaches into another (`seccomp.TRACING`), and about no other call; it allows them until it
is told to refuse them. And every command started while they are refused has one capability that all others in
the devbox never get: the kernel forbids tracing, reading the memory of, or taking descriptors from a process
with an additional capability, by any call and by files of /proc.
"""

import errno
import fcntl
import os
import struct

from benchyard.devboxes.guest import seccomp, syscalls

MARK = 35
"""CAP_WAKE_ALARM, the marking capability: its only right is to set timers that wake a machine from sleep."""
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
"""SECCOMP_IOCTL_NOTIF_RECV and _SEND, with the sizes of the structures read and written."""
_CALL_BYTES = 80
_CONTINUE = 1


class Tracing:
    """The permission of this devbox's processes to trace each other, and the means to enforce it.

    `listener` is the descriptor at which the filter asks, if it could be installed; `marks` says whether
    this process has the marking capability to give.
    """

    def __init__(self, listener: int | None, *, marks: bool) -> None:
        self.listener = listener
        self.marks = marks
        self.is_refused = False

    def close(self) -> None:
        """Close the listener, in a forked child that does not need it."""
        if self.listener is not None:
            os.close(self.listener)

    def mark(self) -> None:
        """Give the marking capability to this forked child's future children, or drop it for good."""
        if self.marks and self.is_refused:
            syscalls.pass_on_capability(MARK)
        elif self.marks:
            syscalls.drop_capability(MARK)

    def answer(self) -> None:
        """Take one call that a process waits for, and allow or refuse it."""
        assert self.listener is not None
        call = bytearray(_CALL_BYTES)
        try:
            fcntl.ioctl(self.listener, _RECEIVE, call)
            (number,) = struct.unpack_from("Q", call)
            flags, error = (0, -errno.EPERM) if self.is_refused else (_CONTINUE, 0)
            fcntl.ioctl(self.listener, _SEND, struct.pack("QqiI", number, 0, error, flags))
        except OSError as gone:
            # The caller was killed, or got a signal and asks again.
            if gone.errno not in (errno.ENOENT, errno.EINTR, errno.EINPROGRESS):
                raise


def listen(code: bytes) -> int | None:
    """Install the filter that asks; None if this kernel, or a filter around us, does not allow it."""
    try:
        return seccomp.install_listener(code)
    except OSError:
        return None


def can_mark() -> bool:
    """Tell whether this process has the marking capability to give."""
    return syscalls.has_capability(MARK)
