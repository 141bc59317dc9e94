"""The server dies while it starts, stands still, or finds no space: what it held goes on all the same."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from benchyard.errors import ServerUnreachable
from benchyard.hosts import leaks
from benchyard.testing.server import RunningServer
from tests.faults.caller import Caller, nobody_holds, several_callers
from tests.faults.disk import small_disk
from tests.faults.jobs import (
    PATIENCE_SECONDS,
    FaultyJob,
    Follower,
    command,
    counting,
    nothing_is_left,
    scenario,
)
from tests.faults.seeds import SEEDS, seconds, seeds
from tests.faults.test_runs import reached
from tests.faults.workload import surprises

ATTEMPTS = 4
STARTS = 8 if SEEDS else 5
WORK_SECONDS = 4
MEBIBYTES = 96
WAITING = "echo begin $$ >> ~/log; until test -f ~/go; do sleep 0.1; done; echo end $$ >> ~/log"
"""An agent that ends when it is told to: on a full disk it could not note that it did."""
STILL_SECONDS = seconds(short=4, long=20)


@pytest.mark.parametrize("seed", seeds(short=1))
def test_a_server_that_is_killed_while_it_starts_begins_nothing_twice(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with RunningServer(tmp_path / "data") as server, several_callers(server, 1) as (caller,):
        job = _begun(caller)
        job.at_work(2)
        server.kill()
        for _number in range(STARTS):
            # A start takes a third of a second where the machine has nothing else to do.
            server.begin()
            time.sleep(chance.uniform(0, 0.5))
            server.kill()
        server.start()
        _is_whole(job)
        nothing_is_left(server)
        assert not surprises(server)


def test_probe_of_a_start_does_not_outlive_a_killed_server(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", ["--driver", "native"]) as server:
        server.stop()
        for _number in range(STARTS):
            server.begin()
            _spin_until(server.data / "driver/probe/work/root/work")
            server.kill()
        server.start()
        # Its groups are not taken for somebody else's either: devboxes have their limits.
        assert leaks.find(server.data) == []


def _spin_until(path: Path) -> None:
    """Wait for something that is there for some milliseconds only."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not path.exists():
        assert time.monotonic() < deadline, path


def test_a_server_that_stands_still_for_a_while_goes_on(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server, several_callers(server, 1) as (caller,):
        job = _begun(caller)
        follower = Follower(server, job.id)
        follower.start()
        job.at_work(2)
        os.kill(server.pid, signal.SIGSTOP)
        time.sleep(STILL_SECONDS)
        os.kill(server.pid, signal.SIGCONT)
        _is_whole(job)
        assert {each["state"] for each in follower.told().values()} == {"completed"}
        nothing_is_left(server)
        assert not surprises(server)


def test_a_job_goes_on_after_starts_on_a_full_disk(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path, "ext4", MEBIBYTES) as disk,
        RunningServer(disk.data) as server,
        several_callers(server, 1) as (caller,),
    ):
        job = FaultyJob(caller, [scenario(caller)], [command(WAITING)], n_attempts=ATTEMPTS)
        working = job.at_work(ATTEMPTS)
        server.kill()
        disk.fill()
        for _number in range(2):
            with pytest.raises(ServerUnreachable, match=r"full|no space"):
                server.start()
        disk.free()
        server.start()
        for each in working:
            path = f"/v1/devboxes/{each['devbox_id']}/write_file_contents"
            assert caller.post(path, {"file_path": "~/go", "contents": ""}).status_code == 200
        _is_whole(job)
        nothing_is_left(server)
        assert not surprises(server)
    nobody_holds(disk.data)


def test_sockets_that_are_removed_cost_no_more_than_what_they_led_to(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server, several_callers(server, 1) as (caller,):
        job = _begun(caller)
        job.at_work(2)
        _remove_sockets(server)
        server.kill()
        server.start()
        job.ended()
        assert len(job.counting()) == ATTEMPTS, job.trials()
        for trial in job.trials():
            is_lost = (trial.get("failure") or {}).get("kind") == "infrastructure"
            assert (trial["state"], trial.get("score")) == ("completed", 1.0) or is_lost, trial
        nothing_is_left(server)
        assert not surprises(server)


@pytest.mark.parametrize("driver", ["native", "process"])
def test_a_devbox_that_cannot_be_reached_any_more_is_ended(tmp_path: Path, driver: str) -> None:
    with (
        RunningServer(tmp_path / "data", ["--driver", driver]) as server,
        several_callers(server, 1) as (caller,),
    ):
        devbox = caller.post("/v1/devboxes/create_and_await_running").json()["id"]
        caller.post(f"/v1/devboxes/{devbox}/execute_async", {"command": "sleep 1000"})
        _remove_sockets(server)
        server.kill()
        server.start()
        reached(caller, f"/v1/devboxes/{devbox}", "status", "failure")
        assert leaks.find(server.data) == []
        assert not surprises(server)


def _remove_sockets(server: RunningServer) -> None:
    found = [path for path in server.data.rglob("*") if path.is_socket()]
    assert found
    for path in found:
        path.unlink()


def _begun(caller: Caller) -> FaultyJob:
    return FaultyJob(
        caller, [scenario(caller)], [counting(WORK_SECONDS)], n_attempts=ATTEMPTS, n_concurrent_trials=3
    )


def _is_whole(job: FaultyJob) -> None:
    job.ended()
    found = [(trial["state"], trial["score"], trial["retry"]) for trial in job.trials()]
    assert found == [("completed", 1.0, 0)] * ATTEMPTS, job.trials()
