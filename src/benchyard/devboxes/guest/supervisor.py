"""The process beside each command: saves its output, feeds its input, ends it, and reports how it ended.

It is forked ahead by the devbox's first process and takes one command from it over a socket. Being a child
subreaper it keeps every descendant of the command, so that a kill reaches all of them. The files it writes
were opened outside the devbox; no process inside can reach them.
"""

import base64
import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import struct
import termios
import time
from typing import Any

from benchyard.devboxes.guest import launch, processes, syscalls, wire

_CHUNK = 256 * 1024
_LEAST_LOOK = 64 * 1024
_MOST_LOOK = 1024**2
_WRITERS = 64
"""Streams that may write at once without exceeding the shared space between two checks of the disk."""
_SHORT = "output was cut: the server's disk is short of space"
_INPUT_BUFFER = 16 * 1024 * 1024
_END_OF_TRANSMISSION = b"\x04"


class CommandOutput:
    """A stream of the command being copied to a file, cut off at a limit, or when the disk is short."""

    def __init__(self, source: int, target: int, limit: int, spare: int = 0) -> None:
        self.source = source
        self.target = target
        self.left = limit
        self._spare = spare
        self._unlooked = _LEAST_LOOK
        """Bytes to write before the free space of the disk is checked again."""
        self.truncated = False
        self.error: str | None = None
        self.open = True
        self._unread: int | None = None
        """Bytes that may still be read, once that is bounded."""

    def bound(self) -> None:
        """Accept only the output that is in the pipe at this moment."""
        if self.open:
            held = fcntl.ioctl(self.source, termios.FIONREAD, bytes(4))
            self._unread = int(struct.unpack("i", held)[0])

    def pump(self) -> bool:
        """Copy the output available now; return False if there was none."""
        if self._unread == 0:
            self.open = False
            return False
        try:
            data = os.read(self.source, _CHUNK if self._unread is None else min(_CHUNK, self._unread))
        except BlockingIOError:
            return False
        except OSError:
            # A terminal answers EIO once its last holder has gone.
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
                # The host's disk is full: the command goes on, its output is lost and reported as lost.
                self.left, self.truncated, self.error = 0, True, f"output was lost: {error.strerror}"
                return

    def _has_space(self, size: int) -> bool:
        """Tell whether the disk keeps enough space for others; checked more often as it gets short."""
        self._unlooked -= size
        if self._unlooked >= 0:
            return True
        disk = os.fstatvfs(self.target)
        to_share = disk.f_bavail * disk.f_frsize - self._spare
        self._unlooked = max(_LEAST_LOOK, min(_MOST_LOOK, to_share // _WRITERS))
        return to_share > 0

    def stop_keeping(self) -> None:
        """Go on reading, so that writers are not blocked, but keep no more output."""
        self.left = 0


class CommandInput:
    """Pending bytes for the command's standard input; answers are delayed while too many wait."""

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
        """Accept input under a sequence number, to be answered by `feed`; False once input was closed."""
        if not self.open or self._closing:
            return False
        self._pending += data
        self._closing = close
        self._unanswered.append(sequence)
        return True

    def feed(self) -> list[int]:
        """Write as much as the command takes now; return the sequence numbers that can be answered."""
        try:
            while self._pending:
                del self._pending[: os.write(self.target, self._pending[:65536])]
        except BlockingIOError:
            self._watch(wanted=True)
        except OSError:
            # The command closed its standard input: the rest has no reader.
            self._pending.clear()
            self._end()
        else:
            self._watch(wanted=False)
            if self._closing:
                self._end()
        return self.answers() if len(self._pending) <= _INPUT_BUFFER else []

    def answers(self) -> list[int]:
        """Return every sequence number not answered yet."""
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
            # A terminal stays open: its end of file is a control character.
            self._closing = False
            os.write(self.target, _END_OF_TRANSMISSION)
            return
        self._watch(wanted=False)
        self.open = False
        os.close(self.target)


_PIPE_SIZE = 1024 * 1024
_F_SETPIPE_SZ = 1031
_GRACE_SECONDS = 0.2
"""Seconds after the command's end in which its children's output still counts as its own."""
_SCAN_SECONDS = 0.25
"""Seconds of killing by scans, before a request to the first process to freeze and kill the rest."""
_ASK_SECONDS = 1.0
_END_SECONDS = 30.0
"""Most seconds for killing everything."""
_LOOK_MS = 2
_MOST_REAPED = 256
_KILLED = 137


class Supervisor:
    """The life of one command."""

    def __init__(self, agent: socket.socket, wakeup: int) -> None:
        self.agent = agent
        self.wakeup = wakeup
        self.poll = select.poll()
        self.poll.register(agent, select.POLLIN)
        self.poll.register(wakeup, select.POLLIN)
        self.outputs: list[CommandOutput] = []
        self.input: CommandInput | None = None
        self.terminal: int | None = None
        self.status_file = -1
        self.child = 0
        self.exit_status: int | None = None
        self.signal: int | None = None
        self.strict = False
        self.error: str | None = None
        self.timed_out = self.killed = self.reported = False
        self.deadline: float | None = None
        self.ending_since: float | None = None
        """Time at which the killing of all descendants began."""
        self.asked_at = 0.0
        self.has_more_to_reap = False

    def start(self, request: dict[str, Any], descriptors: list[int]) -> None:
        """Start the command; `descriptors` are the stdout, stderr and status files, then the extra ones."""
        stdout, stderr, self.status_file, *extra = descriptors
        # A terminal does not report how many bytes are on their way.
        self.strict = bool(request.get("strict")) and not request.get("pty")
        if request.get("pty"):
            inner = self._terminal(request, stdout)
        else:
            inner = self._pipes(request, (stdout, stderr))
        # Before any program of the command runs: its output is saved even if it kills this process. An
        # attempt only: devboxes that share a user also share its limit of descriptors in transit.
        with contextlib.suppress(OSError):
            wire.send(self.agent, {"sources": True}, [output.source for output in self.outputs])
        try:
            self.child = launch.start(request, launch.Streams(*inner, extra))
        except launch.CannotStart as error:
            self.exit_status = error.status
            os.write(inner[2], f"benchyard: cannot start: {error}\n".encode(errors="replace"))
        for descriptor in {*inner, *extra}:
            os.close(descriptor)
        timeout = request.get("timeout")
        self.deadline = None if timeout is None else time.monotonic() + timeout

    def _pipes(self, request: dict[str, Any], files: tuple[int, int]) -> tuple[int, int, int]:
        ends = []
        for file in files:
            reader, writer = os.pipe2(os.O_CLOEXEC)
            # If the user's share of pipe memory is used up, the default size works too, only slower.
            with contextlib.suppress(OSError):
                fcntl.fcntl(reader, _F_SETPIPE_SZ, _PIPE_SIZE)
            self._watch(CommandOutput(reader, file, request["output_bytes"], request.get("spare_bytes", 0)))
            ends.append(writer)
        if not request.get("stdin"):
            return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC), ends[0], ends[1]
        stdin, writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(writer, False)
        self.input = CommandInput(writer, self.poll, is_terminal=False)
        return stdin, ends[0], ends[1]

    def _terminal(self, request: dict[str, Any], stdout: int) -> tuple[int, int, int]:
        self.terminal, slave = os.openpty()
        self._resize(*request["pty"])
        self._watch(
            CommandOutput(self.terminal, stdout, request["output_bytes"], request.get("spare_bytes", 0))
        )
        self.input = CommandInput(self.terminal, self.poll, is_terminal=True)
        return slave, slave, slave

    def _watch(self, output: CommandOutput) -> None:
        os.set_blocking(output.source, False)
        self.outputs.append(output)
        self.poll.register(output.source, select.POLLIN)

    def run(self) -> None:
        """Serve until the command and all its descendants are gone."""
        while True:
            alive = self._reap()
            if alive and self.ending_since is not None:
                self._sweep(self.ending_since)
            elif not self.reported:
                if self.exit_status is not None:
                    self._drain()
                if self.deadline is not None and time.monotonic() >= self.deadline:
                    self._bell()
            # Looked at last: the report just made may have been the last thing to wait for.
            if self.reported and not alive:
                return
            for descriptor, _event in self.poll.poll(self._wait_ms()):
                if self.strict and self.exit_status is None:
                    # Notice its end before reading on.
                    self._reap()
                self._serve(descriptor)

    def _serve(self, descriptor: int) -> None:
        if descriptor == self.wakeup:
            os.read(self.wakeup, 512)
        elif descriptor == self.agent.fileno():
            self._control()
        if self.input and self.input.open and descriptor == self.input.target:
            self._answer(self.input.feed(), accepted=True)
        for output in self.outputs:
            if output.open and descriptor == output.source:
                self._read(output)

    def _sweep(self, since: float) -> None:
        """Kill the remaining descendants once more; the command counts as ended only when none is left."""
        now = time.monotonic()
        if now < since + _SCAN_SECONDS:
            processes.kill_round(os.getpid())
        elif now > since + _END_SECONDS:
            self.ending_since = None
            self.error = "processes that the command had started could not be killed"
            self.exit_status = _KILLED if self.exit_status is None else self.exit_status
        elif now > self.asked_at + _ASK_SECONDS:
            self.asked_at = now
            wire.send(self.agent, {"stubborn": True})

    def _end_everything(self) -> None:
        """Begin to kill everything below this process."""
        if self.ending_since is None:
            self.ending_since = time.monotonic()
            self.asked_at = 0.0

    def _wait_ms(self) -> int | None:
        if self.has_more_to_reap:
            return 0
        if self.ending_since is not None and not self.reported:
            return _LOOK_MS
        if self.reported or self.deadline is None:
            return None
        return max(0, int((self.deadline - time.monotonic()) * 1000) + 1)

    def _read(self, output: CommandOutput) -> bool:
        more = output.pump()
        if not output.open:
            self.poll.unregister(output.source)
            if output.source != self.terminal:
                os.close(output.source)
            elif self.input:
                self.input.open = False
        return more

    def _reap(self) -> bool:
        """Collect ended children; return False when no child is left."""
        self.has_more_to_reap = False
        for _ in range(_MOST_REAPED):
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | processes.WALL)
            except ChildProcessError:
                # Exact, unlike a scan: every descendant of a subreaper has an ancestor that is its child.
                return False
            if pid == 0:
                return True
            if pid == self.child:
                code = os.waitstatus_to_exitcode(status)
                self.exit_status = code if code >= 0 else 128 - code
                self.signal = -code if code < 0 else None
                self.deadline = time.monotonic() + _GRACE_SECONDS
                if self.strict:
                    self._close_the_books()
        # Endless forking must not keep the time limit from being checked.
        self.has_more_to_reap = True
        return True

    def _close_the_books(self) -> None:
        """Close the output: read the bytes written so far, drop later ones, and end the remaining writers."""
        for output in self.outputs:
            output.bound()
        for output in self.outputs:
            while output.open and self._read(output):
                pass
        self._end_everything()

    def _drain(self) -> None:
        for output in self.outputs:
            while output.open and self._read(output):
                pass
        if self.strict or not any(output.open for output in self.outputs):
            self._report()

    def _bell(self) -> None:
        """Handle the end of the command's time, or of the grace after its end."""
        self.deadline = None
        if self.exit_status is not None:
            if not self.reported:
                self._report()
        else:
            self.timed_out = True
            self._end_everything()

    def _report(self) -> None:
        self.reported = True
        stdout, stderr = self.outputs[0], self.outputs[-1]
        status = {
            "exit_status": self.exit_status,
            "timed_out": self.timed_out,
            "killed": self.killed,
            "stdout_truncated": stdout.truncated,
            "stderr_truncated": stderr.truncated,
            "ended_ms": int(time.time() * 1000),
            "error": stdout.error or stderr.error or self.error,
            "signal": self.signal,
        }
        os.write(self.status_file, json.dumps(status).encode())
        for output in self.outputs:
            output.stop_keeping()
        if self.input:
            self._answer(self.input.answers(), accepted=False)
        wire.send(self.agent, {"ended": True})

    def _control(self) -> None:
        message, _descriptors = wire.receive(self.agent)
        if message is None:
            os._exit(0)
        sequence, action = message["seq"], message["do"]
        if self.reported:
            self._answer([sequence], accepted=False)
        elif action == "stdin":
            data = base64.b64decode(message["data"])
            if self.input and self.input.take(sequence, data, close=message["close"]):
                self._answer(self.input.feed(), accepted=True)
            else:
                self._answer([sequence], accepted=False)
        else:
            self._act(action, message)
            self._answer([sequence], accepted=True)

    def _act(self, action: str, message: dict[str, Any]) -> None:
        if action == "signal":
            self._signal(message["number"])
        elif action == "resize" and self.terminal is not None:
            self._resize(message["columns"], message["rows"])
        elif action == "kill":
            self.killed = True
            if message["tree"]:
                self._end_everything()
            else:
                self._kill(self.child, signal.SIGKILL)

    def _resize(self, columns: int, rows: int) -> None:
        assert self.terminal is not None
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _signal(self, number: int) -> None:
        group = self.child
        if self.terminal is not None:
            try:
                group = os.tcgetpgrp(self.terminal) or self.child
            except OSError:
                group = self.child
        self._kill(-group, number)

    @staticmethod
    def _kill(target: int, number: int) -> None:
        try:
            os.kill(target, number)
        except ProcessLookupError:
            return

    def _answer(self, sequences: list[int], *, accepted: bool) -> None:
        for sequence in sequences:
            wire.send(self.agent, {"seq": sequence, "ok": accepted})


def main(agent: socket.socket) -> None:
    """Wait for a command, then live as long as it does (in a forked child of the devbox's first process)."""
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    wakeup = processes.wake_on_child()
    message, descriptors = wire.receive(agent)
    if message is None:
        os._exit(0)
    if message.get("spilled"):
        with os.fdopen(descriptors.pop(0), "rb") as file:
            message = json.loads(file.read())
    supervisor = Supervisor(agent, wakeup)
    supervisor.start(message, descriptors)
    supervisor.run()
    os._exit(0)
