"""Jobs over plain HTTP, for the tests of this room."""

import time
from typing import Any

import httpx

from tests.api.devbox import good

PATIENCE_SECONDS = 120.0
ENDED = ("completed", "failed", "cancelled", "timeout")


def agent(run: str | None = None, **fields: Any) -> dict[str, Any]:
    """An agent of a job: a command, or the one of that name."""
    return {"name": "command", "kwargs": {"run": run}, **fields} if run else fields


def scenarios_spec(ids: list[str], *agents: dict[str, Any], **orchestrator: Any) -> dict[str, Any]:
    """A spec over these scenarios."""
    settings = {"n_concurrent_trials": 10, **orchestrator}
    return {
        "type": "scenarios",
        "scenario_ids": ids,
        "agent_configs": agents,
        "orchestrator_config": settings,
    }


class Job:
    """One job and what can be asked of it."""

    patience = PATIENCE_SECONDS

    def __init__(self, api: httpx.Client, spec: dict[str, Any], **fields: Any) -> None:
        self.api = api
        self.id: str = good(api.post("/v1/benchmark_jobs", json={"spec": spec, **fields}))["id"]

    def get(self, path: str = "", **params: Any) -> dict[str, Any]:
        return good(self.api.get(f"/v1/benchmark_jobs/{self.id}{path}", params=params))

    def post(self, verb: str, body: Any = None, **options: Any) -> httpx.Response:
        return self.api.post(f"/v1/benchmark_jobs/{self.id}/{verb}", json=body, **options)

    def reaches(self, *states: str) -> dict[str, Any]:
        """The view once the job has one of the states."""
        deadline = time.monotonic() + self.patience
        while (view := self.get())["state"] not in states:
            assert time.monotonic() < deadline, view
            assert view["state"] not in ENDED, view
            time.sleep(0.05)
        return view

    def completed(self) -> dict[str, Any]:
        return self.reaches("completed")

    def row(self) -> dict[str, Any]:
        """The outcome of its only scenario, once it has completed."""
        (outcome,) = self.completed()["benchmark_outcomes"]
        (row,) = outcome["scenario_outcomes"]
        found: dict[str, Any] = row
        return found

    def trials(self) -> list[dict[str, Any]]:
        """All trials, newest first."""
        found: list[dict[str, Any]] = self.get("/trials", limit=5000)["trials"]
        return found

    def running(self, count: int = 1) -> list[dict[str, Any]]:
        """The trials whose agents run, once there are so many."""
        deadline = time.monotonic() + self.patience
        found: list[dict[str, Any]] = []
        while len(found) < count:
            assert time.monotonic() < deadline, self.trials()
            time.sleep(0.05)
            found = self.get("/trials", limit=5000, status="running")["trials"]
        return found
