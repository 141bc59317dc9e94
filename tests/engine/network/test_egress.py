"""A devbox with a network policy reaches what that allows, seen from inside it."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.engine import Engine
from benchyard.engine.network.policies import PROXY_PORT
from benchyard.errors import NotSupported, NotYet, UsageError
from benchyard.gateway.egress import proxy
from benchyard.gateway.egress.rules import Rules
from benchyard.hosts.host import ExecRequest
from benchyard.models.devboxes import Devbox, DevboxPurpose, DevboxRequest, DevboxStatus
from benchyard.models.network_policies import NetworkPolicyChange, NetworkPolicyRequest
from benchyard.models.runs import ScenarioRunRequest
from benchyard.models.scenarios import ScenarioRequest
from tests.engine.yard import run

PATIENCE_SECONDS = 60.0
FETCH = """
import os, sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())
except urllib.error.HTTPError as error:
    print(error.code)
except OSError:
    print("no way")
"""


class Gate:
    """The gateway's part, in this process: it really serves what it is given."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.serving: dict[str, proxy.EgressProxy] = {}
        self.rules: dict[str, Rules] = {}

    async def open_egress(self, devbox_id: str, descriptor: int, rules: Rules) -> None:
        self.opened.append(devbox_id)
        self.rules[devbox_id] = rules
        if devbox_id in self.serving:
            self.serving[devbox_id].enforce()
            return
        door = socket.socket(fileno=os.dup(descriptor))
        self.serving[devbox_id] = await proxy.serve_egress(door, lambda: self.rules[devbox_id])

    async def refused(self, devbox_id: str) -> dict[str, int]:
        found = self.serving[devbox_id].log.refused() if devbox_id in self.serving else []
        return {f"{each.host}:{each.port}": each.count for each in found}

    async def close_egress(self, devbox_id: str) -> None:
        if served := self.serving.pop(devbox_id, None):
            await served.close()


async def policy(engine: Engine, **fields: Any) -> str:
    request = NetworkPolicyRequest.model_validate({"name": "p", **fields})
    return (await engine.network_policies.create("npol_1", request, None)).id


async def asked(engine: Engine, policy_id: str, **fields: Any) -> Devbox:
    launch = {"network_policy_id": policy_id, **fields.pop("launch_parameters", {})}
    request = DevboxRequest.model_validate({"launch_parameters": launch, **fields})
    return await engine.devboxes.create(Caller("dbx_1"), request)


async def up(engine: Engine) -> Devbox:
    devbox = await engine.devboxes.wait_until_booted("dbx_1")
    while devbox.status is not DevboxStatus.RUNNING:
        assert devbox.status not in (DevboxStatus.FAILURE, DevboxStatus.SHUTDOWN), devbox.state_transitions
        devbox = await engine.devboxes.wait_until_booted("dbx_1")
    return devbox


async def fetched(tools: EngineContext, url: str, id: str) -> str:
    command = ExecRequest(id=id, argv=("/usr/bin/python3", "-c", FETCH, url))
    await tools.host.exec("dbx_1", command)
    state = await tools.host.wait("dbx_1", id, PATIENCE_SECONDS)
    text, _ = await tools.host.tail("dbx_1", id, "stdout", 10)
    assert state.status == "completed", state
    return text.strip()


async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage")
    writer.close()
    await writer.wait_closed()


@asynccontextmanager
async def website(port: int = 0) -> AsyncIterator[int]:
    """A page on this machine's loopback; its port."""
    web = await asyncio.start_server(page, "127.0.0.1", port)
    try:
        yield web.sockets[0].getsockname()[1]
    finally:
        web.close()


async def listed(engine: Engine, port: int, **fields: Any) -> Devbox:
    """A devbox that may reach that port of this machine's loopback."""
    block = {"cidr": "127.0.0.1/32", "ports": [{"port": port}]}
    # `no_proxy` of its own: what is behind the proxy is on a loopback here too.
    variables = {"no_proxy": "", "NO_PROXY": ""}
    made = await policy(engine, allowed_cidrs=[block])
    await asked(engine, made, environment_variables=variables, **fields)
    return await up(engine)


async def ended(engine: Engine, tools: EngineContext) -> None:
    await engine.devboxes.shutdown("dbx_1", force=True)
    await tools.work.settle("devbox/")


def test_a_devbox_reaches_its_list_and_nothing_else(tmp_path: Path) -> None:
    gate = Gate()

    async def scenario(engine: Engine, tools: EngineContext) -> None:
        async with website() as port:
            url = f"http://127.0.0.1:{port}/"
            launch = {"launch_commands": [f"/usr/bin/python3 -c '{FETCH}' {url} > ~/got"]}
            await listed(engine, port, launch_parameters=launch)
            await tools.host.exec("dbx_1", ExecRequest(id="got", command="cat ~/got; env"))
            await tools.host.wait("dbx_1", "got", PATIENCE_SECONDS)
            said, _ = await tools.host.tail("dbx_1", "got", "stdout", 100)
            assert said.startswith("page\n")
            assert f"HTTPS_PROXY=http://127.0.0.1:{PROXY_PORT}" in said.splitlines()
            assert await fetched(tools, url, "one") == "page"
            assert await fetched(tools, "http://127.0.0.1:1/", "two") == "403"
            assert await fetched(tools, "http://example.com/", "three") == "403"
            refused = {each.host for each in gate.serving["dbx_1"].log.refused()}
            assert refused == {"127.0.0.1", "example.com"}
            await ended(engine, tools)
            assert gate.serving == {}

    run(tmp_path, scenario, "native", egress=gate)


def test_a_list_outlives_its_policy_the_server_and_a_rest(tmp_path: Path) -> None:
    gate = Gate()
    ports: list[int] = []

    async def first(engine: Engine, tools: EngineContext) -> None:
        async with website() as port:
            ports.append(port)
            await listed(engine, port)
            # What the policy says later is for later devboxes.
            await engine.network_policies.update("npol_1", NetworkPolicyChange(allowed_cidrs=[]))
            await engine.network_policies.delete("npol_1")
            assert await fetched(tools, f"http://127.0.0.1:{port}/", "one") == "page"
        await gate.close_egress("dbx_1")

    async def second(engine: Engine, tools: EngineContext) -> None:
        await tools.work.settle("egress/")
        async with website(ports[0]) as port:
            assert await fetched(tools, f"http://127.0.0.1:{port}/", "two") == "page"
            await engine.devboxes.suspend("dbx_1")
            await tools.work.settle("devbox/")
            assert gate.serving == {}
            await engine.devboxes.resume("dbx_1")
            await up(engine)
            assert await fetched(tools, f"http://127.0.0.1:{port}/", "three") == "page"
        await ended(engine, tools)
        assert gate.opened == ["dbx_1"] * 3

    run(tmp_path, first, "native", egress=gate)
    run(tmp_path, second, "native", egress=gate)


@pytest.mark.parametrize(("allow_all", "expected"), [(False, "no way"), (True, "page")])
def test_a_policy_without_rules_gives_no_network_and_one_for_all_the_hosts(
    tmp_path: Path, allow_all: bool, expected: str
) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        made = await policy(engine, allow_all=allow_all)
        async with website() as port:
            await asked(engine, made)
            await up(engine)
            assert await fetched(tools, f"http://127.0.0.1:{port}/", "get") == expected
            await ended(engine, tools)

    run(tmp_path, scenario, "native")


def test_unenforceable_policy_is_refused_before_anything_starts(tmp_path: Path) -> None:
    async def without_gateway(engine: Engine, tools: EngineContext) -> None:
        made = await policy(engine, allowed_hostnames=["a.test"])
        with pytest.raises(NotYet, match="gateway"):
            await asked(engine, made)
        with pytest.raises(UsageError, match="not both"):
            await asked(engine, made, metadata={"benchyard.network": "host"})
        with pytest.raises(UsageError, match="npol_unknown"):
            await asked(engine, "npol_unknown")
        assert tools.host.running() == set()

    async def without_walls(engine: Engine, tools: EngineContext) -> None:
        made = await policy(engine)
        with pytest.raises(NotSupported, match="native"):
            await asked(engine, made)
        await engine.network_policies.update(made, NetworkPolicyChange(allow_all=True))
        await asked(engine, made)
        await up(engine)
        await ended(engine, tools)

    (tmp_path / "native").mkdir()
    (tmp_path / "fake").mkdir()
    run(tmp_path / "native", without_gateway, "native")
    run(tmp_path / "fake", without_walls, "fake")


def test_the_door_of_a_room_is_open_as_long_as_its_scorer_works(tmp_path: Path) -> None:
    gate = Gate()

    async def scored(engine: Engine, tools: EngineContext) -> None:
        async with website() as port:
            await policy(engine, allowed_cidrs=[{"cidr": "127.0.0.1/32", "ports": [{"port": port}]}])
            fetch = f"import urllib.request; urllib.request.urlopen('http://127.0.0.1:{port}/')"
            # What is behind the proxy is on a loopback here too.
            command = f'env no_proxy= NO_PROXY= /usr/bin/python3 -c "{fetch}"'
            scorer = {"type": "command_scorer", "command": command}
            body = {
                "name": "listed",
                "input_context": {"problem_statement": "do it"},
                "scoring_contract": {
                    "scoring_function_parameters": [{"name": "scorer", "weight": 1.0, "scorer": scorer}]
                },
                "scoring_network": "p",
            }
            await engine.scenarios.create(Caller("scn_1"), ScenarioRequest.model_validate(body))
            await engine.scenario_runs.start(Caller("run_1"), ScenarioRunRequest(scenario_id="scn_1"))
            await engine.scenario_runs.score("run_1")
            over = await engine.scenario_runs.wait_until_settled("run_1")
            assert over.result is not None
            assert (over.result.score, over.result.network) == (1.0, "allow-list"), over.result
            await tools.work.settle("room/")
            (room,) = gate.opened
            assert room.startswith("run_1-1-0-")
            assert gate.serving == {}
            await engine.scenario_runs.cancel("run_1")
            await tools.work.settle("devbox/")

    run(tmp_path, scored, "native", egress=gate)


def test_a_policy_of_scorers_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    async def without_gateway(engine: Engine, tools: EngineContext) -> None:
        await policy(engine, allowed_hostnames=["a.test"])
        for isolation, error in (("clean", NotYet), ("live", NotSupported)):
            purpose = DevboxPurpose.model_validate({"isolation": isolation, "scoring_network": "p"})
            with pytest.raises(error):
                await engine.devboxes.create(Caller("dbx_1", purpose=purpose), DevboxRequest())
        assert tools.host.running() == set()

    run(tmp_path, without_gateway, "native")
