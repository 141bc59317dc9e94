"""What can be a gateway config, and what cannot."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from benchyard.models.gateway_configs import GatewayConfig, GatewayConfigChange, GatewayConfigRequest

GOOD: dict[str, Any] = {
    "name": "tracker",
    "endpoint": "https://api.example.com",
    "auth_mechanism": {"type": "bearer"},
}


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://api.example.com",
        "http://127.0.0.1:8080",
        "https://api.example.com:8443/v2/",
        "HTTPS://API.EXAMPLE.COM",
        "http://[::1]:8080/base",
    ],
)
def test_an_endpoint_is_kept_as_it_is(endpoint: str) -> None:
    assert GatewayConfigRequest.model_validate({**GOOD, "endpoint": endpoint}).endpoint == endpoint


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "api.example.com",
        "ftp://api.example.com",
        "file:///etc/passwd",
        "https://",
        "https:///path",
        "https://user:password@api.example.com",
        "https://token@api.example.com",
        "https://api.example.com?key=1",
        "https://api.example.com/#here",
        "https://api.example.com\\@evil.example",
        "https://api.example.com/a b",
        "https://api.example.com\r\nX-Evil: 1",
        "https://api.example.com:0",
        "https://api.example.com:99999",
        "https://api.example.com:port",
        "https://[::1",
        "https://api.exämple.com",
        "https://" + "a" * 3000,
    ],
)
def test_invalid_endpoint_is_refused_without_repeating_a_password(endpoint: str) -> None:
    with pytest.raises(ValidationError) as refused:
        GatewayConfigRequest.model_validate({**GOOD, "endpoint": endpoint})
    (problem,) = refused.value.errors(include_input=False)
    assert problem["loc"] == ("endpoint",)
    assert "password" not in problem["msg"]


@pytest.mark.parametrize(
    "mechanism",
    [
        {"type": "header"},
        {"type": "bearer", "key": "x-api-key"},
        {"type": "basic", "key": "x-api-key"},
        {"type": "digest"},
        {"type": "header", "key": "two words"},
        {"type": "header", "key": "x\r\ny"},
        {"type": "header", "key": ""},
        {"type": "header", "key": "Host"},
        {"type": "header", "key": "transfer-encoding"},
        {},
        "bearer",
    ],
)
def test_a_key_is_sent_in_one_of_three_ways(mechanism: Any) -> None:
    with pytest.raises(ValidationError):
        GatewayConfigRequest.model_validate({**GOOD, "auth_mechanism": mechanism})


@pytest.mark.parametrize(
    "header",
    [
        {"name": "X-A"},
        {"name": "X-A", "value": "1", "secret": "S"},
        {"name": "X A", "value": "1"},
        {"name": "X-A", "value": "1\r\nX-B: 2"},
        {"name": "X-A", "value": "ä"},
        {"name": "Content-Length", "value": "1"},
        {"name": "", "value": "1"},
        {"name": "X-A", "secret": ""},
    ],
)
def test_a_header_is_a_name_and_either_a_value_or_a_secret(header: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        GatewayConfigRequest.model_validate({**GOOD, "custom_headers": [header]})
    with pytest.raises(ValidationError):
        GatewayConfigChange.model_validate({"custom_headers": [header]})


def test_eight_headers_are_the_most() -> None:
    headers = [{"name": f"X-{number}", "value": "1"} for number in range(9)]
    kept = GatewayConfigRequest.model_validate({**GOOD, "custom_headers": headers[:8]}).custom_headers
    assert kept is not None
    assert len(kept) == 8
    with pytest.raises(ValidationError):
        GatewayConfigRequest.model_validate({**GOOD, "custom_headers": headers})


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\0", "a" * 257])
def test_a_name_is_one_line_that_is_not_blank(name: str) -> None:
    with pytest.raises(ValidationError):
        GatewayConfigRequest.model_validate({**GOOD, "name": name})


def test_public_config_has_no_account() -> None:
    fields = {**GOOD, "id": "gwc_1", "create_time_ms": 5}
    own = GatewayConfig.model_validate_json(json.dumps(fields))
    assert own.view("acc_1").account_id == "acc_1"
    public = own.model_copy(update={"is_public": True})
    assert public.view("acc_1").account_id is None
    assert (own.columns().status, public.columns().status) == ("own", "public")
