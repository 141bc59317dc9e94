"""Doors of devboxes, with a stand-in for the gateway that notes what it is told."""

import asyncio
import base64
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.devboxes.commands import wait_for_completion
from benchyard.engine.engine import Engine
from benchyard.errors import Conflict, NotFound, NotSupported, UsageError
from benchyard.gateway.grants import Upstream
from benchyard.hosts.host import ExecRequest
from benchyard.models.devboxes import Devbox, DevboxRequest, DevboxStatus
from benchyard.models.gateway_configs import GatewayConfigChange, GatewayConfigRequest, GatewayRequest
from benchyard.models.secrets import SecretRequest
from tests.engine.yard import Scenario, run

KEY = "k3y-of-the-provider"
OPENAI = GatewayRequest(gateway="openai", secret="KEY")


class PaperDoors:
    """Opens doors that lead nowhere, and remembers them."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, Upstream, str]] = []
        self.closed: list[str] = []
        self.tokens: dict[str, str] = {}

    async def open(self, devbox_id: str, upstream: Upstream, name: str) -> tuple[str, str]:
        self.opened.append((devbox_id, upstream, name))
        token = self.tokens.setdefault(name, f"t0ken-{len(self.tokens)}-of-this-devbox")
        return f"http://127.0.0.1:4100/{name}", token

    async def close(self, devbox_id: str) -> None:
        self.closed.append(devbox_id)


def live(data: Path, scenario: Scenario, doors: PaperDoors) -> None:
    async def with_key(engine: Engine, tools: EngineContext) -> None:
        try:
            await tools.secrets.find("KEY")
        except NotFound:
            await secret(tools, "KEY", KEY)
        await scenario(engine, tools)

    run(data, with_key, doors=doors)


async def secret(tools: EngineContext, name: str, value: str) -> None:
    request = SecretRequest.model_validate({"name": name, "value": value})
    await tools.secrets.create(f"sec_{name}", request, None)


async def made(engine: Engine, id: str = "dbx_1", **fields: Any) -> Devbox:
    await engine.devboxes.create(Caller(id), DevboxRequest.model_validate(fields))
    return await engine.devboxes.wait_until_booted(id)


async def printed(tools: EngineContext, command: str, id: str = "dbx_1") -> str:
    state = await tools.host.exec(id, ExecRequest(id=f"say-{len(command)}", command=command))
    state = await wait_for_completion(tools, state)
    text, _ = await tools.host.tail(id, state.id, "stdout", 100)
    return text


GATEWAYS: dict[str, Any] = {"gateways": {"GWS": {"gateway": "openai", "secret": "KEY"}}}


def test_a_devbox_made_with_a_gateway_has_its_address_and_token_and_never_the_key(tmp_path: Path) -> None:
    doors = PaperDoors()

    async def scenario(engine: Engine, tools: EngineContext) -> None:
        launch: Any = {"launch_parameters": {"launch_commands": ['echo "$GWS" > ~/seen']}}
        devbox = await made(engine, **GATEWAYS, **launch)
        assert devbox.status is DevboxStatus.RUNNING
        ((devbox_id, upstream, name),) = doors.opened
        assert devbox_id == "dbx_1"
        assert upstream == Upstream(
            base_url="https://api.openai.com", key=KEY, prices="openai", any_path=True
        )
        told = await printed(tools, 'echo "$GWS $GWS_URL $(cat ~/seen)"')
        assert told.split() == [doors.tokens[name], f"http://127.0.0.1:4100/{name}", doors.tokens[name]]
        assert KEY not in await printed(tools, "env")
        view = devbox.view()
        assert view.gateway_specs is not None
        assert view.gateway_specs["GWS"].model_dump() == {
            "gateway_config_id": "gwc_public_openai",
            "secret_id": "sec_KEY",
        }
        assert doors.tokens[name] not in view.model_dump_json()
        await engine.devboxes.shutdown("dbx_1", force=True)
        await tools.work.settle("devbox/")
        assert doors.closed == ["dbx_1"]

    live(tmp_path, scenario, doors)


def test_neither_key_nor_token_is_in_the_database(tmp_path: Path) -> None:
    doors = PaperDoors()

    async def scenario(engine: Engine, tools: EngineContext) -> None:
        await made(engine, **GATEWAYS)
        view = await engine.devboxes.open_gateway("dbx_1", Caller("gwt_1", "hash"), OPENAI)
        assert view.token == doors.tokens["gwt_1"]
        assert view.token not in repr(view)
        await engine.devboxes.shutdown("dbx_1", force=True)

    live(tmp_path, scenario, doors)
    with sqlite3.connect(tmp_path / "db") as database:
        dump = "\n".join(database.iterdump())
    assert "gwt_1" in dump
    for hidden in (KEY, *doors.tokens.values()):
        assert hidden not in dump
        assert base64.b64encode(hidden.encode()).decode() not in dump


def test_the_same_request_gets_the_same_token(tmp_path: Path) -> None:
    doors = PaperDoors()

    async def scenario(engine: Engine, tools: EngineContext) -> None:
        await made(engine)
        ask = engine.devboxes.open_gateway
        first, second = await asyncio.gather(
            ask("dbx_1", Caller("gwt_1", "hash"), OPENAI), ask("dbx_1", Caller("gwt_1", "hash"), OPENAI)
        )
        assert first == second == await ask("dbx_1", Caller("gwt_1", "hash"), OPENAI)
        assert first.url == "http://127.0.0.1:4100/gwt_1"
        assert (first.endpoint, first.auth_mechanism.type) == ("https://api.openai.com", "bearer")
        with pytest.raises(UsageError, match="another body"):
            await ask("dbx_1", Caller("gwt_1", "other"), OPENAI)
        assert (await ask("dbx_1", Caller("gwt_2", "hash"), OPENAI)).token != first.token
        assert len((await engine.devboxes.get("dbx_1")).doors) == 2

    async def later(engine: Engine, tools: EngineContext) -> None:
        again = await engine.devboxes.open_gateway("dbx_1", Caller("gwt_1", "hash"), OPENAI)
        assert again.token == doors.tokens["gwt_1"]

    live(tmp_path, scenario, doors)
    live(tmp_path, later, doors)


def test_a_devbox_that_wakes_has_all_its_doors_again(tmp_path: Path) -> None:
    doors = PaperDoors()

    async def scenario(engine: Engine, tools: EngineContext) -> None:
        await made(engine, **GATEWAYS)
        token = await engine.devboxes.open_gateway("dbx_1", Caller("gwt_1", "hash"), OPENAI)
        await engine.devboxes.suspend("dbx_1")
        await tools.work.settle("devbox/")
        assert doors.closed == ["dbx_1"], "what is served keeps a network"
        with pytest.raises(Conflict, match="resume it first"):
            await engine.devboxes.open_gateway("dbx_1", Caller("gwt_1", "hash"), OPENAI)
        doors.opened.clear()
        await engine.devboxes.resume("dbx_1")
        devbox = await engine.devboxes.wait_until_booted("dbx_1")
        assert devbox.status is DevboxStatus.RUNNING
        assert {name for _, _, name in doors.opened} == {each.id for each in devbox.doors}
        assert await engine.devboxes.open_gateway("dbx_1", Caller("gwt_1", "hash"), OPENAI) == token
        assert "http://127.0.0.1:4100/" in await printed(tools, 'echo "$GWS_URL"')

    live(tmp_path, scenario, doors)


def test_a_secret_that_is_gone_keeps_a_new_devbox_down_but_not_one_that_wakes(tmp_path: Path) -> None:
    doors = PaperDoors()

    async def scenario(engine: Engine, tools: EngineContext) -> None:
        await made(engine, **GATEWAYS)
        await engine.devboxes.suspend("dbx_1")
        await tools.work.settle("devbox/")
        await tools.secrets.delete("sec_KEY")
        await engine.devboxes.resume("dbx_1")
        assert (await engine.devboxes.wait_until_booted("dbx_1")).status is DevboxStatus.RUNNING
        lines = await engine.logs.lines("dbx_1", None, None)
        assert any("a gateway could not be opened" in (each.message or "") for each in lines)

    live(tmp_path, scenario, doors)


def test_each_way_of_sending_a_key_and_every_header_reaches_the_gateway(tmp_path: Path) -> None:
    doors = PaperDoors()

    async def scenario(engine: Engine, tools: EngineContext) -> None:
        await made(engine)
        await secret(tools, "PAIR", "me:pass:word")
        await secret(tools, "APP", "app-key")
        configs: dict[str, dict[str, Any]] = {
            "basic": {"auth_mechanism": {"type": "basic"}},
            "header": {
                "auth_mechanism": {"type": "header", "key": "X-Key"},
                "custom_headers": [{"name": "X-App", "secret": "APP"}, {"name": "X-Plain", "value": "1"}],
            },
        }
        for name, fields in configs.items():
            body = {"name": name, "endpoint": f"https://{name}.example/base", **fields}
            request = GatewayConfigRequest.model_validate(body)
            await engine.gateway_configs.create(Caller(f"gwc_{name}"), request)
        for number, name in enumerate(configs):
            wanted = GatewayRequest(gateway=name, secret="PAIR" if name == "basic" else "sec_KEY")
            await engine.devboxes.open_gateway("dbx_1", Caller(f"gwt_{number}", "h"), wanted)
        basic, header = (upstream for _, upstream, _ in doors.opened)
        assert (basic.header, basic.prefix) == ("authorization", "Basic ")
        assert base64.b64decode(basic.key or "") == b"me:pass:word"
        assert (header.header, header.prefix, header.key) == ("X-Key", "", KEY)
        assert dict(header.headers) == {"X-App": "app-key", "X-Plain": "1"}
        assert (header.base_url, header.prices, header.any_path) == (
            "https://header.example/base",
            None,
            True,
        )
        wanted = GatewayRequest(gateway="basic", secret="KEY")
        with pytest.raises(UsageError, match="user:password"):
            await engine.devboxes.open_gateway("dbx_1", Caller("gwt_9", "h"), wanted)
        assert [each.id for each in (await engine.devboxes.get("dbx_1")).doors] == ["gwt_0", "gwt_1"]

    live(tmp_path, scenario, doors)


def test_a_config_that_changes_leaves_open_doors_where_they_lead(tmp_path: Path) -> None:
    doors = PaperDoors()

    async def scenario(engine: Engine, tools: EngineContext) -> None:
        body = {"name": "api", "endpoint": "https://old.example", "auth_mechanism": {"type": "bearer"}}
        await engine.gateway_configs.create(Caller("gwc_1"), GatewayConfigRequest.model_validate(body))
        await made(engine, gateways={"API": {"gateway": "api", "secret": "KEY"}})
        await engine.gateway_configs.update("gwc_1", GatewayConfigChange(endpoint="https://new.example"))
        await engine.devboxes.suspend("dbx_1")
        await tools.work.settle("devbox/")
        await engine.devboxes.resume("dbx_1")
        await engine.devboxes.wait_until_booted("dbx_1")
        assert [each.base_url for _, each, _ in doors.opened] == ["https://old.example"] * 2

    live(tmp_path, scenario, doors)


def test_without_a_gateway_a_token_is_refused_and_a_devbox_fails_with_the_reason(tmp_path: Path) -> None:
    async def scenario(engine: Engine, tools: EngineContext) -> None:
        await secret(tools, "KEY", KEY)
        await made(engine)
        with pytest.raises(NotSupported, match="no gateway"):
            await engine.devboxes.open_gateway("dbx_1", Caller("gwt_1"), OPENAI)
        failed = await made(engine, "dbx_2", **GATEWAYS)
        assert failed.status is DevboxStatus.FAILURE
        assert "no gateway" in (failed.state_transitions[-1].detail or "")

    run(tmp_path, scenario)
