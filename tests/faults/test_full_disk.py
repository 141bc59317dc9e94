"""The data folder's disk is full for a while: that is said, nothing answered is lost, and then it goes on."""

import os
import random
import threading
import time
from pathlib import Path

import httpx
import pytest

from benchyard.errors import DiskFull, ServerUnreachable
from benchyard.testing.server import RunningServer
from tests.faults.caller import ANSWER_SECONDS, PATIENCE_SECONDS, nobody_holds, several_callers
from tests.faults.disk import SmallDisk, small_disk
from tests.faults.jobs import FaultyJob, command, nothing_is_left, scenario
from tests.faults.seeds import seconds, seeds
from tests.faults.test_runs import reached
from tests.faults.workload import Check, Worker, surprises

STEPS = 10
MEBIBYTES = 64


def kind(seed: int) -> str:
    """Both kinds of disk in turn: one that gives space at once, and one that allocates late."""
    return "ext4" if seed % 2 else "tmpfs"


@pytest.mark.parametrize("seed", seeds())
def test_a_full_disk_is_said_and_got_over(tmp_path: Path, seed: int) -> None:
    with small_disk(tmp_path, kind(seed), MEBIBYTES) as disk:
        _go_through_tides(disk, seed)
    nobody_holds(disk.data)


def _go_through_tides(disk: SmallDisk, seed: int) -> None:
    with RunningServer(disk.data, ["--driver", "native"]) as server, several_callers(server, 3) as callers:
        workers = [Worker(caller, seed * 100 + number, STEPS) for number, caller in enumerate(callers[:2])]
        stop = threading.Event()
        tide = threading.Thread(target=_tide, args=(disk, seed, stop))
        for thread in (*workers, tide):
            thread.start()
        for worker in workers:
            worker.join()
        stop.set()
        tide.join()
        for worker in workers:
            assert worker.failure is None, (worker.failure, server.log[-3000:])
        check = Check(callers[2], set(), is_disk_full=True)
        for worker in workers:
            check.all(worker.promises)
        _is_said(disk, server)
        assert not surprises(server)


def _is_said(disk: SmallDisk, server: RunningServer) -> None:
    """Whoever asks while the disk is full is told so; whoever asks afterwards is served."""
    headers = {"Authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=ANSWER_SECONDS) as client:
        kept = client.post("/v1/objects", json={"name": "fault", "content_type": "binary"}).json()
        disk.fill()
        refused = client.put(kept["upload_url"], content=bytes(1024**2))
        disk.free()
        assert refused.status_code == DiskFull.http_status, refused.text
        assert refused.json()["code"] == DiskFull.code
        assert client.put(kept["upload_url"], content=bytes(1024**2)).status_code == 200


def _tide(disk: SmallDisk, seed: int, stop: threading.Event) -> None:
    """Fill and free the disk, again and again, at moments that the seed decides."""
    choices = random.Random(seed)
    while not stop.wait(choices.uniform(0.1, 0.5)):
        for _time in range(int(seconds(short=10, long=40))):
            disk.fill()
            stop.wait(0.1)
        disk.free()
        stop.wait(choices.uniform(0.3, 1.0))


def test_mounts_are_not_blamed_for_a_full_disk(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path, "tmpfs", MEBIBYTES) as disk,
        RunningServer(disk.data, ["--driver", "native"]) as server,
        several_callers(server, 1) as (caller,),
    ):
        made = caller.post("/v1/objects", {"name": "large", "content_type": "binary"}).json()
        assert caller.put(made["upload_url"], bytes(16 * 1024**2)).status_code == 200
        assert caller.post(f"/v1/objects/{made['id']}/complete").status_code == 200
        disk.leave(8)
        mount = {"type": "object_mount", "object_id": made["id"], "object_path": "~/large"}
        devbox = caller.post("/v1/devboxes", {"mounts": [mount]}).json()["id"]
        # That it has failed is kept in the space that was set aside.
        view = reached(caller, f"/v1/devboxes/{devbox}", "status", "failure")
        assert view["failure_reason"] == "health_check_failed", view
        assert "no space left" in view["state_transitions"][-1]["detail"], view


def test_a_server_that_finds_its_disk_full_says_so_and_starts_once_there_is_space(tmp_path: Path) -> None:
    with small_disk(tmp_path, "tmpfs", MEBIBYTES) as disk:
        server = RunningServer(disk.data, ["--driver", "native"])
        assert "full" in _refused_on_a_full_disk(server, disk)
        with server:
            key = server.key
        assert "no space left" in _refused_on_a_full_disk(server, disk)
        with server:
            assert server.key == key


def _refused_on_a_full_disk(server: RunningServer, disk: SmallDisk) -> str:
    disk.fill()
    with pytest.raises(ServerUnreachable):
        server.start()
    disk.free()
    return server.log.splitlines()[-1]


def test_loud_agents_take_no_space_from_others(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path, "tmpfs", 160) as disk,
        RunningServer(disk.data, ["--driver", "native"]) as server,
        several_callers(server, 1) as (caller,),
    ):
        loud = command("touch ~/good; yes & yes >&2", timeout_seconds=10)
        quiet = command("sleep 6; touch ~/good")
        job = FaultyJob(caller, [scenario(caller, "test -f ~/good && echo 1")], [loud, quiet], n_attempts=4)
        job.ended()
        told = [(each["agent"], each["state"], each.get("score")) for each in job.counting()]
        assert sorted(told) == [(agent, "completed", 1.0) for agent in (0, 1) for _ in range(4)], [
            (trial["agent"], trial["state"], trial.get("error_kind"), trial.get("error_message"))
            for trial in job.trials()
        ]
        free = os.statvfs(disk.data)
        assert free.f_bavail * free.f_frsize > 2 * 1024**2
        assert "short of space" in server.log or "was cut after" in server.log
        assert not surprises(server)


def test_a_job_can_be_cancelled_while_the_disk_is_full(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path, "tmpfs", 160) as disk,
        RunningServer(disk.data, ["--driver", "native"]) as server,
        several_callers(server, 1) as (caller,),
    ):
        job = FaultyJob(caller, [scenario(caller)], [command("sleep 1000")], n_attempts=3)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(job.trials("running")) < 3 or not (disk.data / "reserve").exists():
            assert time.monotonic() < deadline, job.trials()
            time.sleep(0.1)
        disk.fill()
        answer = caller.post(f"/v1/benchmark_jobs/{job.id}/cancel")
        assert answer.status_code == 200, answer.text
        assert reached(caller, f"/v1/benchmark_jobs/{job.id}", "state", "cancelled")
        nothing_is_left(server)
        disk.free()
        while not (disk.data / "reserve").exists():
            assert time.monotonic() < deadline, "no space is set aside again"
            time.sleep(0.1)
