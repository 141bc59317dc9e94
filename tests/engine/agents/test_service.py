"""Which agent a job gets, and what is said where there is none."""

from pathlib import Path
from typing import Any

import pytest

from benchyard.agents.base import Launch
from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.engine import Engine
from benchyard.errors import NotFound, NotSupported, UsageError
from benchyard.models.agents import AgentChoice, AgentRequest
from benchyard.testing.contracts.agent import task
from tests.engine.yard import run

NPM = {"type": "npm", "npm": {"package_name": "semver"}}
RUN = "solve {prompt_file} --effort {effort}"


async def registered(engine: Engine, id: str, **fields: Any) -> None:
    request = AgentRequest.model_validate({"name": "mine", "run_command": RUN, "source": NPM, **fields})
    await engine.agents.known.create(Caller(id), request)


async def refused(engine: Engine, name: str, **asked: Any) -> str:
    with pytest.raises(UsageError) as caught:
        await engine.agents.resolve(
            name, asked.get("agent_id"), asked.get("version"), asked.get("kwargs") or {}
        )
    assert len(caught.value.message) < 2000
    return caught.value.message


def test_a_choice_is_settled_once(tmp_path: Path) -> None:
    async def test(engine: Engine, tools: EngineContext) -> None:
        resolve = engine.agents.resolve
        await registered(engine, "agt_1", version="1")
        await registered(engine, "agt_2", version="2")
        newest = await resolve("mine", None, None, {"effort": "high"})
        assert newest == AgentChoice(name="mine", version="2", agent_id="agt_2", kwargs={"effort": "high"})
        assert AgentChoice.model_validate_json(newest.model_dump_json()) == newest
        assert (await resolve("mine", None, "1", {})).agent_id == "agt_1"
        assert (await resolve("mine", None, "latest", {})).agent_id == "agt_2"
        assert (await resolve("mine", "agt_1", None, {})).version == "1"
        assert await resolve("nop", None, None, {}) == AgentChoice(name="nop")
        assert await resolve("nop", "agt_public_nop", None, {}) == AgentChoice(name="nop")
        await engine.agents.known.delete("agt_2")
        assert (await resolve("mine", None, None, {})).agent_id == "agt_1"
        with pytest.raises(NotFound, match="agt_2"):
            await engine.agents.ready(newest)

    run(tmp_path, test)


def test_unknown_agent_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    async def test(engine: Engine, tools: EngineContext) -> None:
        await registered(engine, "agt_1", version="1.0")
        await registered(engine, "agt_3", name="silent", run_command=None)
        assert "did you mean 'mine'" in await refused(engine, "mien")
        assert "opencode, oracle, silent, mine" in await refused(engine, "x" * 9000)
        assert "did you mean '1.0'" in await refused(engine, "mine", version="1.00")
        assert "no versions" in await refused(engine, "oracle", version="1")
        assert "agt_none" in await refused(engine, "mine", agent_id="agt_none")
        assert "agent agt_1 is mine@1.0" in await refused(engine, "other", agent_id="agt_1")
        assert "agent agt_1 is mine@1.0" in await refused(engine, "mine", agent_id="agt_1", version="2")
        assert "--run" in await refused(engine, "silent")
        assert "did you mean 'effort'" in await refused(engine, "mine", kwargs={"efort": "1"})
        assert "prompt_file" in await refused(engine, "mine", kwargs={"prompt_file": "/etc/passwd"})
        assert "did you mean 'run'" in await refused(engine, "command", kwargs={"runs": "x"})
        assert "'run' is missing" in await refused(engine, "command")

    run(tmp_path, test)


def test_agents_that_come_with_us_are_ready_at_once(tmp_path: Path) -> None:
    async def test(engine: Engine, tools: EngineContext) -> None:
        choice = await engine.agents.resolve("command", None, None, {"run": "true {workdir}"})
        agent, shown = await engine.agents.ready(choice)
        assert shown == ()
        assert agent.launch(task()) == Launch("true '/srv/task with space'")

    run(tmp_path, test)


def test_without_a_source_nothing_is_installed(tmp_path: Path) -> None:
    async def test(engine: Engine, tools: EngineContext) -> None:
        await registered(engine, "agt_1", source=None, run_command="true {model}")
        agent, shown = await engine.agents.ready(await engine.agents.resolve("mine", None, None, {}))
        assert (agent.name, shown) == ("mine", ())
        assert agent.launch(task(model="m")) == Launch("true m")
        with pytest.raises(UsageError, match="agent_dir"):
            await registered(engine, "agt_2", source=None, run_command="{agent_dir}/x")

    run(tmp_path, test)


def test_a_driver_that_cannot_show_folders_says_so(tmp_path: Path) -> None:
    async def test(engine: Engine, tools: EngineContext) -> None:
        await registered(engine, "agt_1")
        with pytest.raises(NotSupported, match="native driver"):
            await engine.agents.ready(await engine.agents.resolve("mine", None, None, {}))

    run(tmp_path, test)
