"""How a command starts: what it finds is the same, however the server was started."""

import os
import pwd
import signal
import subprocess
import sys

import pytest

# As `nohup` and a script's background leave it; and what a thread of the one who starts it may have blocked.
_START = """
import os, signal, sys
from benchyard.devboxes.guest import launch
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGALRM])
is_terminal, user = sys.argv[1] == "terminal", sys.argv[2]
outer, inner = os.openpty() if is_terminal else os.pipe()
request = {
    "argv": ["cat", "/proc/self/status"], "user": user, "env": {}, "cwd": "/",
    "pty": [80, 24] if is_terminal else None, "can_change_user": False, "max_file_bytes": 1 << 20,
}
stdin = inner if is_terminal else os.open("/dev/null", os.O_RDONLY)
pid = launch.start(request, launch.Streams(stdin, inner, inner, []))
os.close(inner)
try:
    while piece := os.read(outer, 4096):
        os.write(1, piece)
except OSError:
    pass  # the end of a terminal
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.parametrize("streams", ["pipes", "terminal"])
def test_no_signal_is_ignored_or_blocked(streams: str) -> None:
    user = pwd.getpwuid(os.getuid()).pw_name
    ended = subprocess.run(
        [sys.executable, "-c", _START, streams, user], capture_output=True, text=True, timeout=60, check=True
    )
    told = dict(line.split(":", 1) for line in ended.stdout.splitlines() if ":" in line)
    # The runtime of C keeps two signals to itself, and nobody can tell it otherwise.
    reserved = set(range(1, signal.NSIG)) - signal.valid_signals()
    mask = ~sum(1 << (number - 1) for number in reserved)
    assert {name: int(told[name], 16) & mask for name in ("SigIgn", "SigBlk")} == {"SigIgn": 0, "SigBlk": 0}
