"""Anything may be killed at any moment: what was answered with 200 is kept, and nothing stays behind."""

import os
from pathlib import Path

import pytest

from benchyard.testing.server import RunningServer
from tests.faults.caller import nobody_holds, several_callers
from tests.faults.chaos import Chaos
from tests.faults.seeds import seeds
from tests.faults.workload import Check, Worker

KILLS = int(os.environ.get("BENCHYARD_FAULT_KILLS", "6"))
STEPS = 25


@pytest.mark.parametrize("seed", seeds(short=2))
def test_answered_requests_survive_every_kill(tmp_path: Path, seed: int) -> None:
    data = tmp_path / "data"
    with RunningServer(data, ["--driver", "native"]) as server, several_callers(server, 3) as callers:
        workers = [Worker(caller, seed * 100 + number, STEPS) for number, caller in enumerate(callers[:2])]
        chaos = Chaos(server, seed, KILLS)
        for thread in (*workers, chaos):
            thread.start()
        for thread in (*workers, chaos):
            thread.join()
        for worker in workers:
            assert worker.failure is None, (worker.failure, chaos.log)
        check = Check(callers[2], chaos.killed_devboxes)
        for worker in workers:
            check.all(worker.promises)
        assert sum(len(worker.promises.executions) for worker in workers) > 0
    nobody_holds(data)
