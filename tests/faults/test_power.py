"""The server, or the power, goes in the middle of writes: what was answered with 200 is there after."""

import json
import os
import random
import signal
import sqlite3
import threading
import time
from pathlib import Path

import httpx
import pytest

from benchyard.testing.server import RunningServer
from tests.faults.caller import PATIENCE_SECONDS, Caller, several_callers
from tests.faults.disk import SmallDisk, small_disk
from tests.faults.seeds import seconds, seeds

ROUNDS = int(seconds(short=2, long=4))
MEBIBYTES = 128
WRITERS = 3


class Writer(threading.Thread):
    """Keeps secrets and objects until nobody answers, and remembers what was answered with 200."""

    def __init__(self, server: RunningServer, seed: int) -> None:
        super().__init__(name=f"writer-{seed}")
        self._server = server
        self._random = random.Random(seed)
        self.secrets: list[str] = []
        self.objects: dict[str, bytes] = {}

    def run(self) -> None:
        headers = {"Authorization": f"Bearer {self._server.key}"}
        with httpx.Client(base_url=self._server.url, headers=headers, timeout=40) as client:
            try:
                while self._random.choice((self._keep_secret, self._keep_secret, self._keep_object))(client):
                    pass
            except httpx.TransportError:
                return

    def _keep_secret(self, client: httpx.Client) -> bool:
        name = f"S{self._random.getrandbits(64):016X}"
        kept = client.post("/v1/secrets", json={"name": name, "value": "x" * self._random.randrange(3000)})
        if kept.status_code == 200:
            self.secrets.append(name)
        return kept.status_code == 200

    def _keep_object(self, client: httpx.Client) -> bool:
        data = self._random.randbytes(self._random.randrange(60_000))
        made = client.post("/v1/objects", json={"name": "power", "content_type": "binary"}).json()
        if "upload_url" not in made or client.put(made["upload_url"], content=data).status_code != 200:
            return False
        done = client.post(f"/v1/objects/{made['id']}/complete").status_code == 200
        if done:
            self.objects[made["id"]] = data
        return done


class Ledger:
    """Everything that was answered with 200 so far."""

    def __init__(self, server: RunningServer, seed: int) -> None:
        self._server = server
        self._random = random.Random(seed)
        self.writers: list[Writer] = []

    def begin(self) -> list[Writer]:
        """Start writers, and let them write for a moment that the seed decides."""
        begun = [Writer(self._server, self._random.getrandbits(32)) for _number in range(WRITERS)]
        for writer in begun:
            writer.start()
        self.writers += begun
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not all(writer.secrets or writer.objects for writer in begun):
            assert time.monotonic() < deadline, "nothing was answered with 200"
            time.sleep(0.01)
        time.sleep(self._random.uniform(0.2, 0.8))
        return begun

    def check(self, caller: Caller) -> int:
        """Find all of it in the server; returns how much that is."""
        listed = caller.get("/v1/secrets?limit=5000")["secrets"]
        secrets = {name for writer in self.writers for name in writer.secrets}
        assert secrets <= {secret["name"] for secret in listed}
        objects = {key: data for writer in self.writers for key, data in writer.objects.items()}
        for key, data in objects.items():
            link = caller.get(f"/v1/objects/{key}/download")["download_url"]
            assert caller.download(link) == data, key
        return len(secrets) + len(objects)


@pytest.mark.parametrize("seed", seeds())
def test_a_server_killed_while_it_writes_has_lost_nothing(tmp_path: Path, seed: int) -> None:
    data = tmp_path / "data"
    with RunningServer(data, ["--driver", "fake"]) as server, several_callers(server, 1) as (caller,):
        ledger = Ledger(server, seed)
        for _round in range(ROUNDS):
            begun = ledger.begin()
            server.kill()
            for writer in begun:
                writer.join()
            with sqlite3.connect(data / "benchyard.db") as database:
                assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            database.close()
            server.start()
            assert ledger.check(caller) > 0


@pytest.mark.parametrize("seed", seeds())
def test_a_power_cut_loses_nothing_that_was_answered(tmp_path: Path, seed: int) -> None:
    with small_disk(tmp_path, "ext4", MEBIBYTES) as disk:
        server = RunningServer(disk.data, ["--driver", "native"])
        with server, several_callers(server, 1) as (caller,):
            ledger = Ledger(server, seed)
            running, suspended, snapshot = _devboxes(caller)
            begun = ledger.begin()
            _go_dark(disk, server)
            for writer in begun:
                writer.join()
            disk.unmount()
            disk.power_on()
            server.start()
            assert ledger.check(caller) > 0
            assert caller.get(f"/v1/devboxes/{running}")["status"] == "failure"
            caller.post(f"/v1/devboxes/{suspended}/resume")
            _reach(caller, suspended, "running")
            assert _mark(caller, suspended) == "kept"
            copy = caller.post("/v1/devboxes/create_and_await_running", {"snapshot_id": snapshot})
            assert _mark(caller, copy.json()["id"]) == "kept"


def _go_dark(disk: SmallDisk, server: RunningServer) -> None:
    """End everything on the machine at once, with nothing reaching the disk any more."""
    boxes = disk.data.glob("host/devboxes/*/box.json")
    pids = [json.loads(box.read_text())["pid"] for box in boxes]
    disk.cut_power()
    server.kill()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def _devboxes(caller: Caller) -> tuple[str, str, str]:
    """One devbox that runs, one that is suspended, and a snapshot, each with a mark."""
    made = []
    for _number in range(2):
        made.append(caller.post("/v1/devboxes/create_and_await_running").json()["id"])
        mark = {"file_path": "~/mark", "contents": "kept"}
        assert caller.post(f"/v1/devboxes/{made[-1]}/write_file_contents", mark).status_code == 200
    snapshot = caller.post(f"/v1/devboxes/{made[0]}/snapshot_disk").json()["id"]
    caller.post(f"/v1/devboxes/{made[1]}/suspend")
    _reach(caller, made[1], "suspended")
    return made[0], made[1], snapshot


def _reach(caller: Caller, devbox: str, status: str) -> None:
    reached = caller.post(f"/v1/devboxes/{devbox}/wait_for_status", {"statuses": [status]})
    assert reached.status_code == 200, reached.text


def _mark(caller: Caller, devbox: str) -> str:
    return caller.post(f"/v1/devboxes/{devbox}/read_file_contents", {"file_path": "~/mark"}).text
