"""What the SDK promises: its names, and the types its verbs have on each client."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from operator import attrgetter
from typing import assert_type

import benchyard.client
from benchyard.client import AsyncClient, Client
from benchyard.client.methods import Descriptor
from benchyard.models.devboxes import DevboxView
from tests.client.stub import Answer, devbox, stub

NOUNS = [
    "agents",
    "baselines",
    "benchmark_runs",
    "benchmarks",
    "blueprints",
    "devboxes",
    "executions",
    "files",
    "gateway_configs",
    "images",
    "jobs",
    "keys",
    "logs",
    "network_policies",
    "objects",
    "pty",
    "scenarios",
    "secrets",
    "snapshots",
    "ssh",
    "trajectories",
    "trials",
    "tunnels",
    "webhooks",
]


def test_the_exported_names_are_these() -> None:
    assert benchyard.client.__all__ == ["AsyncClient", "Client", "Devbox", "ExecutionResult", "Server"]


def test_both_clients_have_the_same_nouns() -> None:
    async def nouns() -> list[str]:
        async with AsyncClient(server.server) as client:
            return sorted(name for name in vars(client) if name != "session")

    with stub(lambda asked: Answer(devbox())) as server, Client(server.server) as client:
        assert sorted(name for name in vars(client) if name != "session") == asyncio.run(nouns()) == NOUNS


def test_every_verb_says_what_it_does() -> None:
    with stub(lambda asked: Answer(devbox())) as server, Client(server.server) as client:
        verbs = [
            (noun, name, verb)
            for noun in [*NOUNS, "scenarios.runs", "scenarios.scorers"]
            for group in type(attrgetter(noun)(client)).__mro__
            for name, verb in vars(group).items()
            if isinstance(verb, Descriptor)
        ]
        assert len(verbs) > 80
        assert [(noun, name) for noun, name, verb in verbs if not verb.__doc__] == []
        assert client.devboxes.get.__doc__ == "Look one up; raises NotFound."


def test_verbs_have_the_types_of_their_client() -> None:
    async def awaited() -> DevboxView:
        async with AsyncClient(server.server) as client:
            assert_type(client.devboxes.list(), AsyncIterator[DevboxView])
            assert_type(await client.devboxes.get("dbx_1"), DevboxView)
            return await client.devboxes.get("dbx_1")

    with stub(lambda asked: Answer(devbox())) as server, Client(server.server) as client:
        assert_type(client.devboxes.list(), Iterator[DevboxView])
        assert assert_type(client.devboxes.get("dbx_1"), DevboxView) == asyncio.run(awaited())
