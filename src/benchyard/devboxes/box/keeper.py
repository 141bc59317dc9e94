"""The process that holds a devbox of the `process` driver: the devboxes' agent, with no walls but Landlock's.

Run as `main` in a process of its own. It goes on without whoever started it.
"""

import json
import os
import socket
import sys
from typing import Any

from benchyard.devboxes.box import agent, landlock, syscalls

_COMMAND_DEPTH = 2
"""The agent forks a supervisor, and that forks the command."""


def main() -> None:
    """Detach, tell the keeper's pid on standard output, and serve."""
    request = json.loads(sys.argv[1])
    listener = socket.socket(fileno=request["listener"])
    os.set_inheritable(listener.fileno(), False)
    _close_all_but(listener.fileno())
    pid = os.fork()
    if pid:
        os.write(1, str(pid).encode())
        os._exit(0)
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    os.chdir("/")
    _keep_walls(request)
    nowhere = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for number in range(3):
        os.dup2(nowhere, number)
    agent.Agent(listener, can_change_user=False).run()


def _close_all_but(kept: int) -> None:
    """Let go of what else was inherited: some event loops leave a second end of the output pipe open."""
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


def _keep_walls(request: dict[str, Any]) -> None:
    if not request["walls"]:
        return
    rules = landlock.ruleset(request["readable"], request["writable"])
    landlock.restrict(rules)
    os.register_at_fork(after_in_child=_Walls(rules).forked)


class _Walls:
    """A second set of the same rules for each command, so that none can trace who holds its output."""

    def __init__(self, rules: int) -> None:
        self.rules = rules
        self.depth = 0

    def forked(self) -> None:
        self.depth += 1
        if self.depth == _COMMAND_DEPTH:
            try:
                landlock.restrict(self.rules)
            except OSError:
                # Whatever is raised here would be ignored, and the command would run without its walls.
                os._exit(126)
