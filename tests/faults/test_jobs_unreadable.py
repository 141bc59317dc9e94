"""Records of a job that cannot be read cost it the trials they belong to, and nobody else anything."""

import sqlite3
from contextlib import closing
from pathlib import Path

from benchyard.testing.server import RunningServer
from tests.faults.caller import Caller, several_callers
from tests.faults.jobs import FaultyJob, counting, nothing_is_left, scenario


def test_a_scenario_that_cannot_be_read_fails_its_own_trials(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server, several_callers(server, 1) as (caller,):
        job, bad = _begun(caller)
        server.stop()
        _spoil(server, "scenarios", bad)
        server.start()
        beside = FaultyJob(caller, [scenario(caller)], [counting(0.1)])
        beside.ended()
        job.ended()
        good, failed = sorted(job.counting(), key=lambda each: each["scenario_id"] == bad)
        assert (good["state"], good["score"], good["retry"]) == ("completed", 1.0, 0)
        assert (failed["state"], failed["failure"]["kind"]) == ("failed", "infrastructure")
        assert bad in failed["failure"]["exception_message"], failed
        nothing_is_left(server)


def test_a_trial_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server, several_callers(server, 1) as (caller,):
        job, bad = _begun(caller)
        (waiting,) = [trial["id"] for trial in job.trials() if trial["scenario_id"] == bad]
        server.stop()
        _spoil(server, "trials", waiting)
        server.start()
        job.ended()
        assert [(trial["state"], trial["score"]) for trial in job.trials()] == [("completed", 1.0)]
        assert waiting in server.log
        nothing_is_left(server)


def _begun(caller: Caller) -> tuple[FaultyJob, str]:
    """A job whose first trial is at work while its second waits; the scenario of that is told too."""
    scenarios = [scenario(caller), scenario(caller)]
    job = FaultyJob(caller, scenarios, [counting(4)], n_concurrent_trials=1)
    job.at_work()
    return job, scenarios[1]


def _spoil(server: RunningServer, table: str, id: str) -> None:
    with closing(sqlite3.connect(server.data / "benchyard.db", timeout=20)) as database, database:
        changed = database.execute(f"UPDATE {table} SET body = '{{' WHERE id = ?", (id,))
        assert changed.rowcount == 1
