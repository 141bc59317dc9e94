"""Gateway configs over the wire, with the official client where it has the verb."""

import secrets
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from runloop_api_client import BadRequestError, NotFoundError, PermissionDeniedError, Runloop

from benchyard.testing.server import RunningServer
from tests.api.devbox import DevboxOverHttp, create, good, refusal

BEARER: Any = {"type": "bearer"}


@pytest.fixture
def sdk(fake_server: RunningServer) -> Iterator[Runloop]:
    with Runloop(base_url=fake_server.url, bearer_token=fake_server.key, max_retries=0) as client:
        yield client


@pytest.fixture
def name() -> str:
    return f"api-{secrets.token_hex(4)}"


@pytest.fixture
def secret(api: httpx.Client) -> str:
    name = f"KEY_{secrets.token_hex(4)}"
    good(api.post("/v1/secrets", json={"name": name, "value": "a-key-of-an-api"}))
    return name


def test_the_official_client_makes_changes_lists_and_deletes_one(sdk: Runloop, name: str) -> None:
    made = sdk.gateway_configs.create(
        name=name, endpoint="https://a.example", auth_mechanism={"type": "header", "key": "X-Api-Key"}
    )
    assert made.id.startswith("gwc_")
    assert made.account_id == sdk.get("/v1/accounts/me", cast_to=dict[str, Any])["id"]
    assert (made.auth_mechanism.type, made.auth_mechanism.key) == ("header", "X-Api-Key")
    assert sdk.gateway_configs.retrieve(made.id) == made
    for found in (
        sdk.gateway_configs.list(id=made.id),
        sdk.gateway_configs.list(name=name[:-1]),
        sdk.gateway_configs.list(search=made.id),
    ):
        assert [each.id for each in found] == [made.id]
    changed = sdk.gateway_configs.update(made.id, endpoint="https://b.example", description="mine")
    assert (changed.name, changed.endpoint, changed.description) == (name, "https://b.example", "mine")
    assert changed.auth_mechanism == made.auth_mechanism
    assert sdk.gateway_configs.update(made.id, description="").description is None
    assert sdk.gateway_configs.delete(made.id).id == made.id
    with pytest.raises(NotFoundError):
        sdk.gateway_configs.retrieve(made.id)
    with pytest.raises(NotFoundError):
        sdk.gateway_configs.delete(made.id)
    with pytest.raises(NotFoundError):
        sdk.gateway_configs.update(made.id, name="x")


def test_a_name_is_taken_once(sdk: Runloop, name: str) -> None:
    made = sdk.gateway_configs.create(name=name, endpoint="https://a.example", auth_mechanism=BEARER)
    other = sdk.gateway_configs.create(name=f"{name}-2", endpoint="https://a.example", auth_mechanism=BEARER)
    with pytest.raises(BadRequestError, match=name):
        sdk.gateway_configs.create(name=name, endpoint="https://c.example", auth_mechanism=BEARER)
    with pytest.raises(BadRequestError, match="there is a gateway config called"):
        sdk.gateway_configs.update(other.id, name=name)
    assert sdk.gateway_configs.retrieve(other.id).name == f"{name}-2"
    assert sdk.gateway_configs.update(made.id, name=name).id == made.id
    with pytest.raises(BadRequestError, match="gwc_"):
        sdk.gateway_configs.create(name="gwc_x", endpoint="https://c.example", auth_mechanism=BEARER)


def test_the_same_request_makes_one_config(api: httpx.Client, name: str) -> None:
    body = {"name": name, "endpoint": "https://a.example", "auth_mechanism": BEARER}
    headers = {"x-request-id": secrets.token_hex(8)}
    first = good(api.post("/v1/gateway-configs", json=body, headers=headers))
    assert good(api.post("/v1/gateway-configs", json=body, headers=headers)) == first
    other = api.post("/v1/gateway-configs", json={**body, "name": f"{name}2"}, headers=headers)
    assert "x-request-id" in refusal(other, 400)


@pytest.mark.parametrize(
    ("name", "endpoint", "header"),
    [
        ("anthropic", "https://api.anthropic.com", "x-api-key"),
        ("openai", "https://api.openai.com", None),
        ("google", "https://generativelanguage.googleapis.com", "x-goog-api-key"),
    ],
)
def test_those_that_come_with_the_server_are_found_and_stay(
    sdk: Runloop, name: str, endpoint: str, header: str | None
) -> None:
    (found,) = [each for each in sdk.gateway_configs.list(name=name) if each.name == name]
    assert (found.endpoint, found.auth_mechanism.key, found.account_id) == (endpoint, header, None)
    with pytest.raises(PermissionDeniedError, match="comes with the server"):
        sdk.gateway_configs.delete(found.id)
    with pytest.raises(PermissionDeniedError, match="comes with the server"):
        sdk.gateway_configs.update(found.id, endpoint="https://evil.example")
    with pytest.raises(BadRequestError, match="choose another name"):
        sdk.gateway_configs.create(name=name, endpoint="https://a.example", auth_mechanism=BEARER)


def test_those_that_come_with_the_server_are_there_once_after_a_restart(server: RunningServer) -> None:
    with Runloop(base_url=server.url, bearer_token=server.key) as client:
        before = client.gateway_configs.list(limit=5000).gateway_configs
        server.restart()
        assert client.gateway_configs.list(limit=5000).gateway_configs == before
        assert {"anthropic", "openai", "google"} <= {each.name for each in before}


def test_headers_from_secrets_are_shown_by_id(sdk: Runloop, name: str, secret: str) -> None:
    made = sdk.gateway_configs.create(
        name=name,
        endpoint="https://a.example",
        auth_mechanism=BEARER,
        custom_headers=[{"name": "X-App", "secret": secret}, {"name": "X-Plain", "value": "1"}],
    )
    known = sdk.secrets.retrieve(secret)
    assert made.custom_headers is not None
    assert [(each.name, each.secret, each.value) for each in made.custom_headers] == [
        ("X-App", known.id, None),
        ("X-Plain", None, "1"),
    ]
    assert sdk.gateway_configs.update(made.id, name=f"{name}-2").custom_headers == made.custom_headers
    assert sdk.gateway_configs.update(made.id, custom_headers=[]).custom_headers == []


def test_a_header_that_is_set_twice_is_refused(api: httpx.Client, name: str) -> None:
    body = {
        "name": name,
        "endpoint": "https://a.example",
        "auth_mechanism": {"type": "header", "key": "X-Key"},
        "custom_headers": [{"name": "x-key", "value": "1"}],
    }
    assert "x-key" in refusal(api.post("/v1/gateway-configs", json=body), 400)
    made = good(api.post("/v1/gateway-configs", json={**body, "auth_mechanism": BEARER}))
    changed = api.post(f"/v1/gateway-configs/{made['id']}", json={"auth_mechanism": body["auth_mechanism"]})
    assert "twice" in refusal(changed, 400)
    unknown = {**body, "name": f"{name}2", "custom_headers": [{"name": "A", "secret": "NO_SUCH"}]}
    assert "NO_SUCH" in refusal(api.post("/v1/gateway-configs", json=unknown), 400)


@pytest.mark.parametrize(
    ("gateway", "says"),
    [
        ({"gateway": "antropic", "secret": "S"}, "did you mean"),
        ({"gateway": "gwc_nothing", "secret": "S"}, "gateway-config create"),
        ({"gateway": "anthropic", "secret": "NO_SUCH"}, "benchyard secret set"),
        ({"gateway": "anthropic", "secret": "sec_nothing"}, "sec_nothing"),
    ],
)
def test_unknown_config_or_secret_is_refused_with_a_remedy(
    devbox: DevboxOverHttp, gateway: dict[str, str], says: str
) -> None:
    assert says in refusal(devbox.post("create_gateway_token", gateway), 400)
    answer = devbox.api.post("/v1/devboxes", json={"gateways": {"GWS": gateway}})
    assert says in refusal(answer, 400)


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"gateways": {"1X": {}}}, "gateway"),
        ({"gateways": {"A B": {"gateway": "anthropic", "secret": "S"}}}, "A B"),
        ({"gateways": {"GWS": {"gateway": "anthropic"}}}, "secret"),
        ({"gateways": {"GWS": "anthropic"}}, "GWS"),
        (
            {"gateways": {"A": {"gateway": "x", "secret": "y"}}, "environment_variables": {"A_URL": "z"}},
            "A_URL",
        ),
        ({"gateways": {"A": {"gateway": "x", "secret": "y"}}, "secrets": {"A": "S"}}, "A is set"),
        (
            {"gateways": {"A": {"gateway": "x", "secret": "y"}, "A_URL": {"gateway": "x", "secret": "y"}}},
            "A_URL is set",
        ),
    ],
)
def test_gateways_that_cannot_be_are_refused(api: httpx.Client, request_: Any, says: str) -> None:
    assert says in refusal(api.post("/v1/devboxes", json=request_), 400)


def test_a_secret_that_no_header_can_carry_is_refused_before_anything_starts(api: httpx.Client) -> None:
    name = f"MULTI_{secrets.token_hex(4)}"
    good(api.post("/v1/secrets", json={"name": name, "value": "two\nlines"}))
    told = refusal(
        api.post("/v1/devboxes", json={"gateways": {"GWS": {"gateway": "openai", "secret": name}}}), 400
    )
    assert "one line" in told
    assert "two" not in told.replace("twice", "")


def test_a_devbox_that_does_not_run_gets_no_token(api: httpx.Client, secret: str) -> None:
    body = {"gateway": "openai", "secret": secret}
    assert "dbx_nothing" in refusal(api.post("/v1/devboxes/dbx_nothing/create_gateway_token", json=body), 404)
    devbox = create(api)
    good(devbox.post("shutdown"))
    assert "has ended" in refusal(devbox.post("create_gateway_token", body), 409)
