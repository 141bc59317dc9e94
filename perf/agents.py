"""`agents`: how long an agent takes to its first question, in a devbox and as a bare program of the host."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchyard.agents.base import ModelAccess
from benchyard.models.scenarios import ScenarioView
from benchyard.scripted_model import RunningModel, Script
from benchyard.testing.server import RunningServer
from perf import bare_agent
from perf.measure import Figure
from perf.options import Options
from perf.page import heading, table

_KEY = "key-for-measuring"
_SECRET = "KEY_FOR_MEASURING"
_PROBLEM = "There is nothing to do. Say so."
_TARGET = 1.2
_WARM_UP = 1
_LOOK_AGAIN_SECONDS = 0.001
_PATIENCE_SECONDS = 900.0
"""The first time an agent is fetched from its registry."""
_ENDED = ("completed", "failed", "cancelled", "timeout")


@dataclass(frozen=True)
class _Asking:
    """An agent, the model it asks, and who that is of."""

    agent: str
    model: str
    provider: str
    variable: str


_AGENTS = (
    _Asking("claude-code", "claude-sonnet-4-5", "anthropic", "ANTHROPIC_API_KEY"),
    _Asking("codex", "gpt-5.5", "openai", "OPENAI_API_KEY"),
    _Asking("opencode", "claude-sonnet-4-5", "anthropic", "ANTHROPIC_API_KEY"),
    _Asking("goose", "gpt-4o", "openai", "OPENAI_API_KEY"),
    _Asking("gemini-cli", "gemini-2.5-pro", "google", "GEMINI_API_KEY"),
    _Asking("mini-swe-agent", "gpt-4o", "openai", "OPENAI_API_KEY"),
)


def measure(folder: Path, options: Options) -> list[str]:
    """Every agent in a devbox and bare, in turns."""
    rounds = max(1, options.rounds // 6)
    rows = []
    with _yard(folder) as yard:
        for asking in _AGENTS:
            inside, bare = yard.compared(asking, rounds)
            ratio = inside.p50 / bare.p50
            cells = (*_told(inside), *_told(bare), f"{inside.p50 - bare.p50:+.0f}", f"{ratio:.2f}x")
            rows.append((asking.agent, *cells, f"at most {_TARGET}x"))
    size = bare_agent.SIZE.value
    note = f"{rounds} rounds after {_WARM_UP} to warm up, interleaved; limits of size {size} for both."
    names = ("agent", "in a devbox, p50 ms", "least", "bare, p50 ms", "least", "more ms", "ratio", "target")
    return [heading(note), *table(names, rows)]


def _told(figure: Figure) -> tuple[str, str]:
    return f"{figure.p50:.0f}", f"{min(figure.values):.0f}"


@contextmanager
def _yard(folder: Path) -> Iterator["_Yard"]:
    """A server whose providers are all one model that has nothing to say."""
    with RunningModel([Script()], key=_KEY) as model:
        upstreams = [f"--upstream={name}={model.url}" for name in ("anthropic", "openai", "google")]
        with RunningServer(folder / "data", upstreams) as server:
            headers = {"authorization": f"Bearer {server.key}"}
            with httpx.Client(base_url=server.url, headers=headers, timeout=120) as api:
                yield _Yard(folder, api, model)


class _Yard:
    """Where agents are started and their first questions are waited for."""

    def __init__(self, folder: Path, api: httpx.Client, model: RunningModel) -> None:
        self._folder = folder
        self._api = api
        self._model = model
        self._starts = 0
        self._post("/v1/secrets", {"name": _SECRET, "value": _KEY})
        scorer = {"name": "true", "weight": 1, "scorer": {"type": "command_scorer", "command": "true"}}
        body = {
            "name": "measured",
            "input_context": {"problem_statement": _PROBLEM},
            "scoring_contract": {"scoring_function_parameters": [scorer]},
            "environment_parameters": {"launch_parameters": {"resource_size_request": bare_agent.SIZE.value}},
        }
        self._scenario = ScenarioView.model_validate(self._post("/v1/scenarios", body))

    def compared(self, asking: _Asking, rounds: int) -> tuple[Figure, Figure]:
        """Milliseconds in a devbox, and bare; who is first changes from round to round."""
        inside: list[float] = []
        bare: list[float] = []
        for number in range(_WARM_UP + rounds):
            # The bare one is the package that the first job has installed.
            if number % 2 == 0:
                inside.append(self._inside(asking))
            bare.append(self._bare(asking))
            if number % 2:
                inside.append(self._inside(asking))
        name = asking.agent
        return Figure(name, tuple(inside[_WARM_UP:])), Figure(name, tuple(bare[_WARM_UP:]))

    def _inside(self, asking: _Asking) -> float:
        self._model.reset()
        config = {
            "name": asking.agent,
            "model_name": asking.model,
            "agent_environment": {"secrets": {asking.variable: _SECRET}},
        }
        spec = {"type": "scenarios", "scenario_ids": [self._scenario.id], "agent_configs": [config]}
        path = f"/v1/benchmark_jobs/{self._post('/v1/benchmark_jobs', {'spec': spec})['id']}"
        asked = self._asked(asking.agent)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self._get(path)["state"] not in _ENDED and time.monotonic() < deadline:
            time.sleep(0.05)
        (trial,) = self._get(f"{path}/trials")["trials"]
        begun = next((each["start_ms"] for each in trial["stages"] if each["name"] == "agent"), None)
        if begun is None or trial.get("error"):
            raise RuntimeError(f"agent {asking.agent} did not go well: {str(trial)[:500]}")
        return asked * 1000 - float(begun)

    def _bare(self, asking: _Asking) -> float:
        self._model.reset()
        self._starts += 1
        place = self._folder / f"bare-{self._starts}"
        access = ModelAccess(
            f"{self._model.url}/{asking.provider}", _KEY, asking.provider, asking.model, asking.variable
        )
        agent = bare_agent.installed(asking.agent, self._folder / "data/kits")
        with bare_agent.started(agent, access, self._scenario, place) as begun:
            return (self._asked(asking.agent) - begun) * 1000

    def _asked(self, name: str) -> float:
        """The moment at which the model is asked for the first time."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._model.ledger.calls(titles=True):
            if time.monotonic() > deadline:
                raise RuntimeError(f"agent {name} did not ask its model")
            time.sleep(_LOOK_AGAIN_SECONDS)
        return time.time()

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return dict(self._api.post(path, json=body).raise_for_status().json())

    def _get(self, path: str) -> dict[str, Any]:
        return dict(self._api.get(path).raise_for_status().json())
