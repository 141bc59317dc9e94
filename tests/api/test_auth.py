"""Only who has a key comes in."""

import httpx
import pytest


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer wrong"},
        {"authorization": "Basic d3Jvbmc6d3Jvbmc="},
        {"authorization": b"Bearer \xff\xfe"},
    ],
    ids=str,
)
def test_no_key_or_a_wrong_one_is_401(header: dict[str, str], stranger: httpx.Client) -> None:
    for path in ("/v1/accounts/me", "/v1/secrets", "/v1/no/such/path"):
        answer = stranger.get(path, headers=header)
        assert answer.status_code == 401
        assert answer.json()["code"] == "unauthorized"
        assert answer.headers["www-authenticate"] == "Bearer"


def test_a_stranger_changes_nothing(stranger: httpx.Client, api: httpx.Client) -> None:
    body = {"name": "STRANGER", "value": "x"}
    assert stranger.post("/v1/secrets", json=body).status_code == 401
    assert api.get("/v1/secrets/STRANGER").status_code == 404


def test_a_key_in_another_case_of_the_scheme_is_taken(api: httpx.Client) -> None:
    key = api.headers["authorization"].removeprefix("Bearer ")
    assert api.get("/v1/accounts/me", headers={"authorization": f"bearer {key}"}).status_code == 200


def test_health_and_schema_ask_for_no_key(stranger: httpx.Client) -> None:
    assert stranger.get("/healthz").json()["status"] == "ok"
    assert stranger.head("/healthz").status_code == 200
    assert stranger.get("/openapi.json").json()["openapi"].startswith("3.")
    assert stranger.get("/docs").status_code == 200


def test_a_path_that_only_begins_like_an_open_one_is_closed(stranger: httpx.Client) -> None:
    for path in ("/healthz/", "/healthzz", "/openapi.json/x", "/docsx", "/v1/../v1/secrets"):
        assert stranger.get(path).status_code == 401
