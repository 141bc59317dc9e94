"""Scenarios and their runs over plain HTTP, for the tests of this room."""

import time
from typing import Any

import httpx

from tests.api.devbox import DevboxOverHttp, good

PATIENCE_SECONDS = 60.0


def function(scorer: dict[str, Any], weight: float = 1.0, name: str = "scorer") -> dict[str, Any]:
    """One scoring function."""
    return {"name": name, "weight": weight, "scorer": scorer}


def command(text: str) -> dict[str, Any]:
    """A command scorer."""
    return {"type": "command_scorer", "command": text}


def bash(text: str) -> dict[str, Any]:
    """A bash scorer."""
    return {"type": "bash_script_scorer", "bash_script": text}


def scenario_body(*functions: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The body of a create call; without functions what always passes grades it."""
    return {
        "name": "a scenario",
        "input_context": {"problem_statement": "Do it."},
        "scoring_contract": {"scoring_function_parameters": functions or (function(command("true")),)},
        **fields,
    }


def scenario(api: httpx.Client, *functions: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A scenario that was made."""
    return good(api.post("/v1/scenarios", json=scenario_body(*functions, **fields)))


class Run:
    """One scenario run and what can be asked of it."""

    def __init__(self, api: httpx.Client, view: dict[str, Any]) -> None:
        self.api = api
        self.id: str = view["id"]
        self.devbox = DevboxOverHttp(api, view["devbox_id"])

    def view(self) -> dict[str, Any]:
        return good(self.api.get(f"/v1/scenarios/runs/{self.id}"))

    def post(self, verb: str, body: Any = None, **options: Any) -> httpx.Response:
        return self.api.post(f"/v1/scenarios/runs/{self.id}/{verb}", json=body, **options)

    def reaches(self, *states: str) -> dict[str, Any]:
        """The view once the run has one of the states."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (view := self.view())["state"] not in states:
            assert time.monotonic() < deadline, view
            time.sleep(0.02)
        return view

    def scored(self) -> dict[str, Any]:
        """The view once it was scored, which is begun here."""
        assert good(self.post("score"))["state"] == "scoring"
        return self.reaches("scored")

    def end(self) -> None:
        """End it, whatever it is doing."""
        self.post("cancel")


def start(api: httpx.Client, scenario_id: str, **fields: Any) -> Run:
    """A run whose devbox runs."""
    run = Run(api, good(api.post("/v1/scenarios/start_run", json={"scenario_id": scenario_id, **fields})))
    run.devbox.reaches("running")
    return run


def results(view: dict[str, Any]) -> list[dict[str, Any]]:
    """What each scorer said."""
    found: list[dict[str, Any]] = view["scoring_contract_result"]["scoring_function_results"]
    return found
