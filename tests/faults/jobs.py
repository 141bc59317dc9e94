"""Jobs whose trials tell by what they did in their devboxes how often their agents ran."""

import contextlib
import json
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchyard.hosts import leaks
from benchyard.testing.server import RunningServer
from tests.faults.caller import Caller
from tests.faults.seeds import seconds

PATIENCE_SECONDS = seconds(short=120, long=300)
ENDED = ("completed", "failed", "cancelled", "timeout")
SMALL = {"launch_parameters": {"resource_size_request": "X_SMALL"}}
COUNTED = """
begun=$(grep -c '^begin ' ~/log); ended=$(grep -c '^end ' ~/log)
first=$(sed -n 's/^begin //p' ~/log); last=$(sed -n 's/^end //p' ~/log)
test "$begun $ended" = "1 1" && test "$first" = "$last" && echo 1 || echo 0
"""
"""A scorer: 1 only for an agent that began once, ended once, and was the same process all the time."""


def counting(seconds: float, **fields: Any) -> dict[str, Any]:
    """An agent that notes its beginning and its end, and works for a while in between."""
    return command(f"echo begin $$ >> ~/log; sleep {seconds}; echo end $$ >> ~/log", **fields)


def command(run: str, **fields: Any) -> dict[str, Any]:
    """An agent of a job that is a command."""
    return {"name": "command", "kwargs": {"run": run}, **fields}


def scenario(caller: Caller, grade: str = COUNTED, **fields: Any) -> str:
    """A scenario in a small devbox, graded by a script."""
    scorer = {"type": "bash_script_scorer", "bash_script": grade}
    body = {
        "name": "fault",
        "input_context": {"problem_statement": "Note that you ran."},
        "scoring_contract": {
            "scoring_function_parameters": [{"name": "counted", "weight": 1.0, "scorer": scorer}]
        },
        "environment_parameters": SMALL,
        **fields,
    }
    answer = caller.post("/v1/scenarios", body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


class FaultyJob:
    """One job, asked about by somebody who does not give up."""

    def __init__(
        self, caller: Caller, scenarios: list[str], agents: list[dict[str, Any]], **orchestrator: Any
    ) -> None:
        self.caller = caller
        spec = {
            "type": "scenarios",
            "scenario_ids": scenarios,
            "agent_configs": agents,
            "orchestrator_config": {"n_concurrent_trials": 10, **orchestrator},
        }
        answer = caller.post("/v1/benchmark_jobs", {"spec": spec})
        assert answer.status_code == 200, answer.text
        self.id: str = answer.json()["id"]

    def view(self) -> dict[str, Any]:
        """The job as it is now."""
        return self.caller.get(f"/v1/benchmark_jobs/{self.id}")

    def trials(self, *states: str) -> list[dict[str, Any]]:
        """Its trials, all or those that have one of the states."""
        found: list[dict[str, Any]] = self.caller.get(f"/v1/benchmark_jobs/{self.id}/trials?limit=5000")[
            "trials"
        ]
        return [each for each in found if not states or each["state"] in states]

    def counting(self) -> list[dict[str, Any]]:
        """The trials that count; there must be exactly one in each place of the plan."""
        found = [trial for trial in self.trials() if not trial["is_superseded"]]
        places = [(each["agent"], each["scenario_id"], each["attempt"]) for each in found]
        assert len(places) == len(set(places)), found
        return found

    def ended(self, state: str = "completed") -> dict[str, Any]:
        """The view at its end."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (view := self.view())["state"] not in ENDED:
            assert time.monotonic() < deadline, self.trials()
            time.sleep(0.1)
        assert view["state"] == state, view
        return view

    def at_work(self, count: int = 1) -> list[dict[str, Any]]:
        """The trials whose agents are at work, once there are so many."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(found := self.trials("running")) < count:
            assert time.monotonic() < deadline, self.trials()
            time.sleep(0.05)
        return found


@dataclass
class Follower(threading.Thread):
    """Reads the events of a job from its first to its last, whatever happens to the server meanwhile."""

    server: RunningServer
    job_id: str
    events: list[dict[str, Any]] = field(default_factory=list)
    connections: int = 0

    def __post_init__(self) -> None:
        super().__init__(name="follower", daemon=True)

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._is_over() and time.monotonic() < deadline:
            with contextlib.suppress(httpx.TransportError):
                self._read()
            time.sleep(0.05)

    def _is_over(self) -> bool:
        return bool(self.events) and self.events[-1].get("state") in ENDED

    def _read(self) -> None:
        after = self.events[-1]["seq"] if self.events else 0
        url = f"{self.server.url}/v1/benchmark_jobs/{self.job_id}/events?after={after}"
        headers = {"Authorization": f"Bearer {self.server.key}"}
        with httpx.stream("GET", url, headers=headers, timeout=30) as answer:
            self.connections += 1
            for line in answer.iter_lines():
                if line.startswith("data: ") and "seq" in (event := json.loads(line[6:])):
                    self.events.append(event)

    def told(self) -> dict[str, dict[str, Any]]:
        """The last that was told of each trial; every event came once, and the end of the job came last."""
        self.join(PATIENCE_SECONDS)
        assert self._is_over(), self.events[-3:]
        numbers = [event["seq"] for event in self.events]
        assert numbers == sorted(set(numbers))
        return {event["trial"]["id"]: event["trial"] for event in self.events if event["type"] == "trial"}


def nothing_is_left(server: RunningServer) -> None:
    """See that no devbox of a job runs, no image of a scoring is kept, and nothing leaks."""
    assert leaks.find(server.data, PATIENCE_SECONDS) == []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while found := [*_running(server), *_images(server.data)]:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def _running(server: RunningServer) -> list[Path]:
    return sorted((server.data / "host/devboxes").glob("*/box.json"))


def _images(data: Path) -> list[Path]:
    """Images that nobody asked to keep."""
    kept = ("final",)
    found = [path for path in (data / "images/images").glob("*.json") if path.stem != "host"]
    return [path for path in found if json.loads(path.read_text()).get("kind") not in kept]
