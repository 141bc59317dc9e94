"""Whatever comes in, the answer is clear, and is never a 5xx."""

import json

import httpx
import pytest


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b'{"name": "A", "value": ',
        b'{"name": "A", "value": NaN}',
        b"[" * 100_000,
        b'{"name": "\\ud800", "value": "x"}',
    ],
    ids=lambda content: content[:30].decode("latin-1"),
)
def test_a_body_that_is_not_the_right_json_is_400(content: bytes, api: httpx.Client) -> None:
    answer = api.post("/v1/secrets", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert set(answer.json()) == {"code", "message", "details"}


@pytest.mark.parametrize(
    ("value", "is_right"),
    [
        (60_000, True),
        (60_000.0, True),
        (None, True),
        (60_000.5, False),
        (True, False),
        ("60000", False),
        (0, False),
    ],
)
def test_integers_may_be_whole_floats_and_nothing_else(
    value: object, is_right: bool, api: httpx.Client
) -> None:
    body = {"name": "n", "content_type": "text", "ttl_ms": value}
    answer = api.post("/v1/objects", json=body)
    assert answer.status_code == (200 if is_right else 400)
    if not is_right:
        assert answer.json()["details"]["field"] == "ttl_ms"


def test_unknown_fields_are_ignored(api: httpx.Client) -> None:
    body = {"name": "n", "content_type": "text", "of_a_newer_client": {"x": 1}}
    assert api.post("/v1/objects", json=body).status_code == 200


@pytest.mark.parametrize("limit", ["0", "-1", "5001", "many", "1e9", "", "9" * 40])
def test_a_bad_limit_is_400(limit: str, api: httpx.Client) -> None:
    answer = api.get("/v1/objects", params={"limit": limit})
    assert answer.status_code == 400
    assert "limit" in answer.json()["message"]


def test_an_unknown_cursor_is_400(api: httpx.Client) -> None:
    answer = api.get("/v1/objects", params={"starting_after": "obj_unknown"})
    assert answer.status_code == 400
    assert "starting_after" in answer.json()["message"]


@pytest.mark.parametrize(
    "id", ["obj_unknown", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "..%2f..%2fapi-key", "a%00b", "x" * 5000]
)
def test_ids_that_name_nothing_are_refused(id: str, api: httpx.Client) -> None:
    answers = [
        api.get(f"/v1/objects/{id}"),
        api.get(f"/v1/objects/{id}/download"),
        api.post(f"/v1/objects/{id}/delete"),
    ]
    assert {answer.status_code for answer in answers} <= {400, 404}
    assert all("code" in answer.json() for answer in answers)


def test_an_unknown_path_is_404_and_a_wrong_verb_405(api: httpx.Client) -> None:
    assert api.get("/v1/nothing").json()["code"] == "not_found"
    answer = api.put("/v1/secrets", json={})
    assert answer.status_code == 405
    assert answer.json()["code"] == "method_not_allowed"
    assert answer.headers["allow"] == "GET, POST"


@pytest.mark.parametrize(
    ("path", "feature"),
    [
        ("/v1/devboxes/dbx_1/create_mcp_token", "MCP tokens"),
        ("/v1/mcp-configs", "MCP configs"),
        ("/v1/mcp-configs/mcp_1/delete", "MCP configs"),
        ("/v1/axons", "axons"),
        ("/v1/axons/axn_1/sql/query", "axons"),
        ("/v1/restricted_keys", "restricted keys"),
    ],
)
def test_unsupported_path_answers_501_with_its_feature(path: str, feature: str, api: httpx.Client) -> None:
    answer = api.post(path, json={})
    assert answer.status_code == 501
    assert answer.json()["details"] == {"feature": feature}
    assert answer.headers["x-should-retry"] == "false"


def test_the_request_id_comes_back(api: httpx.Client) -> None:
    assert api.get("/v1/secrets", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    assert "x-request-id" not in api.get("/v1/secrets").headers


def test_errors_are_json_with_our_three_fields(api: httpx.Client) -> None:
    for answer in (api.get("/v1/nothing"), api.get("/v1/objects/x"), api.post("/v1/objects", json={})):
        assert set(json.loads(answer.text)) == {"code", "message", "details"}
