"""What a job needs is lost for a while: every trial ends once, with its score or with what was the matter."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchyard.testing.server import RunningServer
from tests.faults.caller import Caller, nobody_holds, several_callers
from tests.faults.chaos import children, kill
from tests.faults.disk import SmallDisk, small_disk
from tests.faults.jobs import COUNTED, FaultyJob, Follower, counting, nothing_is_left, scenario
from tests.faults.seeds import seconds, seeds
from tests.faults.test_database import locked
from tests.faults.workload import surprises

MEBIBYTES = 96
ATTEMPTS = 4
LENGTH = seconds(short=2, long=12)
SLEEPING_COUNTED = f"sleep 0.5\n{COUNTED}"


Yard = tuple[RunningServer, Caller]


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    """A server that the tests here harm one after the other, and that gets over it each time."""
    with _yard(tmp_path_factory.mktemp("losses") / "data") as made:
        yield made


@contextmanager
def _yard(data: Path) -> Iterator[Yard]:
    with RunningServer(data) as server, several_callers(server, 1) as (caller,):
        yield server, caller
        nothing_is_left(server)
        assert not surprises(server)


def test_a_devbox_that_dies_is_replaced_and_its_trial_kept_beside_the_new_one(yard: Yard) -> None:
    server, caller = yard
    job = FaultyJob(caller, [scenario(caller)], [counting(4)], n_attempts=2)
    victim = job.at_work(2)[0]
    kill_devbox(server, victim["devbox_id"])
    view = job.ended()
    trials = {trial["id"]: trial for trial in job.trials()}
    lost = trials.pop(victim["id"])
    _is_lost(lost)
    assert lost["is_superseded"]
    assert [(trial["state"], trial["score"]) for trial in trials.values()] == [("completed", 1.0)] * 2
    (second,) = [trial for trial in trials.values() if trial["attempt"] == lost["attempt"]]
    assert (second["retry"], second["devbox_id"] != lost["devbox_id"]) == (1, True)
    (outcome,) = view["benchmark_outcomes"]
    assert (outcome["mean_score"], outcome["unscored"], outcome["n_trials"]) == (1.0, 0, 2)


def test_a_devbox_that_dies_without_retries_leaves_its_trial_unscored(yard: Yard) -> None:
    server, caller = yard
    job = FaultyJob(caller, [scenario(caller)], [counting(4)], n_attempts=2, max_retries=0)
    victim = job.at_work(2)[0]
    kill_devbox(server, victim["devbox_id"])
    (outcome,) = job.ended()["benchmark_outcomes"]
    trials = {trial["id"]: trial for trial in job.trials()}
    lost = trials.pop(victim["id"])
    _is_lost(lost)
    assert not lost["is_superseded"]
    assert [(trial["state"], trial["score"]) for trial in trials.values()] == [("completed", 1.0)]
    assert (outcome["mean_score"], outcome["unscored"], outcome["n_trials"]) == (1.0, 1, 2)


def _is_lost(trial: dict[str, Any]) -> None:
    failure = trial["failure"]
    assert (trial["state"], failure["kind"], failure["stage"]) == ("failed", "infrastructure", "agent")
    assert "devbox ended: " in failure["exception_message"], failure
    assert len(failure["exception_message"]) > len("its devbox ended: "), failure


def kill_devbox(server: RunningServer, devbox_id: str) -> None:
    kill(json.loads((server.data / "host/devboxes" / devbox_id / "box.json").read_text())["pid"])


@pytest.mark.parametrize("seed", seeds(short=1))
def test_a_killed_zygote_costs_a_job_nothing(yard: Yard, seed: int) -> None:
    server, caller = yard
    job = _begun(caller, seconds=1 + seed % 3)
    stop = threading.Event()
    killer = threading.Thread(target=_kill_zygotes, args=(server, stop))
    killer.start()
    job.ended()
    stop.set()
    killer.join()
    _all_scored(job)


def _kill_zygotes(server: RunningServer, stop: threading.Event) -> None:
    while not stop.wait(0.7):
        for child in children(server.pid):
            if Path(f"/proc/{child}/cmdline").read_bytes().startswith(b"benchyard"):
                kill(child)


@pytest.mark.parametrize("seed", seeds(short=1))
def test_a_locked_database_delays_a_job(yard: Yard, seed: int) -> None:
    server, caller = yard
    job = _begun(caller, seconds=1 + seed % 3)
    follower = Follower(server, job.id)
    follower.start()
    job.at_work()
    with locked(server.data / "benchyard.db"):
        time.sleep(LENGTH)
    job.ended()
    _all_scored(job)
    assert {each["state"] for each in follower.told().values()} == {"completed"}


@pytest.mark.parametrize("seed", seeds(short=1))
def test_a_full_disk_is_said_by_the_trials_it_cost(tmp_path: Path, seed: int) -> None:
    with small_disk(tmp_path, "ext4" if seed % 2 else "tmpfs", MEBIBYTES) as disk, _yard(disk.data) as own:
        job = _begun(own[1], seconds=1)
        job.at_work()
        _stay_full(disk, LENGTH)
        (outcome,) = job.ended()["benchmark_outcomes"]
        trials = job.trials()
        assert len(job.counting()) == ATTEMPTS == outcome["n_trials"], trials
        for trial in trials:
            _has_a_clear_end(trial)
        assert outcome["unscored"] == sum(each["state"] == "failed" for each in job.counting()), outcome
    nobody_holds(disk.data)


def _stay_full(disk: SmallDisk, length: float) -> None:
    deadline = time.monotonic() + length
    while time.monotonic() < deadline:
        disk.fill()
        time.sleep(0.1)
    disk.free()


def _has_a_clear_end(trial: dict[str, Any]) -> None:
    if trial["state"] == "completed":
        # An agent that could not note that it ran was scored for that.
        assert trial["score"] in (0.0, 1.0), trial
        return
    failure = trial["failure"]
    assert (trial["state"], failure["kind"] in ("infrastructure", "scorer")) == ("failed", True), trial
    assert any(word in failure["exception_message"].lower() for word in ("full", "space")), trial


def _begun(caller: Caller, seconds: float) -> FaultyJob:
    one = scenario(caller, SLEEPING_COUNTED)
    return FaultyJob(caller, [one], [counting(seconds)], n_attempts=ATTEMPTS, n_concurrent_trials=3)


def _all_scored(job: FaultyJob) -> None:
    found = [(trial["state"], trial["score"], trial["retry"]) for trial in job.trials()]
    assert found == [("completed", 1.0, 0)] * ATTEMPTS, job.trials()
