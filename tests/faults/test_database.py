"""The database is locked or gone for a while: requests wait or are refused for now, and nothing is lost."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchyard.testing.contracts.driver_fixture import holders
from benchyard.testing.server import RunningServer
from tests.faults.caller import Caller, several_callers
from tests.faults.seeds import SEEDS, seconds, seeds
from tests.faults.workload import Check, Worker, surprises
from tests.postgres import Postgres, new_database, own_postgres

STEPS = 8 if SEEDS else 4
WHOLE_SECONDS = 10.0
LENGTH = seconds(short=1.5, long=WHOLE_SECONDS)
PATIENCE_SECONDS = 90.0
LOCK = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
database.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("seed", seeds())
def test_a_locked_database_is_waited_for(tmp_path: Path, seed: int) -> None:
    data = tmp_path / "data"
    with RunningServer(data, ["--driver", "native"]) as server:
        refusals = _goes_on(server, seed, locked(data / "benchyard.db"))
        assert LENGTH < WHOLE_SECONDS or (503, "store_error") in refusals
    assert not holders(data)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """One for all seeds: each has a database of its own in it."""
    with own_postgres() as running:
        yield running


@pytest.mark.parametrize("seed", seeds())
def test_a_database_that_is_gone_is_waited_for(tmp_path: Path, postgres: Postgres, seed: int) -> None:
    data = tmp_path / "data"
    options = ["--driver", "native", "--database-url", new_database(postgres.url)]
    with RunningServer(data, options) as server:
        refusals = _goes_on(server, seed, _gone(postgres))
        assert (503, "store_error") in refusals
    assert not holders(data)


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    command = [sys.executable, "-c", LOCK, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as locker:
        assert locker.stdout is not None
        assert locker.stdin is not None
        assert locker.stdout.readline() == b"locked\n"
        yield
        locker.stdin.close()


@contextlib.contextmanager
def _gone(postgres: Postgres) -> Iterator[None]:
    postgres.stop()
    yield
    postgres.start()


def _goes_on(
    server: RunningServer, seed: int, fault: contextlib.AbstractContextManager[None]
) -> set[tuple[int, str]]:
    """Work before, during and after the fault; returns how requests were refused meanwhile."""
    with several_callers(server, 2) as (caller, other):
        lines = int(LENGTH * 10) + 20
        lost, counting = _Counting(caller, lines), _Counting(caller, lines)
        expiring = _devbox(caller, {"keep_alive_time_seconds": 1})
        worker = Worker(other, seed, STEPS)
        with fault:
            worker.start()
            _kill_first_process(server, lost.devbox)
            time.sleep(LENGTH)
        worker.join()
        assert worker.failure is None, (worker.failure, server.log[-3000:])
        assert _ended(caller, expiring) == "shutdown"
        assert _ended(caller, lost.devbox) == "failure"
        assert lost.result()[0] == 137
        assert counting.result() == (7, [str(number) for number in range(1, lines + 1)])
        Check(caller, set()).all(worker.promises)
        assert not surprises(server)
        return {*caller.refusals, *other.refusals}


class _Counting:
    """A devbox with a command that prints numbers for longer than the fault lasts."""

    def __init__(self, caller: Caller, lines: int) -> None:
        self._caller = caller
        self.devbox = _devbox(caller, {})
        command = f"for i in $(seq 1 {lines}); do echo $i; sleep 0.1; done; exit 7"
        answer = caller.post(f"/v1/devboxes/{self.devbox}/execute_async", {"command": command})
        self._path = f"/v1/devboxes/{self.devbox}/executions/{answer.json()['execution_id']}"

    def result(self) -> tuple[int, list[str]]:
        """Its exit status and the lines it printed."""
        path = f"{self._path}/wait_for_status?last_n=1000"
        view = self._caller.post(path, {"statuses": ["completed"]}).json()
        return view["exit_status"], view["stdout"].split()


def _devbox(caller: Caller, launch: dict[str, int]) -> str:
    made = caller.post("/v1/devboxes/create_and_await_running", {"launch_parameters": launch})
    assert made.status_code == 200, made.text
    identity: str = made.json()["id"]
    return identity


def _kill_first_process(server: RunningServer, devbox: str) -> None:
    held = json.loads((server.data / "host/devboxes" / devbox / "box.json").read_text())
    os.kill(held["pid"], signal.SIGKILL)


def _ended(caller: Caller, devbox: str) -> str:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (status := caller.get(f"/v1/devboxes/{devbox}")["status"]) not in ("shutdown", "failure"):
        assert time.monotonic() < deadline, status
        time.sleep(0.1)
    return str(status)
