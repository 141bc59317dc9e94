"""Kills, in an order that a seed decides: the server, its zygote, the first process of a devbox."""

import contextlib
import json
import os
import random
import signal
import threading
import time
from pathlib import Path

from benchyard.testing.server import RunningServer

VICTIMS = ("server", "server", "zygote", "devbox")


class Chaos(threading.Thread):
    """Kills as long as it is told to."""

    def __init__(self, server: RunningServer, seed: int, kills: int) -> None:
        super().__init__(name="chaos")
        self._server = server
        self._random = random.Random(seed)
        self._kills = kills
        self.killed_devboxes: set[str] = set()
        self.log: list[str] = []

    def run(self) -> None:
        for _number in range(self._kills):
            time.sleep(self._random.uniform(0.05, 0.6))
            victim = self._random.choice(VICTIMS)
            self.log.append(victim)
            {"server": self._server_dies, "zygote": self._zygote_dies, "devbox": self._devbox_dies}[victim]()

    def _server_dies(self) -> None:
        self._server.kill()
        time.sleep(self._random.uniform(0, 0.3))
        self._server.start()

    def _zygote_dies(self) -> None:
        for child in children(self._server.pid):
            if Path(f"/proc/{child}/cmdline").read_bytes().startswith(b"benchyard"):
                kill(child)

    def _devbox_dies(self) -> None:
        held = sorted((self._server.data / "host/devboxes").glob("*/box.json"))
        if held:
            chosen = self._random.choice(held)
            with contextlib.suppress(FileNotFoundError, ValueError):
                pid = json.loads(chosen.read_text())["pid"]
                # Noted first: whoever looks must not find it dead without knowing why.
                self.killed_devboxes.add(chosen.parent.name)
                kill(pid)


def children(pid: int) -> list[int]:
    found = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found += [int(word) for word in (thread / "children").read_text().split()]
    return found


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
