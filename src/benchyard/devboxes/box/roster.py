"""The processes of a devbox, listed for the host in a process made for it.

Whatever a process says of itself is hostile text, and reading it may take as long as that process likes:
hence the process of its own, which the devbox's first one does not wait for. The first process itself only
takes from the kernel who is there, while everything stands still. One that has gone when it is asked for its
command line is listed by the name that the kernel gave.
"""

import json
import os
import socket
import time
from typing import Any, NamedTuple, NoReturn

from benchyard.devboxes.box import processes, users, wire

_MOST_COMMAND = 200
_READ_BYTES = 4096


class Found(NamedTuple):
    """A process that was there, and whose it was."""

    seen: processes.Seen
    uid: int


def find(pids: list[int]) -> list[Found]:
    """Note who these processes are, in the order of their pids; who is gone is left out."""
    found = []
    for pid in sorted(pids):
        seen = processes.see(pid)
        try:
            owner = os.stat(f"/proc/{pid}").st_uid
        except OSError:
            continue
        if seen is not None:
            found.append(Found(seen, owner))
    return found


def answer(connection: socket.socket, message: dict[str, Any], found: list[Found]) -> NoReturn:
    """Describe as many as are asked for, send that with the number of all, and end (in a forked child)."""
    try:
        sheet = os.memfd_create("benchyard-processes", os.MFD_CLOEXEC)
        with os.fdopen(sheet, "w") as file:
            json.dump({"total": len(found), "processes": listed(found, message["most"])}, file)
            file.flush()
            wire.send(connection, {"seq": message["seq"], "ok": True}, [sheet])
    finally:
        os._exit(0)


def listed(found: list[Found], most: int) -> list[dict[str, Any]]:
    """Describe processes, at most so many: of each command line one before the second of any."""
    names = {row[2]: row[0] for row in users.rows("/etc/passwd") if len(row) > 2}
    described = [_facts(each, names) for each in found]
    counts: dict[tuple[str, str], int] = {}
    turns = []
    for facts in described:
        key = (facts["user"], facts["command"])
        counts[key] = counts.get(key, 0) + 1
        turns.append(counts[key])
    order = sorted(range(len(described)), key=lambda at: (turns[at], described[at]["pid"]))
    kept = [described[at] for at in order[:most]]
    return sorted(kept, key=lambda facts: int(facts["pid"]))


def _facts(found: Found, names: dict[str, str]) -> dict[str, Any]:
    """What the kernel says of a process, and what that shows as its command."""
    seen, uid, command = found.seen, found.uid, b""
    again = processes.see(seen.pid)
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
    """The command line; of a process whose first thread has ended the other threads still have it."""
    for name in (str(pid), *(f"{pid}/task/{thread}" for thread in os.listdir(f"/proc/{pid}/task"))):
        if command := _read(name, "cmdline").rstrip(b"\0").replace(b"\0", b" "):
            return command
    return b""


def _read(pid: int | str, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
        return file.read(_READ_BYTES) or b""
