"""Starting and ending the process that holds a devbox which has no pid namespace of its own."""

import asyncio
import contextlib
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

import benchyard
from benchyard.devboxes.box import freezer, processes
from benchyard.devboxes.parts.running import Held, listen
from benchyard.errors import StartFailed

_BOOT = (
    "import sys; sys.path.append(sys.argv.pop()); from benchyard.devboxes.box import keeper; keeper.main()"
)
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
_PATIENCE_SECONDS = 10.0


async def launch(folder: Path, rules: dict[str, Any], group: Path | None) -> Held:
    """Start a keeper that serves the devbox of `folder`, bound by the rules, in a group that it can freeze.

    Raises StartFailed.
    """
    packages = str(Path(benchyard.__file__).parent.parent)
    with contextlib.ExitStack() as held:
        listener = held.enter_context(listen(folder))
        groups = freezer.open_group(str(group)) if group else []
        for descriptor in groups:
            held.callback(os.close, descriptor)
        request = json.dumps({**rules, "listener": listener.fileno(), "groups": groups})
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-X", "utf8", "-c", _BOOT, request, packages),
            env=_ENVIRONMENT,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=[listener.fileno(), *groups],
            start_new_session=True,
        )
        try:
            said, failure = await process.communicate()
        except asyncio.CancelledError:
            # The keeper is still in the group of the process that started it.
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            raise
    pid = int(said) if said.isdigit() else 0
    started = processes.start_time(pid)
    if process.returncode != 0 or started is None:
        text = failure.decode(errors="replace").strip().splitlines()[-1:] or ["it ended without a word"]
        raise StartFailed(f"the devbox's keeper could not start: {text[0]}", step="keeper")
    return Held(pid, started, processes.boot_id(), 0, "process", rules["lease"])


def end(pid: int, pidfd: int) -> bool:
    """Kill the keeper and everything below it (blocks); False if something would not die."""
    # Stopped first, so that it starts nothing while its children are being killed.
    if not _signalled(pidfd, signal.SIGSTOP):
        return True
    ended = _kill_descendants(pid)
    _signalled(pidfd, signal.SIGKILL)
    gone = select.poll()
    gone.register(pidfd, select.POLLIN)
    return bool(gone.poll(_PATIENCE_SECONDS * 1000)) and ended


def _kill_descendants(pid: int) -> bool:
    """Kill everything below a process; False if that took too long. Two empty scans have to agree."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    empty = 0
    while empty < 2:
        if time.monotonic() > deadline:
            return False
        empty = 0 if processes.kill_round(pid) else empty + 1
        time.sleep(0.001)
    return True


def _signalled(pidfd: int, number: int) -> bool:
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    return True


def kill_strays(mark: bytes) -> bool:
    """Kill every process with `mark` in its environment (blocks): what is left to go by without a keeper."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while strays := [pid for pid in processes.parents() if mark in _environment(pid)]:
        if time.monotonic() > deadline:
            return False
        for pid in strays:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.001)
    return True


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def commands(pid: int) -> list[int]:
    """Every process of a devbox, without its keeper and the supervisors right below it."""
    above = processes.parents()
    return [found for found in processes.descendants(pid) if above.get(found) != pid]
