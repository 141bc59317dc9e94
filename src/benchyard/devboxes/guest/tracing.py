"""Tracing, taken away from a devbox that runs: for as long as what was done in it is scored.

Two means, each where it can be had. A filter of system calls asks this process about every call by which one
process reaches into another (`seccomp.TRACING`), and about no other call; it lets them pass until it is told
to refuse them. And every command that is started while they are refused has one capability that all the
others in the devbox never get: the kernel lets nobody trace, read the memory of, or take descriptors from a
process that has a capability more, whatever it asks by, files of /proc included.
"""

import errno
import fcntl
import os
import struct

from benchyard.devboxes.guest import seccomp, syscalls

MARK = 35
"""CAP_WAKE_ALARM, the capability in question: it opens nothing but timers that wake a machine from sleep."""
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
"""SECCOMP_IOCTL_NOTIF_RECV and _SEND, with the sizes of what is read and written."""
_CALL_BYTES = 80
_CONTINUE = 1


class Tracing:
    """Whether processes of this devbox may trace each other, and how that is kept up.

    `listener` is where the filter asks, if it could be installed; `marks` is whether this process has the
    capability to give.
    """

    def __init__(self, listener: int | None, *, marks: bool) -> None:
        self.listener = listener
        self.marks = marks
        self.is_refused = False

    def close(self) -> None:
        """Let go of the listener, in a forked child that has no business with it."""
        if self.listener is not None:
            os.close(self.listener)

    def mark(self) -> None:
        """In a forked child: give the capability to all that it starts, or put it off for good."""
        if self.marks and self.is_refused:
            syscalls.pass_on_capability(MARK)
        elif self.marks:
            syscalls.drop_capability(MARK)

    def answer(self) -> None:
        """Take one call that a process waits with, and let it pass or refuse it."""
        assert self.listener is not None
        call = bytearray(_CALL_BYTES)
        try:
            fcntl.ioctl(self.listener, _RECEIVE, call)
            (number,) = struct.unpack_from("Q", call)
            flags, error = (0, -errno.EPERM) if self.is_refused else (_CONTINUE, 0)
            fcntl.ioctl(self.listener, _SEND, struct.pack("QqiI", number, 0, error, flags))
        except OSError as gone:
            # Whoever called was killed, or got a signal and asks again.
            if gone.errno not in (errno.ENOENT, errno.EINTR, errno.EINPROGRESS):
                raise


def listen(code: bytes) -> int | None:
    """Install the filter that asks; None where this kernel, or who filters around us, does not allow it."""
    try:
        return seccomp.install_listener(code)
    except OSError:
        return None


def can_mark() -> bool:
    """Whether this process has the capability to give."""
    return syscalls.has_capability(MARK)
