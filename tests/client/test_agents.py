"""Agents by our own client, as nouns and as objects, against a real server."""

import asyncio

import pytest

from benchyard import Benchyard
from benchyard.client import AsyncClient
from benchyard.errors import Conflict, Forbidden, NotFound, UsageError
from benchyard.models.agents import AgentSource
from benchyard.models.objects import ObjectRequest
from tests.client.scenes import unique

SOURCE = {"type": "npm", "npm": {"package_name": "my-agent"}}


def test_an_agent_is_made_found_listed_and_deleted(yard: Benchyard) -> None:
    agents, name = yard.api.agents, unique("noun")
    made = agents.create(
        name=name, version="1", source=SOURCE, run_command="my-agent {prompt_file}", metadata={"a": "b"}
    )
    assert agents.retrieve(made.id) == agents.get(made.id) == made
    assert (made.run_command, made.metadata) == ("my-agent {prompt_file}", {"a": "b"})
    typed = AgentSource.model_validate(SOURCE)
    newer = agents.create(name=name, version="2", source=typed)
    page = agents.list(name=name)
    assert [each.id for each in page] == [newer.id, made.id]
    assert [agent.id for agent in agents.list(name=name, version="latest")] == [newer.id]
    with pytest.raises(Conflict, match="never changes"):
        agents.create(name=name, version="1", source=SOURCE)
    with pytest.raises(UsageError, match="name"):
        agents.create(name="two words")
    assert agents.devbox_counts().counts.get(name, 0) == 0
    agents.delete(made.id)
    with pytest.raises(NotFound):
        agents.get(made.id)


def test_public_agents_stay(yard: Benchyard) -> None:
    oracle = next(each for each in yard.api.agents.list_public() if each.name == "oracle")
    with pytest.raises(Forbidden):
        yard.api.agents.delete(oracle.id)


def test_agents_are_awaited_too(yard: Benchyard) -> None:
    async def ask() -> list[str]:
        async with AsyncClient(yard.api.server) as client:
            made = await client.agents.create(name=unique("async"), source=SOURCE)
            found = [agent.id async for agent in client.agents.list(name=made.name)]
            await client.agents.delete(made.id)
            assert found == [made.id]
            return [each.name async for each in client.agents.list_public()]

    assert {"command", "nop", "oracle"} <= set(asyncio.run(ask()))


def test_an_agent_as_an_object(yard: Benchyard) -> None:
    name = unique("object")
    stored = yard.api.objects.upload(b"#!/bin/sh\n", ObjectRequest(name="run.sh", content_type="text"))
    made = [
        yard.agent.create(name=name, version="0", source=SOURCE),
        yard.agent.create_from_npm("my-agent", name=name, version="1", agent_setup=["true"]),
        yard.agent.create_from_pip("my-agent", name=name, version="2"),
        yard.agent.create_from_git("https://git.example/me/agent", ref="v1", name=name, version="3"),
        yard.agent.create_from_object(stored.id, name=name, version="4"),
    ]
    assert [each.id for each in yard.agent.list(name=name)] == [each.id for each in reversed(made)]
    kinds = [each.get_info().source for each in made]
    assert [kind.type for kind in kinds if kind] == ["npm", "npm", "pip", "git", "object"]
    assert yard.agent.from_id(made[1].id).get_info().version == "1"
    assert "nop" in [each.get_info().name for each in yard.agent.list_public()]
    for each in made:
        each.delete()
    assert yard.agent.list(name=name) == []
