"""Where the keys of models go: to the gateway, and nowhere else."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchyard.agents import catalog
from benchyard.engine.context import EngineContext
from benchyard.engine.engine import Engine
from benchyard.engine.jobs.trial_context import TrialContext, trial_scrubber
from benchyard.engine.network.model_routes import ModelKeys, ModelRoute, ModelUpstreams, other_secrets
from benchyard.errors import UsageError
from benchyard.models.jobs import AgentConfig
from benchyard.models.secrets import SecretRequest
from benchyard.settings import Settings, UpstreamAddress
from tests.engine.yard import run

KEY = "sk-nobody-else-knows-this"


def keys(tools: EngineContext) -> ModelKeys:
    own = Settings(data=tools.settings.data, upstreams={"vllm": UpstreamAddress("http://10.0.0.5:8000")})
    return ModelKeys(ModelUpstreams(own), tools.secrets)


async def keep(tools: EngineContext, name: str) -> None:
    request = SecretRequest.model_validate({"name": name, "value": KEY})
    await tools.secrets.create(f"sec_{name}", request, None)


def config(**environment: Any) -> AgentConfig:
    given = {"name": "opencode", "model_name": "vllm/some-model", "agent_environment": environment}
    return AgentConfig.model_validate(given)


def test_the_key_of_an_upstream_of_ones_own_is_kept_from_devboxes_too(tmp_path: Path) -> None:
    async def scenario(_engine: Engine, tools: EngineContext) -> None:
        await keep(tools, "MY_KEY")
        asked = config(secrets={"VLLM_API_KEY": "MY_KEY", "OPENAI_API_KEY": "MY_KEY", "MORE": "MY_KEY"})
        agent = catalog.make("opencode", {})
        route = await keys(tools).route(agent, asked)
        assert route == ModelRoute("vllm", "some-model", "VLLM_API_KEY", "MY_KEY")
        assert (await keys(tools).upstream(route, asked.base_url)).key == KEY
        assert other_secrets(agent, route, asked.agent_environment) == {"MORE": "MY_KEY"}

    run(tmp_path, scenario)


def test_the_key_of_an_upstream_of_ones_own_is_not_a_plain_variable(tmp_path: Path) -> None:
    async def scenario(_engine: Engine, tools: EngineContext) -> None:
        await keep(tools, "VLLM_API_KEY")
        asked = config(environment_variables={"VLLM_API_KEY": KEY})
        with pytest.raises(UsageError, match="benchyard secret set VLLM_API_KEY") as told:
            await keys(tools).route(catalog.make("opencode", {}), asked)
        assert KEY not in told.value.message

    run(tmp_path, scenario)


def test_an_agent_that_has_nothing_to_do_with_the_gateway_gets_all_its_secrets(tmp_path: Path) -> None:
    async def scenario(_engine: Engine, tools: EngineContext) -> None:
        asked = config(secrets={"OPENAI_API_KEY": "MY_KEY"})
        agent = catalog.make("command", {"run": "true"})
        assert await keys(tools).route(agent, asked) is None
        assert other_secrets(agent, None, asked.agent_environment) == {"OPENAI_API_KEY": "MY_KEY"}

    run(tmp_path, scenario)


def test_a_key_that_the_server_keeps_for_all_jobs_is_taken_out_of_messages(tmp_path: Path) -> None:
    """A provider that does not like a key may repeat it in its complaint."""

    async def scenario(_engine: Engine, tools: EngineContext) -> None:
        await keep(tools, "VLLM_API_KEY")
        asked = config()
        route = await keys(tools).route(catalog.make("opencode", {}), asked)
        context = SimpleNamespace(
            config=asked,
            inputs=SimpleNamespace(route=route),
            tools=tools,
            trial=SimpleNamespace(devbox_id=None),
        )
        clean = await trial_scrubber(cast("TrialContext", context))
        assert KEY not in clean.text(f"HTTP 401: wrong key {KEY}")

    run(tmp_path, scenario)
