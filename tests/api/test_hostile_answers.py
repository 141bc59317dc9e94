"""Answers and logs that are made to take for ever, on a real server: others are served meanwhile."""

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchyard.testing.server import RunningServer
from tests.api.devbox import good
from tests.api.jobs import ENDED, Job, agent, scenarios_spec
from tests.api.scenarios import bash, function, scenario, start
from tests.api.test_mounts import stored

PATIENT_SECONDS = 20.0
"""That anybody waits for an answer; what is graded here used to hold all of them up for minutes."""
MOST_MORE_KIB = 100 * 1024
"""Of memory, that a trajectory may cost the server for a moment; it used to be 700 MB."""
HOSTILE = """\
{ printf 1; yes ,111 | head -n 15000 | tr -d '\\n'; printf .5; } > answer.txt
yes '```a' | head -n 209715 > solution.py
{ printf '{"schema_version": "ATIF-v1.4", "steps": ['; yes '{},' | head -c 33500000; } > $BENCHYARD_TRAJECTORY
"""


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[RunningServer]:
    with RunningServer(tmp_path / "data") as running:
        yield running


@pytest.fixture
def http(own_server: RunningServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {own_server.key}"}
    with httpx.Client(base_url=own_server.url, headers=headers, timeout=PATIENT_SECONDS) as client:
        yield client


def graded(http: httpx.Client, scorer: dict[str, Any]) -> str:
    made = scenario(
        http,
        function(scorer),
        name=f"hostile {uuid.uuid4().hex[:8]}",
        environment_parameters={"working_directory": "/home/user/work"},
    )
    found: str = made["id"]
    return found


def scenarios(http: httpx.Client) -> list[str]:
    aime: dict[str, Any] = {"type": "aime_scorer", "path": "answer.txt", "expected": {"answer": 73}}
    test = (
        "import unittest\nclass TestCases(unittest.TestCase):\n    def test_it(self):\n        task_func()\n"
    )
    code: dict[str, Any] = {
        "type": "bigcodebench_scorer",
        "code_prompt": "def task_func():",
        "test": test,
        "modules": [],
    }
    return [graded(http, aime), graded(http, code)]


def peak_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = (each for each in lines if each.startswith("VmHWM"))
    return int(line.split()[1])


def scores(job: Job) -> list[tuple[str, float | None]]:
    """What became of its trials, when it is over; the server is asked for its health all the time."""
    deadline = time.monotonic() + 10 * job.patience
    while (view := job.get())["state"] not in ENDED:
        assert time.monotonic() < deadline, view
        assert job.api.get("/healthz").status_code == 200
        time.sleep(0.02)
    (outcome,) = view["benchmark_outcomes"]
    return [(row["state"], row.get("score")) for row in outcome["scenario_outcomes"]]


def test_hostile_answers_do_not_delay_other_requests(own_server: RunningServer, http: httpx.Client) -> None:
    ids = scenarios(http)
    # What a plain answer takes of memory is taken before.
    plain = Job(http, scenarios_spec(ids, agent("echo 1 > answer.txt; : > solution.py")))
    assert scores(plain) == [("COMPLETED", 0.0), ("COMPLETED", 1.0)]
    before = peak_kib(own_server.pid)
    job = Job(http, scenarios_spec(ids, agent(HOSTILE)))
    assert scores(job) == [("COMPLETED", 0.0)] * len(ids)
    more = peak_kib(own_server.pid) - before
    assert more < MOST_MORE_KIB, f"{more} KiB"
    for trial in job.trials():
        run = good(http.get(f"/v1/scenarios/runs/{trial['scenario_run_id']}"))
        (kept,) = run["traces"]
        assert (kept["name"], kept["kind"]) == ("trajectory.json", "file")
        assert kept["size_bytes"] > 33_000_000


def test_the_next_server_takes_a_hostile_scoring_up_and_goes_on(
    own_server: RunningServer, http: httpx.Client
) -> None:
    ids = scenarios(http)
    job = Job(http, scenarios_spec(ids, agent(HOSTILE)))
    deadline = time.monotonic() + job.patience
    while not any(_is_scored(http, trial) for trial in job.trials()):
        assert time.monotonic() < deadline, job.trials()
        time.sleep(0.01)
    own_server.kill()
    own_server.start()
    assert scores(job) == [("COMPLETED", 0.0)] * len(ids)


def test_a_large_trajectory_is_shown_to_scorers_without_being_held_in_memory(
    own_server: RunningServer, http: httpx.Client
) -> None:
    content = b'{"schema_version": "ATIF-v1.4", "steps": [], "notes": "' + b"x" * (60 * 1024**2) + b'"}'
    find = 's/.*"trajectory_path":"\\([^"]*\\)".*/\\1/'
    script = f"[ $(stat -c %s $(echo $RL_SCORER_CONTEXT | sed '{find}')) = {len(content)} ] && echo 1"
    run = start(http, scenario(http, function(bash(script)))["id"])
    good(run.post("traces", {"name": "way.json", "kind": "atif", "object_id": stored(http, content, "text")}))
    before = peak_kib(own_server.pid)
    view = run.scored()
    more = peak_kib(own_server.pid) - before
    assert view["scoring_contract_result"]["score"] == 1.0, view
    assert more < 30 * 1024, f"{more} KiB"
    run.end()


def _is_scored(http: httpx.Client, trial: dict[str, str | None]) -> bool:
    """Whether the scoring of a trial has begun."""
    if trial.get("scenario_run_id") is None:
        return False
    state = good(http.get(f"/v1/scenarios/runs/{trial['scenario_run_id']}"))["state"]
    return state in ("scoring", "scored", "completed")
