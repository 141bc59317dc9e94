"""A command's streams: output on its way into files, input on its way to the command."""

import fcntl
import os
import select
import struct
import termios

_CHUNK = 256 * 1024
_LEAST_LOOK = 64 * 1024
_MOST_LOOK = 1024**2
_WRITERS = 64
"""How many streams may write at once without taking more than there is to share between two looks."""
_SHORT = "output was cut: the server's disk is short of space"
_INPUT_BUFFER = 16 * 1024 * 1024
_END_OF_TRANSMISSION = b"\x04"


class Output:
    """One stream of the command on its way into a file, cut off at a limit, or when the disk is short."""

    def __init__(self, source: int, target: int, limit: int, spare: int = 0) -> None:
        self.source = source
        self.target = target
        self.left = limit
        self._spare = spare
        self._unlooked = _LEAST_LOOK
        """How much more is written before it is looked how much space the disk has."""
        self.truncated = False
        self.error: str | None = None
        self.open = True
        self._unread: int | None = None
        """How much may still be read, once that is bounded."""

    def bound(self) -> None:
        """Count nothing as said that is not on its way at this moment."""
        if self.open:
            held = fcntl.ioctl(self.source, termios.FIONREAD, bytes(4))
            self._unread = int(struct.unpack("i", held)[0])

    def pump(self) -> bool:
        """Copy what is there now; False when nothing is."""
        if self._unread == 0:
            self.open = False
            return False
        try:
            data = os.read(self.source, _CHUNK if self._unread is None else min(_CHUNK, self._unread))
        except BlockingIOError:
            return False
        except OSError:
            # A terminal whose last holder has gone answers EIO.
            data = b""
        if not data:
            self.open = False
            return False
        if self._unread is not None:
            self._unread -= len(data)
        self._keep(data)
        return True

    def _keep(self, data: bytes) -> None:
        if len(data) > self.left:
            self.truncated = True
        view = memoryview(data)[: self.left]
        if view and self._spare and not self._has_space(len(view)):
            self.left, self.truncated, self.error = 0, True, _SHORT
            return
        self.left -= len(view)
        while view:
            try:
                view = view[os.write(self.target, view) :]
            except OSError as error:
                # The host's disk is full: the command goes on, its output is lost and said to be.
                self.left, self.truncated, self.error = 0, True, f"output was lost: {error.strerror}"
                return

    def _has_space(self, size: int) -> bool:
        """Whether the disk has enough for others; looked at the more often the less there is."""
        self._unlooked -= size
        if self._unlooked >= 0:
            return True
        disk = os.fstatvfs(self.target)
        to_share = disk.f_bavail * disk.f_frsize - self._spare
        self._unlooked = max(_LEAST_LOOK, min(_MOST_LOOK, to_share // _WRITERS))
        return to_share > 0

    def stop_keeping(self) -> None:
        """Read on, so that whoever still writes is not stopped, but keep nothing more."""
        self.left = 0


class Input:
    """What waits for the command's standard input; answers are held back while too much does."""

    def __init__(self, target: int, poll: select.poll, *, is_terminal: bool) -> None:
        self.target = target
        self.open = True
        self._poll = poll
        self._is_terminal = is_terminal
        self._pending = bytearray()
        self._closing = False
        self._unanswered: list[int] = []
        self._watched = False

    def take(self, sequence: int, data: bytes, *, close: bool) -> bool:
        """Accept input under a sequence number, to be answered by `feed`; False once it was closed."""
        if not self.open or self._closing:
            return False
        self._pending += data
        self._closing = close
        self._unanswered.append(sequence)
        return True

    def feed(self) -> list[int]:
        """Write what the command takes now; returns the sequence numbers that can be answered."""
        try:
            while self._pending:
                del self._pending[: os.write(self.target, self._pending[:65536])]
        except BlockingIOError:
            self._watch(wanted=True)
        except OSError:
            # The command closed its standard input: what is left has no reader.
            self._pending.clear()
            self._end()
        else:
            self._watch(wanted=False)
            if self._closing:
                self._end()
        return self.answers() if len(self._pending) <= _INPUT_BUFFER else []

    def answers(self) -> list[int]:
        """Every sequence number not answered yet."""
        waiting, self._unanswered = self._unanswered, []
        return waiting

    def _watch(self, *, wanted: bool) -> None:
        if self._is_terminal:
            self._poll.register(self.target, select.POLLIN | (select.POLLOUT if wanted else 0))
        elif wanted:
            self._poll.register(self.target, select.POLLOUT)
        elif self._watched:
            self._poll.unregister(self.target)
        self._watched = wanted

    def _end(self) -> None:
        if self._is_terminal:
            # A terminal stays open: its end of file is a key.
            self._closing = False
            os.write(self.target, _END_OF_TRANSMISSION)
            return
        self._watch(wanted=False)
        self.open = False
        os.close(self.target)
