"""The devbox's first process: takes requests from the host, and hands each command a supervisor.

It holds the devbox alive by itself: when the host's side goes away, it waits for the next connection, but not
for ever: if no server connects for the time of its lease, it ends, and the devbox with it. A supervisor is
forked ahead of the next command, so that a command costs one fork, not two; a devbox that has run none for
some seconds keeps no such process, nor the memory it takes. Many devboxes run one command only, so none is
forked ahead of the second one. If root inside harms the supervisor of a command, this process ends the
command instead.
"""

import contextlib
import json
import os
import select
import signal
import socket
import time
from typing import Any, NamedTuple, NoReturn

from benchyard.devboxes.guest import files, processes, sockets, supervisor, users, wire
from benchyard.devboxes.guest.freezer import Freezer
from benchyard.devboxes.guest.sockets import GuestDoors
from benchyard.devboxes.guest.supervisor import CommandOutput
from benchyard.devboxes.guest.tracing import Tracing

GRACE_SECONDS = 5.0
"""Time a supervisor has, after the command's timeout, to end its command by itself."""
_KILLED = 137
_MOST_READS = 16
"""Most reads of a pipe's remains: other processes may still write to it."""
_LOST = "the process that kept this command was killed inside the devbox"


class SupervisedCommand:
    """A command, its supervisor, and the requests waiting for an answer about it."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self.channel = channel
        self.command: str | None = None
        """None before a supervisor has its command, and again once that has ended."""
        self.asking: dict[int, tuple[socket.socket, str]] = {}
        """The waiting connections and their requests, by sequence number."""
        self.due: float | None = None
        self.is_open = True
        self._files: list[int] = []
        self._sources: list[int] = []
        self._limit = self._spare = 0
        self._is_strict = False
        self._is_killed = self._is_late = False

    def take(self, message: dict[str, Any], descriptors: list[int]) -> None:
        """Note the command that is about to be handed to the supervisor."""
        first = 1 if message.get("spilled") else 0
        self._files = [os.dup(number) for number in descriptors[first : first + 3]]
        self.command = message["id"]
        self._limit = message["output_bytes"]
        self._spare = message.get("spare_bytes", 0)
        self._is_strict = bool(message.get("strict"))
        if message["timeout"] is not None:
            self.due = time.monotonic() + message["timeout"] + GRACE_SECONDS

    def keep_sources(self, descriptors: list[int]) -> None:
        """Keep the ends of the command's pipes or terminal from which its supervisor reads."""
        self._sources = descriptors

    def expect_end(self) -> None:
        """Set the deadline of a supervisor that has been sent the request to kill its command."""
        self._is_killed = True
        soon = time.monotonic() + GRACE_SECONDS
        self.due = soon if self.due is None else min(self.due, soon)

    def end(self, freezer: Freezer) -> None:
        """Do the job of a failed supervisor: end everything below it, and the supervisor too."""
        self._is_late = not self._is_killed
        self.due = time.monotonic() + GRACE_SECONDS
        freezer.kill(self._everything)

    def _everything(self) -> list[int]:
        seen = processes.read_process(self.pid)
        return [*([self.pid] if seen and seen.is_alive else []), *processes.descendants(self.pid)]

    def settle(self) -> None:
        """Finish for a supervisor that is gone: save its unread output, and write how the command ended."""
        if self.command is not None and os.fstat(self._files[2]).st_size == 0:
            outputs = [self._save(*pair) for pair in zip(self._sources, self._files[:2], strict=False)]
            status = {
                "exit_status": _KILLED,
                "timed_out": self._is_late,
                "killed": self._is_killed,
                "stdout_truncated": any(output.truncated for output in outputs[:1]),
                "stderr_truncated": any(output.truncated for output in outputs[1:]),
                "ended_ms": int(time.time() * 1000),
                "error": None if self._is_late or self._is_killed else _LOST,
                "signal": int(signal.SIGKILL),
            }
            # If even this does not fit on the disk, the host reports it when it finds no status.
            with contextlib.suppress(OSError):
                os.write(self._files[2], json.dumps(status).encode())

    def _save(self, source: int, target: int) -> CommandOutput:
        size = os.fstat(target).st_size
        output = CommandOutput(source, target, max(0, self._limit - size), self._spare)
        if self._is_strict:
            output.bound()
        for _ in range(_MOST_READS):
            if not output.pump():
                break
        output.truncated = output.truncated or size >= self._limit
        return output

    def release(self) -> None:
        """Close the command's descriptors: it has its status."""
        for number in (*self._files, *self._sources):
            os.close(number)
        self._files, self._sources = [], []
        self.command = self.due = None


_MOST_COMMAND = 200
_READ_BYTES = 4096


class OwnedProcess(NamedTuple):
    """A process that was seen, and its owner."""

    seen: processes.ProcessStat
    uid: int


def find_owners(pids: list[int]) -> list[OwnedProcess]:
    """Record the owners of these processes, in the order of their pids; ended ones are left out."""
    owners = []
    for pid in sorted(pids):
        seen = processes.read_process(pid)
        try:
            owner = os.stat(f"/proc/{pid}").st_uid
        except OSError:
            continue
        if seen is not None:
            owners.append(OwnedProcess(seen, owner))
    return owners


def answer_processes(
    connection: socket.socket, message: dict[str, Any], processes: list[OwnedProcess]
) -> NoReturn:
    """Describe the requested number, send that with the number of all, and end (in a forked child)."""
    try:
        sheet = os.memfd_create("benchyard-processes", os.MFD_CLOEXEC)
        with os.fdopen(sheet, "w") as file:
            json.dump(
                {"total": len(processes), "processes": describe_processes(processes, message["most"])}, file
            )
            file.flush()
            wire.send(connection, {"seq": message["seq"], "ok": True}, [sheet])
    finally:
        os._exit(0)


def describe_processes(processes: list[OwnedProcess], most: int) -> list[dict[str, Any]]:
    """Describe at most `most` processes: of each command line one before the second of any."""
    names = {row[2]: row[0] for row in users.rows("/etc/passwd") if len(row) > 2}
    described = [_facts(process, names) for process in processes]
    counts: dict[tuple[str, str], int] = {}
    turns = []
    for facts in described:
        key = (facts["user"], facts["command"])
        counts[key] = counts.get(key, 0) + 1
        turns.append(counts[key])
    order = sorted(range(len(described)), key=lambda at: (turns[at], described[at]["pid"]))
    rows = [described[at] for at in order[:most]]
    return sorted(rows, key=lambda facts: int(facts["pid"]))


def _facts(found: OwnedProcess, names: dict[str, str]) -> dict[str, Any]:
    """Return the kernel's facts about a process, and its own command line."""
    seen, uid, command = found.seen, found.uid, b""
    again = processes.read_process(seen.pid)
    # Another process may have got its number meanwhile.
    if again is not None and again.started == seen.started:
        try:
            status = dict(
                line.split(b":", 1) for line in _read(seen.pid, "status").splitlines() if b":" in line
            )
            uid = int(status[b"Uid"].split()[1])
            command = _command(seen.pid)
        except (OSError, KeyError, IndexError, ValueError):
            command = b""
    text = (command or b"[%s]" % seen.name).decode("utf-8", "backslashreplace")
    begun = seen.started / os.sysconf("SC_CLK_TCK")
    return {
        "pid": seen.pid,
        "ppid": seen.parent,
        "uid": uid,
        "user": names.get(str(uid), str(uid))[:64],
        "command": text[:_MOST_COMMAND],
        "start_seconds_ago": max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - begun),
    }


def _command(pid: int) -> bytes:
    """Return the command line; if the first thread has ended, the other threads still have it."""
    for name in (str(pid), *(f"{pid}/task/{thread}" for thread in os.listdir(f"/proc/{pid}/task"))):
        if command := _read(name, "cmdline").rstrip(b"\0").replace(b"\0", b" "):
            return command
    return b""


def _read(pid: int | str, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
        return file.read(_READ_BYTES) or b""


_LONGEST_POLL_MS = 2**31 - 1
_OPEN_SECONDS = 20.0
_LOOK_SECONDS = 0.001
_SPARE_SECONDS = 3.0
"""Seconds after the last command during which another one is expected."""
_EIO = 5
_ETIMEDOUT = 110
_SWEEP_SECONDS = 0.25
"""Seconds of scanning to end everything, before all processes are frozen for it."""


class _Opening(NamedTuple):
    """A child that opens a file or lists processes: its requester, and its deadline."""

    connection: socket.socket
    sequence: int
    due: float


class Pid1:
    """The first process's loop: connections from the host on one side, supervisors on the other."""

    def __init__(
        self,
        listener: socket.socket,
        freezer: Freezer,
        *,
        can_change_user: bool,
        lease: float,
        tracing: Tracing | None = None,
    ) -> None:
        self.listener = listener
        self.freezer = freezer
        self.tracing = tracing
        self.can_change_user = can_change_user
        self.lease = lease
        self.last_contact = time.monotonic()
        self.dismissed = False
        self.stands_still = False
        self.wakeup = processes.wake_on_child()
        self.poll = select.poll()
        self.poll.register(listener, select.POLLIN)
        self.poll.register(self.wakeup, select.POLLIN)
        if tracing is not None and tracing.listener is not None:
            self.poll.register(tracing.listener, select.POLLIN)
        self.connections: dict[int, socket.socket] = {}
        self.supervisors: dict[int, SupervisedCommand] = {}
        self.commands: dict[str, SupervisedCommand] = {}
        self.openings: dict[int, _Opening] = {}
        self.doors = GuestDoors()
        self.spare: SupervisedCommand | None = None
        self.spare_until = time.monotonic() + _SPARE_SECONDS
        self.has_run = False

    def run(self) -> None:
        """Serve until the lease is over."""
        while not self.dismissed and self._lease_left() > 0:
            self._see_to_spare()
            for descriptor, _event in self.poll.poll(self._patience_ms()):
                if descriptor == self.wakeup:
                    os.read(self.wakeup, 512)
                    self._reap()
                elif descriptor == self.listener.fileno():
                    self._accept()
                elif descriptor in self.connections:
                    self._request(self.connections[descriptor])
                elif descriptor in self.supervisors:
                    self._heard(self.supervisors[descriptor])
                elif self.tracing is not None and descriptor == self.tracing.listener:
                    self.tracing.answer()
            self._enforce()

    def _see_to_spare(self) -> None:
        is_expected = time.monotonic() < self.spare_until
        if is_expected and self.spare is None:
            self.spare = self._fork_supervisor()
        elif self.spare is not None and not is_expected and not self.stands_still:
            self._dismiss_spare()

    def _dismiss_spare(self) -> None:
        """Dismiss the supervisor that was forked ahead; no command can reach it any more."""
        if self.spare is not None:
            self.spare.channel.close()
            self.spare = None

    def _lease_left(self) -> float:
        if self.connections:
            return self.lease
        return self.last_contact + self.lease - time.monotonic()

    def _patience_ms(self) -> int | None:
        waits = [due - time.monotonic() for due in self._dues()]
        if not self.connections:
            waits.append(self._lease_left())
        if self.spare is not None and not self.stands_still:
            waits.append(self.spare_until - time.monotonic())
        if not waits:
            return None
        return min(max(0, int(min(waits) * 1000) + 1), _LONGEST_POLL_MS)

    def _dues(self) -> list[float]:
        if self.stands_still:
            return []
        dues = [held.due for held in self.commands.values() if held.due is not None]
        return dues + [job.due for job in self.openings.values()]

    def _enforce(self) -> None:
        """End commands and children that are past their deadline."""
        now = time.monotonic()
        if self.stands_still or all(due > now for due in self._dues()):
            return
        for held in list(self.commands.values()):
            if held.due is not None and held.due <= now:
                held.end(self.freezer)
        for pid, job in list(self.openings.items()):
            if job.due <= now:
                self.openings[pid] = job._replace(due=now + GRACE_SECONDS)
                os.kill(pid, signal.SIGKILL)

    def _accept(self) -> None:
        connection, _address = self.listener.accept()
        self.connections[connection.fileno()] = connection
        self.poll.register(connection, select.POLLIN)

    def _drop(self, connection: socket.socket) -> None:
        self.poll.unregister(connection)
        del self.connections[connection.fileno()]
        for held in self.commands.values():
            for sequence in [number for number, asked in held.asking.items() if asked[0] is connection]:
                del held.asking[sequence]
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
        elif operation in ("open", "processes", "folders", "files"):
            self._look(connection, message)
        elif operation in ("connect", "listen", "network", "root"):
            self._connect(connection, message)
        elif operation == "list":
            self._send(connection, {"seq": message["seq"], "commands": list(self.commands)})
        elif operation == "tracing":
            self._send(connection, {"seq": message["seq"], **self._set_tracing(allowed=message["allowed"])})
        elif operation == "end":
            self.dismissed = True
        elif operation in ("stop_all", "continue_all", "kill_all"):
            self._send(connection, {"seq": message["seq"], "ok": self._treat_all(operation)})

    def _set_tracing(self, *, allowed: bool) -> dict[str, Any]:
        """Refuse tracing from now on, or allow it again; return the means by which that is enforced."""
        means = self.tracing
        if means is None or (means.listener is None and not means.marks):
            text = "it was started without the means to refuse tracing"
            return {"ok": False, "asks": False, "marks": False, "text": text}
        means.is_refused = not allowed
        # A supervisor forked ahead already has, or lacks, the mark of its command.
        self._dismiss_spare()
        reply = {"ok": True, "asks": means.listener is not None, "marks": means.marks}
        if allowed or not self.supervisors:
            return reply
        # An allowed call may not have been carried out yet; a process that stands still is in no call.
        with self.freezer.hold() as is_still:
            return {**reply, "ok": is_still, "text": "its processes could not be frozen for it"}

    def _treat_all(self, operation: str) -> bool:
        """Freeze, thaw or kill every process but our own; return False if one got away."""
        if operation == "kill_all":
            return self._kill_all()
        self._stand_still(still=operation == "stop_all")
        return True

    def _kill_all(self) -> bool:
        """Kill every process that is not our own; return False if one did not die.

        A supervisor exits when nothing is left below it. The exit of all supervisors is an exact proof, and
        the usual one; if it does not come soon, some process works against it.
        """
        deadline = time.monotonic() + _SWEEP_SECONDS
        while self.supervisors and time.monotonic() < deadline:
            processes.signal_each(self._others(), signal.SIGKILL)
            time.sleep(_LOOK_SECONDS)
            self._reap()
        return not self.supervisors or self.freezer.kill(self._others)

    def _others(self) -> list[int]:
        """Return the pid of every process that is not our own."""
        ours = self._ours()
        return [pid for pid in processes.descendants(os.getpid()) if pid not in ours]

    def _stand_still(self, *, still: bool) -> None:
        self.stands_still = still
        soon = time.monotonic() + GRACE_SECONDS
        for held in self.commands.values():
            # A supervisor that stood still at its deadline gets its chance now.
            held.due = None if held.due is None else max(held.due, soon)
        try:
            os.kill(-1, signal.SIGSTOP if still else signal.SIGCONT)
        except ProcessLookupError:
            return

    @staticmethod
    def _send(connection: socket.socket, message: dict[str, Any]) -> bool:
        try:
            wire.send(connection, message)
        except OSError:
            # The peer is gone, as the next poll reports; or it is a supervisor that does not read: see
            # `_enforce`.
            return False
        return True

    def _fork_supervisor(self, descriptors: list[int] | None = None) -> SupervisedCommand | None:
        """Start a supervisor, which closes the descriptors of a command that this process holds."""
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
            self._let_go()
            for descriptor in descriptors or ():
                os.close(descriptor)
            for other in self.connections.values():
                other.close()
            for held in self.supervisors.values():
                held.release()
                held.channel.close()
            if self.tracing is not None:
                self.tracing.mark()
            supervisor.main(theirs)
            os._exit(0)
        theirs.close()
        # A supervisor that was stopped from inside must not make this process wait.
        mine.setblocking(False)
        return SupervisedCommand(pid, mine)

    def _let_go(self) -> None:
        """Close, in a forked child, the descriptors that only this process uses."""
        self.doors.close()
        self.freezer.close()
        if self.tracing is not None:
            self.tracing.close()

    def _execute(self, message: dict[str, Any], descriptors: list[int]) -> None:
        held = self.spare or self._fork_supervisor(descriptors)
        self.spare = None
        self.spare_until = time.monotonic() + _SPARE_SECONDS if self.has_run else 0.0
        self.has_run = True
        if held is None:
            os.write(descriptors[2 + bool(message.get("spilled"))], _NO_PROCESS)
            self._broadcast({"ended": message["id"]})
            return
        held.take(message, descriptors)
        self.supervisors[held.channel.fileno()] = held
        self.commands[message["id"]] = held
        self.poll.register(held.channel, select.POLLIN)
        try:
            wire.send(held.channel, message, descriptors)
        except OSError:
            # The supervisor was killed while it waited for a command: it is about to be reaped.
            return

    def _forward(self, connection: socket.socket, message: dict[str, Any]) -> None:
        held = self.commands.get(message["id"])
        if held is None:
            self._send(connection, {"seq": message["seq"], "ok": False})
            return
        held.asking[message["seq"]] = (connection, message["do"])
        is_kill = message["do"] == "kill"
        if is_kill:
            held.expect_end()
        if not self._send(held.channel, message) and not is_kill:
            del held.asking[message["seq"]]
            self._send(connection, {"seq": message["seq"], "ok": False})

    def _heard(self, held: SupervisedCommand) -> bool:
        """Take one message of a supervisor; return False when there is none, or none will come."""
        try:
            message, descriptors = wire.receive(held.channel)
        except BlockingIOError:
            return False
        except OSError:
            message, descriptors = None, []
        if message is None:
            if held.is_open:
                # Wait until its end is reaped: then everything it had started is a child of this process.
                self.poll.unregister(held.channel)
                held.is_open = False
            return False
        if "sources" in message:
            held.keep_sources(descriptors)
        elif "ended" in message:
            self._end_supervisor(held)
        elif "stubborn" in message:
            self.freezer.kill(lambda: processes.descendants(held.pid))
        else:
            connection, _action = held.asking.pop(message["seq"], (None, ""))
            if connection is not None:
                self._send(connection, message)
        return True

    def _lost(self, held: SupervisedCommand) -> None:
        """Handle the loss of a supervisor's channel: normally long after its command ended."""
        while self._heard(held):
            pass
        if held.command is not None:
            held.settle()
            self._end_supervisor(held)
        for sequence, (connection, action) in held.asking.items():
            self._send(connection, {"seq": sequence, "ok": action == "kill"})
        if held.is_open:
            self.poll.unregister(held.channel)
        del self.supervisors[held.channel.fileno()]
        held.channel.close()

    def _end_supervisor(self, held: SupervisedCommand) -> None:
        if held.command is not None:
            del self.commands[held.command]
            self._broadcast({"ended": held.command})
            held.release()

    def _broadcast(self, message: dict[str, Any]) -> None:
        for connection in self.connections.values():
            self._send(connection, message)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if not os.WIFSTOPPED(status):
                self._handle_end(pid, status)
            elif not self.stands_still:
                os.kill(pid, signal.SIGCONT)

    def _handle_end(self, pid: int, status: int) -> None:
        """Handle the end of a child: a supervisor, one that opened a file, or an orphan of a supervisor."""
        job = self.openings.pop(pid, None)
        if job is not None and status != 0:
            text = "the process that looked was stopped or killed inside the devbox"
            answer = {"seq": job.sequence, "ok": False, "errno": _EIO, "text": text}
            self._send(job.connection, answer)
        held = next((supervisor for supervisor in self._all_supervisors() if supervisor.pid == pid), None)
        if held is None:
            return
        if status != 0:
            # Its children are now ours; every other child of ours is spared here.
            self.freezer.kill(lambda: processes.descendants(os.getpid(), self._ours()))
        if held is self.spare:
            self.spare = None
            held.channel.close()
        else:
            self._lost(held)

    def _all_supervisors(self) -> list[SupervisedCommand]:
        return [*self.supervisors.values(), *([self.spare] if self.spare else [])]

    def _connect(self, connection: socket.socket, message: dict[str, Any]) -> None:
        try:
            if message["op"] == "connect":
                sockets.answer_connect(connection, message)
            elif message["op"] == "listen":
                self.doors.answer(connection, message)
            else:
                sockets.send_namespace(connection, message)
        except OSError:
            # The host is gone, which the next poll reports.
            return

    def _ours(self) -> frozenset[int]:
        return frozenset({held.pid for held in self._all_supervisors()}.union(self.openings))

    def _frozen_processes(self) -> list[OwnedProcess]:
        """Return all processes but our own, seen while they stand still, so that none slips through."""
        if not self.supervisors:
            return []
        with self.freezer.hold() as is_still:
            owners = find_owners(self._others())
        if not is_still:
            raise TimeoutError(_ETIMEDOUT, "its processes could not be frozen to be listed")
        return owners

    def _look(self, connection: socket.socket, message: dict[str, Any]) -> None:
        """Open a file, handle folders, or list processes, in a child, which answers itself."""
        try:
            seen = self._frozen_processes() if message["op"] == "processes" else []
            pid = os.fork()
        except OSError as error:
            self._send(
                connection, {"seq": message["seq"], "ok": False, "errno": error.errno, "text": str(error)}
            )
            return
        if pid:
            due = time.monotonic() + _OPEN_SECONDS
            self.openings[pid] = _Opening(connection, message["seq"], due)
            return
        self._let_go()
        if message["op"] == "processes":
            answer_processes(connection, message, seen)
        if message["op"] != "open":
            files.answer_folders(connection, message, can_change_user=self.can_change_user)
        files.answer_open(connection, message, can_change_user=self.can_change_user)


_NO_PROCESS = (
    b'{"exit_status": 126, "timed_out": false, "killed": false, "stdout_truncated": false,'
    b' "stderr_truncated": false, "ended_ms": 0, "error": "the devbox is at its limit of processes"}'
)
