"""Agents and scorers that mean harm: each ends in time, for a reason that is told, and harms nobody else."""

import time
from pathlib import Path
from typing import Any

from benchyard.testing.server import RunningServer
from tests.faults.caller import several_callers
from tests.faults.jobs import FaultyJob, command, nothing_is_left, scenario
from tests.faults.seeds import SEEDS
from tests.faults.workload import surprises

ATTEMPTS = 3 if SEEDS else 1
GOOD = "test -f ~/good && echo 1 || echo 0.25"
LIMIT_SECONDS = {"memory": 90, "disk": 90}
"""For what takes its time until it is too much; the others are ended by a limit of some seconds."""

HEALTHY = "sleep 3; touch ~/good"
HOSTILE = {
    "forks": "for i in $(seq 10000); do sleep 1000 & done; wait",
    "memory": "touch ~/good; tail /dev/zero",
    "disk": "for i in 1 2 3 4 5 6 7 8 9; do fallocate -l 600M ~/big$i; done; sleep 1000",
    "deaf": "trap '' TERM INT HUP; touch ~/good; while true; do sleep 1; done",
    "mute": "touch ~/good; exec >&- 2>&-; sleep 1",
    "mute and failing": "exec >&- 2>&-; sleep 1; exit 5",
    "loud": "touch ~/good; yes",
    "daemons": "touch ~/good; (setsid sh -c 'while true; do date >> ~/late; sleep 0.1; done' &); exit 0",
    "suicide": "kill -9 -1; kill -9 $$",
}
ENDS: dict[str, tuple[str, str, str]] = {
    # What they led to: the state, who failed or what ended them, and a word of what is told.
    "forks": ("completed", "timeout", ""),
    "memory": ("failed", "agent", "out of memory"),
    "disk": ("failed", "agent", "out_of_disk"),
    "deaf": ("completed", "timeout", ""),
    "mute": ("completed", "", ""),
    "mute and failing": ("failed", "agent", "exit status 5"),
    "loud": ("completed", "timeout", ""),
    "daemons": ("completed", "", ""),
    "suicide": ("failed", "agent", "SIGKILL"),
}
SCORES = {"forks": 0.25, "deaf": 1.0, "mute": 1.0, "loud": 1.0, "daemons": 1.0}


def test_hostile_agents_fail_alone(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server, several_callers(server, 1) as (caller,):
        limits = {name: LIMIT_SECONDS.get(name, 8) for name in HOSTILE}
        hostile = [command(run, timeout_seconds=limits[name]) for name, run in HOSTILE.items()]
        agents = [command(HEALTHY), *hostile]
        job = FaultyJob(caller, [scenario(caller, GOOD)], agents, n_attempts=ATTEMPTS)
        begun = time.monotonic()
        job.ended()
        # Each has its limit, and what comes before and after it: nothing waits for an agent's pleasure.
        assert time.monotonic() - begun < 100 + 20 * ATTEMPTS
        names = ["healthy", *HOSTILE]
        trials = job.counting()
        assert len(trials) == len(agents) * ATTEMPTS == len(job.trials()), trials
        found = [(names[trial["agent"]], _end(trial)) for trial in trials]
        for trial in trials:
            name = names[trial["agent"]]
            state, kind, told = ENDS.get(name, ("completed", "", ""))
            assert _end(trial)[:2] == (state, kind), (name, found)
            assert told in _end(trial)[2], (name, found)
            assert trial.get("score") == (1.0 if name == "healthy" else SCORES.get(name)), (name, found)
        nothing_is_left(server)
        assert not surprises(server)


def _end(trial: dict[str, Any]) -> tuple[str, str, str]:
    failure = trial.get("failure") or {}
    kind = failure.get("kind") or trial.get("ended_by") or ""
    return trial["state"], kind, failure.get("exception_message") or ""


def test_a_scorer_that_hangs_fails_its_own_trial(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server, several_callers(server, 1) as (caller,):
        hanging = "trap '' TERM; (setsid sleep 1000 &); sleep 1000"
        scenarios = [
            scenario(caller, grade, scorer_timeout_sec=seconds, scoring_isolation=isolation)
            for isolation in ("clean", "live")
            for grade, seconds in ((hanging, 2), (GOOD, 60))
        ]
        job = FaultyJob(caller, scenarios, [command("touch ~/good")], n_concurrent_trials=1)
        (outcome,) = job.ended()["benchmark_outcomes"]
        for row in outcome["scenario_outcomes"][::2]:
            assert (row["state"], row["failure_reason"]["kind"]) == ("FAILED", "scorer"), row
            assert "longer than `scorer_timeout_sec`" in row["failure_reason"]["exception_message"], row
        for row in outcome["scenario_outcomes"][1::2]:
            assert (row["state"], row["score"]) == ("COMPLETED", 1.0), row
        assert (outcome["unscored"], len(job.trials())) == (2, 4)
        nothing_is_left(server)
        assert not surprises(server)
