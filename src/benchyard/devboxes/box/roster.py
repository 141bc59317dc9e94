"""Who is in a devbox: its processes, listed for the host in a process made for it.

Whatever a process says of itself is hostile text, and reading it may take as long as that process likes:
hence the process of its own, which the devbox's first one does not wait for.
"""

import json
import os
import socket
import time
from typing import Any, NoReturn

from benchyard.devboxes.box import processes, users, wire

_MOST_COMMAND = 200
_READ_BYTES = 4096


def answer(
    connection: socket.socket, message: dict[str, Any], *, first: int, ours: frozenset[int]
) -> NoReturn:
    """List everything below the first process that is not ours, send it, and end (in a forked child)."""
    try:
        found = _listed(first, ours | {os.getpid()}, message["most"])
        sheet = os.memfd_create("benchyard-processes", os.MFD_CLOEXEC)
        with os.fdopen(sheet, "w") as file:
            json.dump(found, file)
            file.flush()
            wire.send(connection, {"seq": message["seq"], "ok": True}, [sheet])
    finally:
        os._exit(0)


def _listed(first: int, ours: frozenset[int], most: int) -> list[dict[str, Any]]:
    names = {row[2]: row[0] for row in users.rows("/etc/passwd") if len(row) > 2}
    found = []
    for pid in sorted(processes.descendants(first)):
        if pid not in ours and (facts := _facts(pid, names)):
            found.append(facts)
        if len(found) >= most:
            break
    return found


def _facts(pid: int, names: dict[str, str]) -> dict[str, Any] | None:
    """What the kernel says of a process, and what that shows as its command; None if it is gone."""
    try:
        name, _separator, rest = _read(pid, "stat").partition(b"(")[2].rpartition(b")")
        fields = rest.split()
        status = dict(line.split(b":", 1) for line in _read(pid, "status").splitlines() if b":" in line)
        uid = int(status[b"Uid"].split()[1])
        command = _read(pid, "cmdline").rstrip(b"\0").replace(b"\0", b" ") or b"[%s]" % name
    except (OSError, KeyError, IndexError, ValueError):
        return None
    begun = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return {
        "pid": pid,
        "ppid": int(fields[1]),
        "uid": uid,
        "user": names.get(str(uid), str(uid))[:64],
        "command": command.decode("utf-8", "backslashreplace")[:_MOST_COMMAND],
        "start_seconds_ago": max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - begun),
    }


def _read(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
        return file.read(_READ_BYTES) or b""
