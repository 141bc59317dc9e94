"""The server is killed while snapshots are stacked, moved and deleted: whole or not there, never half."""

import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from benchyard.hosts import leaks
from benchyard.testing.server import RunningServer
from tests.faults.caller import Caller, several_callers
from tests.faults.seeds import SEEDS, seeds
from tests.images.archives import PASSWD, layer

KILLS = 12 if SEEDS else 5
FILES = 1000
_SNAPSHOTS = "/v1/devboxes/disk_snapshots"


class Killer(threading.Thread):
    """Kills the server at moments that the seed decides, until it is told to stop."""

    def __init__(self, server: RunningServer, seed: int) -> None:
        super().__init__(name="killer")
        self._server = server
        self._random = random.Random(seed)
        self.stop = threading.Event()
        self.count = 0

    def run(self) -> None:
        while self.count < KILLS and not self.stop.wait(self._random.uniform(0.2, 1.5)):
            self._server.kill()
            self.count += 1
            self._server.start()


class Chain:
    """Snapshots of snapshots, each with a file that tells its number."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self.made: list[tuple[str, int]] = []

    def grow(self, number: int) -> None:
        """Branch from the last snapshot that is complete, change something, and keep it."""
        body = {"snapshot_id": self.made[-1][0]} if self.made else {}
        box = self._running(body)
        path = f"/v1/devboxes/{box}"
        wrote = self._caller.post(
            f"{path}/write_file_contents", {"file_path": "~/n", "contents": str(number)}
        )
        assert wrote.status_code == 200, wrote.text
        taken = self._caller.post(f"{path}/snapshot_disk_async")
        assert taken.status_code == 200, taken.text
        if self._settled(taken.json()["id"])["status"] == "complete":
            self.made.append((taken.json()["id"], number))
        self._caller.post(f"{path}/shutdown?force=true")

    def check(self, snapshot: str, number: int) -> None:
        """A devbox from it has what its source had."""
        box = self._running({"snapshot_id": snapshot})
        read = self._caller.post(f"/v1/devboxes/{box}/read_file_contents", {"file_path": "~/n"})
        assert read.text == str(number)
        self._caller.post(f"/v1/devboxes/{box}/shutdown?force=true")

    def _running(self, body: dict[str, Any]) -> str:
        made = self._caller.post("/v1/devboxes", body)
        assert made.status_code == 200, made.text
        box: str = made.json()["id"]
        wait = {"statuses": ["running", "failure"], "timeout_seconds": 30}
        ended = self._caller.post(f"/v1/devboxes/{box}/wait_for_status", wait)
        assert ended.json()["status"] == "running", ended.text
        return box

    def _settled(self, snapshot: str) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while (view := self._caller.get(f"{_SNAPSHOTS}/{snapshot}/status"))["status"] == "in_progress":
            assert time.monotonic() < deadline, view
            time.sleep(0.05)
        return view


@pytest.mark.parametrize("seed", seeds())
def test_a_chain_grows_and_goes_whatever_is_killed(tmp_path: Path, seed: int) -> None:
    data = tmp_path / "data"
    # Every twentieth is merged with those below it; with the first seed that happens twice.
    depth = 45 if SEEDS and seed == 1 else 24
    with RunningServer(data, ["--driver", "native"]) as server, several_callers(server, 1) as (caller,):
        killer = Killer(server, seed)
        chain = Chain(caller)
        killer.start()
        try:
            for number in range(depth):
                chain.grow(number)
        finally:
            killer.stop.set()
            killer.join()
        assert len(chain.made) > depth // 2
        for snapshot, number in (chain.made[0], chain.made[len(chain.made) // 2], chain.made[-1]):
            chain.check(snapshot, number)
        killer = Killer(server, seed + 1)
        killer.start()
        try:
            for listed in caller.get(f"{_SNAPSHOTS}?limit=1000")["snapshots"]:
                gone = caller.post(f"{_SNAPSHOTS}/{listed['id']}/delete")
                assert gone.status_code == 200, gone.text
        finally:
            killer.stop.set()
            killer.join()
        server.restart()
        assert caller.get(f"{_SNAPSHOTS}?limit=1000")["snapshots"] == []
        _only_the_default_image(data)
    assert leaks.find(data) == []


@pytest.mark.parametrize("seed", seeds())
def test_an_import_or_export_cut_short_leaves_nothing(tmp_path: Path, seed: int) -> None:
    data = tmp_path / "data"
    archive = tmp_path / "image.tar"
    archive.write_bytes(layer({"etc/passwd": PASSWD, **{f"srv/{n}": "x" * 2000 for n in range(FILES)}}))
    with RunningServer(data, ["--driver", "native"]) as server, several_callers(server, 1) as (caller,):
        killer = Killer(server, seed)
        killer.start()
        try:
            for _number in range(6):
                made = caller.post(f"{_SNAPSHOTS}/import", {"path": str(archive)})
                # A kill in the middle leaves an error, which the next try clears away.
                while made.status_code != 200:
                    assert "stopped" in made.text or "ask again" in made.text, made.text
                    made = caller.post(f"{_SNAPSHOTS}/import", {"path": str(archive)})
                assert len(caller.download(f"{_SNAPSHOTS}/{made.json()['id']}/export")) > FILES * 2000
        finally:
            killer.stop.set()
            killer.join()
        for listed in caller.get(f"{_SNAPSHOTS}?limit=1000")["snapshots"]:
            assert caller.post(f"{_SNAPSHOTS}/{listed['id']}/delete").status_code == 200
        server.restart()
        _only_the_default_image(data)
    assert leaks.find(data) == []


def _only_the_default_image(data: Path) -> None:
    deadline = time.monotonic() + 60
    while len(list((data / "images/layers").iterdir())) > 1 or any((data / "images/partial").iterdir()):
        assert time.monotonic() < deadline, list((data / "images/layers").iterdir())
        time.sleep(0.1)
