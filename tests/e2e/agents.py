"""The public agents, real ones, with a scripted model behind the gateway, for tests that run jobs."""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from benchyard.scripted_model import RunningModel, Script, solving
from benchyard.testing.server import RunningServer
from tests.api.devbox import good
from tests.api.jobs import Job

KEY = "sk-only-the-gateway-knows-this-one"
SECRETS = {
    "ANTHROPIC_API_KEY": "KEY_OF_ANTHROPIC",
    "OPENAI_API_KEY": "KEY_OF_OPENAI",
    "GEMINI_API_KEY": "KEY_OF_GOOGLE",
    "GOOGLE_API_KEY": "KEY_OF_GOOGLE",
}
PATIENCE_SECONDS = 600.0
"""An agent is fetched from its registry first."""

FULL = bool(os.environ.get("BENCHYARD_ALL_AGENTS"))
"""Whether everything is tried with every agent: `make agents`."""


@dataclass(frozen=True)
class Named:
    """An agent with a model that has a price, and the variable of its key."""

    agent: str
    model: str
    variable: str

    def config(self, **fields: Any) -> dict[str, Any]:
        """As a job has it."""
        secrets = {self.variable: SECRETS[self.variable]}
        environment = {"secrets": secrets, **fields.pop("agent_environment", {})}
        return {"name": self.agent, "model_name": self.model, "agent_environment": environment, **fields}

    def __str__(self) -> str:
        return f"{self.agent}-{self.model}"


CLAUDE = Named("claude-code", "claude-sonnet-4-5", "ANTHROPIC_API_KEY")
CODEX = Named("codex", "gpt-5.5", "OPENAI_API_KEY")
CODEX_BY_CODE = Named("codex", "gpt-5.6-sol", "OPENAI_API_KEY")
OPENCODE = Named("opencode", "claude-sonnet-4-5", "ANTHROPIC_API_KEY")
GOOSE = Named("goose", "gpt-4o", "OPENAI_API_KEY")
GEMINI = Named("gemini-cli", "gemini-2.5-pro", "GEMINI_API_KEY")
MINI = Named("mini-swe-agent", "gpt-4o", "OPENAI_API_KEY")
ALL = (CLAUDE, CODEX, CODEX_BY_CODE, OPENCODE, GOOSE, GEMINI, MINI)


class AgentJob(Job):
    """A job that may begin with an install."""

    patience = PATIENCE_SECONDS


class AgentYard:
    """A server whose providers are all one scripted model; agents are installed once for all such servers."""

    def __init__(
        self, folder: Path, kits: Path, scripts: Sequence[Script] | None = None, **model: Any
    ) -> None:
        self.model = RunningModel(solving() if scripts is None else scripts, key=KEY, **model)
        self._data = folder / "data"
        self._kits = kits
        self._server: RunningServer | None = None
        self._api: httpx.Client | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.model)
            self._data.mkdir(mode=0o700, parents=True)
            self._kits.mkdir(mode=0o755, parents=True, exist_ok=True)
            (self._data / "kits").symlink_to(self._kits)
            options = [f"--upstream={name}={self.model.url}" for name in ("anthropic", "openai", "google")]
            self._server = stack.enter_context(RunningServer(self._data, options))
            headers = {"authorization": f"Bearer {self.server.key}"}
            self._api = stack.enter_context(
                httpx.Client(base_url=self.server.url, headers=headers, timeout=120)
            )
            for name in set(SECRETS.values()):
                good(self.api.post("/v1/secrets", json={"name": name, "value": KEY}))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def server(self) -> RunningServer:
        assert self._server is not None
        return self._server

    @property
    def api(self) -> httpx.Client:
        assert self._api is not None
        return self._api

    def job(self, *agents: dict[str, Any], names: Sequence[str] = (), **orchestrator: Any) -> AgentJob:
        """A job of these agents on quickstart, or some of its scenarios."""
        spec: dict[str, Any] = {
            "type": "benchmark",
            "benchmark_id": "quickstart",
            "agent_configs": list(agents),
            "orchestrator_config": {"n_concurrent_trials": 2, **orchestrator},
        }
        if names:
            listed = good(self.api.get("/v1/scenarios/list_public", params={"limit": 5000}))["scenarios"]
            ids = {each["name"].removeprefix("quickstart/"): each["id"] for each in listed}
            del spec["benchmark_id"]
            spec |= {"type": "scenarios", "scenario_ids": [ids[name] for name in names]}
        return AgentJob(self.api, spec)

    def trace(self, run_id: str, name: str) -> bytes:
        """A file that is kept with a run."""
        found = self.api.get(f"/v1/scenarios/runs/{run_id}/traces/{name}")
        assert found.status_code == 200, found.text
        return found.content
