"""A blueprint's `network_policy_id` says what its build reaches: its Dockerfile, and the steps on top."""

import socket
from pathlib import Path
from typing import Any

import pytest

from benchyard.engine.context import EngineContext
from benchyard.engine.engine import Engine
from benchyard.engine.network.policies import PROXY_PORT
from benchyard.errors import NotSupported, NotYet, UsageError
from benchyard.hosts import leaks
from benchyard.images.builders.base import BuildRecipe, BuiltImage, Log
from benchyard.images.store import ImageIdentity, ImageStore
from benchyard.models.blueprints import BlueprintStatus
from benchyard.models.network_policies import NetworkPolicyChange
from tests.engine.images.test_blueprints import SmallBuilder, ended, made, said
from tests.engine.network.test_egress import FETCH, Gate, policy, website
from tests.engine.yard import run

_S = BlueprintStatus
# What is behind the proxy is on a loopback here too.
_FETCH = "no_proxy= NO_PROXY= python3 /tmp/fetch.py http://127.0.0.1:{port}/"
_FILES = {"/tmp/fetch.py": FETCH}


class BuilderWithDoors(SmallBuilder):
    """Has a door served while it builds, as an engine that can does."""

    has_doors = True

    def __init__(self, images: ImageStore) -> None:
        super().__init__(images)
        self.gate: Gate | None = None
        self.served: list[str] = []

    async def build(self, recipe: BuildRecipe, identity: ImageIdentity, log: Log) -> BuiltImage:
        if recipe.door is None:
            return await super().build(recipe, identity, log)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            async with recipe.door.serve(listener.fileno()):
                assert self.gate is not None
                self.served = list(self.gate.serving)
                return await super().build(recipe, identity, log)


def listed(port: int) -> dict[str, Any]:
    return {"allowed_cidrs": [{"cidr": "127.0.0.1/32", "ports": [{"port": port}]}]}


def test_steps_reach_what_the_policy_lists_and_nothing_else(tmp_path: Path) -> None:
    gate = Gate()

    async def scenario(engine: Engine, tools: EngineContext) -> None:
        async with website() as open_port, website() as closed_port:
            allowed = await policy(engine, **listed(open_port))
            commands = [_FETCH.format(port=open_port), _FETCH.format(port=closed_port)]
            await made(engine, network_policy_id=allowed, file_mounts=_FILES, system_setup_commands=commands)
            blueprint = await ended(engine)
            lines = (await said(engine)).splitlines()
            assert blueprint.status is _S.BUILD_COMPLETE, lines
            assert lines[lines.index(f"$ {commands[0]}") + 1] == "page", lines
            assert lines[lines.index(f"$ {commands[1]}") + 1] == "403", lines
            assert blueprint.view().parameters.network_policy_id == allowed
        assert gate.serving == {}, "the door is closed with the build"
        assert tools.host.running() == set()

    run(tmp_path, scenario, "native", egress=gate, build_network="host")
    assert leaks.find(tmp_path) == []


@pytest.mark.parametrize(("allow_all", "is_alone"), [(False, True), (True, False)])
def test_a_policy_decides_instead_of_the_server(tmp_path: Path, allow_all: bool, is_alone: bool) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        named = await policy(engine, allow_all=allow_all)
        await made(engine, network_policy_id=named, system_setup_commands=["readlink /proc/self/ns/net"])
        assert (await ended(engine)).status is _S.BUILD_COMPLETE
        own = str(Path("/proc/self/ns/net").readlink())
        assert (own in await said(engine)) is not is_alone

    run(tmp_path, scenario, "native", build_network="host" if is_alone else "none")


def test_a_dockerfile_gets_a_door_that_is_served_while_it_builds(tmp_path: Path) -> None:
    gate = Gate()

    async def scenario(engine: Engine, tools: EngineContext) -> None:
        builder = tools.builder
        assert isinstance(builder, BuilderWithDoors)
        builder.gate = gate
        allowed = await policy(engine, allowed_hostnames=["example.test"])
        request = {"network_policy_id": allowed, "dockerfile": "FROM x\n"}
        await made(engine, **request)
        # What the build may reach is what the policy said when it was asked for.
        await engine.network_policies.update(allowed, NetworkPolicyChange(allowed_hostnames=["other.test"]))
        assert (await ended(engine)).status is _S.BUILD_COMPLETE
        [recipe] = builder.recipes
        assert recipe.network.value == "none"
        assert recipe.door is not None
        assert recipe.door.port == PROXY_PORT
        assert "example.test" in recipe.door.rules
        assert recipe.door.variables["http_proxy"] == f"http://127.0.0.1:{PROXY_PORT}"
        assert builder.served == ["bpt_1-1-dockerfile"]
        assert gate.serving == {}

    run(tmp_path, scenario, "native", BuilderWithDoors, egress=gate)


def test_unenforceable_policy_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        allowed = await policy(engine, allowed_hostnames=["example.test"])
        with pytest.raises(NotSupported, match="install buildah"):
            await made(engine, network_policy_id=allowed, dockerfile="FROM x\n")
        with pytest.raises(UsageError, match="no network policy") as refused:
            await made(engine, network_policy_id="npol_none")
        assert refused.value.details["field"] == "network_policy_id"
        assert await engine.blueprints.records.all({}) == []

    run(tmp_path, scenario, "native", SmallBuilder, egress=Gate())


def test_lists_need_a_gateway(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        allowed = await policy(engine, allowed_hostnames=["example.test"])
        with pytest.raises(NotYet, match="gateway"):
            await made(engine, network_policy_id=allowed, system_setup_commands=["true"])

    run(tmp_path, scenario, "native", BuilderWithDoors)
