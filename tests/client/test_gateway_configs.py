"""What the verbs of gateway configs ask for."""

from typing import Any

from benchyard.client import Client
from benchyard.models.gateway_configs import AuthMechanism
from tests.client.stub import Answer, in_turn, stub

BEARER: dict[str, Any] = {"type": "bearer"}
VIEW = {
    "id": "gwc_1",
    "name": "api",
    "endpoint": "https://a.example",
    "auth_mechanism": BEARER,
    "create_time_ms": 1,
}
TOKEN = {
    "token": "t-1",
    "url": "http://127.0.0.1:4100/gwt_1",
    "devbox_id": "dbx_1",
    "endpoint": "https://a.example",
    "gateway_config_id": "gwc_1",
    "auth_mechanism": BEARER,
}


def test_each_verb_asks_for_what_the_wire_has() -> None:
    page = {"gateway_configs": [VIEW], "has_more": False}
    script = in_turn(Answer(VIEW), Answer(VIEW), Answer(VIEW), Answer(page), Answer(VIEW), Answer(TOKEN))
    with stub(script) as server, Client(server.server) as client:
        configs = client.gateway_configs
        configs.create(name="api", endpoint="https://a.example", auth_mechanism=AuthMechanism(type="bearer"))
        assert configs.get("gwc_1").name == "api"
        configs.update("gwc_1", description="", custom_headers=[])
        assert [config.id for config in configs.list(name="api")] == ["gwc_1"]
        configs.delete("gwc_1")
        token = configs.create_token("dbx_1", "api", "KEY")
    assert (token.token, "t-1" in repr(token)) == ("t-1", False)
    assert [(each.method, each.path) for each in server.asked] == [
        ("POST", "/v1/gateway-configs"),
        ("GET", "/v1/gateway-configs/gwc_1"),
        ("POST", "/v1/gateway-configs/gwc_1"),
        ("GET", "/v1/gateway-configs"),
        ("POST", "/v1/gateway-configs/gwc_1/delete"),
        ("POST", "/v1/devboxes/dbx_1/create_gateway_token"),
    ]
    assert server.asked[0].json == {
        "name": "api",
        "endpoint": "https://a.example",
        "auth_mechanism": {"type": "bearer"},
    }
    assert server.asked[2].json == {"description": "", "custom_headers": []}
    assert server.asked[3].query["name"] == "api"
    assert server.asked[5].json == {"gateway": "api", "secret": "KEY"}
