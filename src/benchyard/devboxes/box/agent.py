"""The devbox's first process: takes requests from the host, and hands each command a supervisor.

It holds the devbox alive by itself: when the host's side goes away, it waits for the next connection, but
not for ever: it ends, and the devbox with it, when nobody was connected for as long as its lease.
A supervisor is forked ahead of the next command, so that a command costs one fork, not two.
"""

import os
import select
import signal
import socket
import stat
import time
from typing import Any

from benchyard.devboxes.box import processes, supervisor, users, wire

_PARENT_MODE = 0o755
_LONGEST_POLL_MS = 2**31 - 1


class Agent:
    """Connections from the host on one side, supervisors on the other."""

    def __init__(self, listener: socket.socket, *, can_change_user: bool, lease: float) -> None:
        self.listener = listener
        self.can_change_user = can_change_user
        self.lease = lease
        self.last_contact = time.monotonic()
        self.dismissed = False
        self.wakeup = processes.wake_on_child()
        self.poll = select.poll()
        self.poll.register(listener, select.POLLIN)
        self.poll.register(self.wakeup, select.POLLIN)
        self.connections: dict[int, socket.socket] = {}
        self.supervisors: dict[int, socket.socket] = {}
        self.commands: dict[str, int] = {}
        self.unanswered: dict[int, dict[int, socket.socket]] = {}
        self.spare: tuple[int, socket.socket] | None = None

    def run(self) -> None:
        """Serve until the lease is over."""
        while not self.dismissed and self._lease_left() > 0:
            if self.spare is None:
                self.spare = self._fork_supervisor()
            for descriptor, _event in self.poll.poll(self._patience_ms()):
                if descriptor == self.wakeup:
                    os.read(self.wakeup, 512)
                    self._reap()
                elif descriptor == self.listener.fileno():
                    self._accept()
                elif descriptor in self.connections:
                    self._request(self.connections[descriptor])
                elif descriptor in self.supervisors:
                    self._heard(descriptor)

    def _lease_left(self) -> float:
        if self.connections:
            return self.lease
        return self.last_contact + self.lease - time.monotonic()

    def _patience_ms(self) -> int | None:
        if self.connections:
            return None
        return min(max(0, int(self._lease_left() * 1000) + 1), _LONGEST_POLL_MS)

    def _accept(self) -> None:
        connection, _address = self.listener.accept()
        self.connections[connection.fileno()] = connection
        self.poll.register(connection, select.POLLIN)

    def _drop(self, connection: socket.socket) -> None:
        self.poll.unregister(connection)
        del self.connections[connection.fileno()]
        for waiting in self.unanswered.values():
            for sequence in [number for number, asker in waiting.items() if asker is connection]:
                del waiting[sequence]
        connection.close()
        self.last_contact = time.monotonic()

    def _request(self, connection: socket.socket) -> None:
        try:
            message, descriptors = wire.receive(connection)
        except OSError:
            message, descriptors = None, []
        if message is None:
            self._drop(connection)
            return
        try:
            self._serve(connection, message, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _serve(self, connection: socket.socket, message: dict[str, Any], descriptors: list[int]) -> None:
        operation = message["op"]
        if operation == "exec":
            self._execute(message, descriptors)
        elif operation == "control":
            self._forward(connection, message)
        elif operation == "open":
            self._open(connection, message)
        elif operation == "list":
            self._send(connection, {"seq": message["seq"], "commands": list(self.commands)})
        elif operation == "end":
            self.dismissed = True
        elif operation in ("stop_all", "continue_all"):
            number = signal.SIGSTOP if operation == "stop_all" else signal.SIGCONT
            self._signal_all(number)
            self._send(connection, {"seq": message["seq"], "ok": True})

    @staticmethod
    def _signal_all(number: int) -> None:
        try:
            os.kill(-1, number)
        except ProcessLookupError:
            return

    @staticmethod
    def _send(connection: socket.socket, message: dict[str, Any]) -> None:
        try:
            wire.send(connection, message)
        except OSError:
            # The host's side is gone; its next poll event drops the connection.
            return

    def _fork_supervisor(self) -> tuple[int, socket.socket] | None:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            pid = os.fork()
        except OSError:
            # The devbox is at its limit of processes: the next command tries again.
            mine.close()
            theirs.close()
            return None
        if pid == 0:
            mine.close()
            self.listener.close()
            for other in (*self.connections.values(), *self.supervisors.values()):
                other.close()
            supervisor.main(theirs)
            os._exit(0)
        theirs.close()
        return pid, mine

    def _execute(self, message: dict[str, Any], descriptors: list[int]) -> None:
        taken = self.spare or self._fork_supervisor()
        self.spare = None
        if taken is None:
            os.write(descriptors[2 + bool(message.get("spilled"))], _NO_PROCESS)
            self._broadcast({"ended": message["id"]})
            return
        _pid, channel = taken
        key = channel.fileno()
        self.supervisors[key] = channel
        self.commands[message["id"]] = key
        self.unanswered[key] = {}
        self.poll.register(channel, select.POLLIN)
        try:
            wire.send(channel, message, descriptors)
        except OSError:
            # The supervisor was killed while it waited for a command.
            self._lost(key)

    def _forward(self, connection: socket.socket, message: dict[str, Any]) -> None:
        key = self.commands.get(message["id"])
        if key is None:
            self._send(connection, {"seq": message["seq"], "ok": False})
            return
        self.unanswered[key][message["seq"]] = connection
        # A supervisor that has just ended answers by its channel's end, see `_lost`.
        self._send(self.supervisors[key], message)

    def _heard(self, key: int) -> None:
        try:
            message, _descriptors = wire.receive(self.supervisors[key])
        except OSError:
            message = None
        if message is None:
            self._lost(key)
        elif "ended" in message:
            self._ended(key)
        else:
            asker = self.unanswered[key].pop(message["seq"], None)
            if asker is not None:
                self._send(asker, message)

    def _lost(self, key: int) -> None:
        """A supervisor has gone: normally long after its command ended."""
        self._ended(key)
        channel = self.supervisors.pop(key)
        self.poll.unregister(channel)
        channel.close()
        for sequence, asker in self.unanswered.pop(key).items():
            self._send(asker, {"seq": sequence, "ok": False})

    def _ended(self, key: int) -> None:
        for command in [name for name, value in self.commands.items() if value == key]:
            del self.commands[command]
            self._broadcast({"ended": command})

    def _broadcast(self, message: dict[str, Any]) -> None:
        for connection in self.connections.values():
            self._send(connection, message)

    def _reap(self) -> None:
        while True:
            try:
                pid, _status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self.spare is not None and self.spare[0] == pid:
                self.spare[1].close()
                self.spare = None

    def _open(self, connection: socket.socket, message: dict[str, Any]) -> None:
        """Open a file as one of our users in a child, which answers with the descriptor itself."""
        try:
            if os.fork():
                return
        except OSError as error:
            self._send(
                connection, {"seq": message["seq"], "ok": False, "errno": error.errno, "text": str(error)}
            )
            return
        answer: dict[str, Any] = {"seq": message["seq"], "ok": True}
        opened: list[int] = []
        try:
            opened.append(_open_as(message, can_change_user=self.can_change_user))
            if message["write"]:
                # Its other end closes with this process: a program can be run once nobody here can write it.
                opened.append(os.pipe2(os.O_CLOEXEC)[0])
        except (OSError, LookupError, ValueError) as error:
            number = error.errno if isinstance(error, OSError) else None
            answer = {"seq": message["seq"], "ok": False, "errno": number, "text": str(error)}
        try:
            wire.send(connection, answer, opened)
            for descriptor in opened:
                os.close(descriptor)
        finally:
            os._exit(0)


_NO_PROCESS = (
    b'{"exit_status": 126, "timed_out": false, "killed": false, "stdout_truncated": false,'
    b' "stderr_truncated": false, "ended_ms": 0, "error": "the devbox is at its limit of processes"}'
)


def _open_as(message: dict[str, Any], *, can_change_user: bool) -> int:
    user = users.find(message["user"])
    path = users.expand(message["path"], user)
    user.become(can_change=can_change_user)
    os.umask(0o022)
    flags = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    if message["write"]:
        os.makedirs(os.path.dirname(path), _PARENT_MODE, exist_ok=True)
        descriptor = os.open(path, flags | os.O_WRONLY | os.O_CREAT, message["mode"])
    else:
        descriptor = os.open(path, flags | os.O_RDONLY)
    kind = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(kind):
        raise OSError(21 if stat.S_ISDIR(kind) else 22, "not a regular file", path)
    if message["write"]:
        # A file that the kernel makes up may take nothing and fail at nothing, for ever.
        if os.fstat(descriptor).st_dev == os.stat("/proc").st_dev:
            raise OSError(22, "not a file on disk", path)
        os.ftruncate(descriptor, 0)
    return descriptor
