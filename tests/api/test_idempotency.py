"""A request that comes twice is done once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from benchyard.testing.server import RunningServer

BODY: dict[str, object] = {"name": "twice", "content_type": "text", "metadata": {"a": "1", "b": "2"}}


def once(api: httpx.Client, id: str, body: dict[str, object], path: str = "/v1/objects") -> httpx.Response:
    return api.post(path, json=body, headers={"x-request-id": id})


def test_the_same_request_gets_the_same_thing(api: httpx.Client) -> None:
    first = once(api, "same", BODY).json()
    reordered: dict[str, object] = {"metadata": {"b": "2", "a": "1"}, "content_type": "text", "name": "twice"}
    assert once(api, "same", reordered).json()["id"] == first["id"]


def test_the_same_id_with_another_body_is_400(api: httpx.Client) -> None:
    once(api, "other-body", BODY)
    assert once(api, "other-body", {**BODY, "name": "else"}).status_code == 400


def test_another_id_or_none_makes_another_thing(api: httpx.Client) -> None:
    made = [once(api, "one", BODY), once(api, "two", BODY), api.post("/v1/objects", json=BODY)]
    made.append(api.post("/v1/objects", json=BODY))
    assert len({each.json()["id"] for each in made}) == 4


def test_another_key_has_ids_of_its_own(api: httpx.Client) -> None:
    secret = api.post("/v1/apikeys", json={"name": "other"}).json()["key_secret"]
    mine = once(api, "shared", BODY).json()
    theirs = api.post(
        "/v1/objects", json=BODY, headers={"x-request-id": "shared", "authorization": f"Bearer {secret}"}
    ).json()
    assert mine["id"] != theirs["id"]


def test_requests_at_once_make_one_thing(api: httpx.Client) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: once(api, "at-once", BODY), range(8)))
    assert [answer.status_code for answer in answers] == [200] * 8
    assert len({answer.json()["id"] for answer in answers}) == 1


def test_a_key_that_is_asked_for_twice_is_one_key(api: httpx.Client) -> None:
    first = once(api, "key", {"name": "k"}, "/v1/apikeys").json()
    assert once(api, "key", {"name": "k"}, "/v1/apikeys").json() == first


def test_a_secret_that_is_asked_for_twice_is_no_conflict(api: httpx.Client) -> None:
    first = once(api, "secret", {"name": "TWICE", "value": "v"}, "/v1/secrets").json()
    assert once(api, "secret", {"name": "TWICE", "value": "v"}, "/v1/secrets").json() == first
    assert once(api, "secret", {"name": "TWICE", "value": "w"}, "/v1/secrets").status_code == 400


@pytest.mark.parametrize("end", ["restart", "kill"])
def test_requests_are_remembered_across_a_restart(end: str, tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", ["--driver", "fake"]) as server:
        headers = {"authorization": f"Bearer {server.key}"}
        with httpx.Client(base_url=server.url, headers=headers) as api:
            first = once(api, "lasting", BODY).json()["id"]
            key = once(api, "lasting", {"name": "k"}, "/v1/apikeys").json()
        if end == "kill":
            server.kill()
            server.start()
        else:
            server.restart()
        with httpx.Client(base_url=server.url, headers=headers) as api:
            assert once(api, "lasting", BODY).json()["id"] == first
            assert once(api, "lasting", {"name": "k"}, "/v1/apikeys").json() == key
            assert once(api, "lasting", {**BODY, "name": "x"}).status_code == 400
