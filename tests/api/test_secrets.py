"""Secrets go in and never come out."""

import httpx
import pytest
from runloop_api_client import NotFoundError, Runloop

from benchyard.testing.server import RunningServer


def test_the_official_client_keeps_secrets(fake_server: RunningServer) -> None:
    client = Runloop(base_url=fake_server.url, bearer_token=fake_server.key)
    made = client.secrets.create(name="SDK_SECRET", value="one")
    assert client.secrets.retrieve("SDK_SECRET") == made
    assert client.secrets.update("SDK_SECRET", value="two").update_time_ms >= made.update_time_ms
    listed = client.secrets.list(limit=5000)
    assert made.id in [each.id for each in listed.secrets]
    assert listed.total_count == len(listed.secrets)
    assert client.secrets.delete("SDK_SECRET").id == made.id
    with pytest.raises(NotFoundError):
        client.secrets.retrieve("SDK_SECRET")


def test_a_secret_is_found_by_id_too(api: httpx.Client) -> None:
    made = api.post("/v1/secrets", json={"name": "BY_ID", "value": "x"}).json()
    assert api.get(f"/v1/secrets/id/{made['id']}").json() == made
    assert api.post(f"/v1/secrets/id/{made['id']}/update", json={"value": "y"}).status_code == 200
    assert api.post(f"/v1/secrets/id/{made['id']}/delete").status_code == 200
    assert api.get(f"/v1/secrets/id/{made['id']}").status_code == 404


def test_a_value_is_in_no_answer_and_not_on_disk(fake_server: RunningServer, api: httpx.Client) -> None:
    value = "a-value-that-nobody-sees"
    answers = [
        api.post("/v1/secrets", json={"name": "HIDDEN", "value": value}),
        api.get("/v1/secrets/HIDDEN"),
        api.get("/v1/secrets"),
        api.post("/v1/secrets", json={"name": "HIDDEN", "value": value}),
    ]
    assert all(value not in answer.text for answer in answers)
    assert all(
        value.encode() not in file.read_bytes() for file in fake_server.data.rglob("*") if file.is_file()
    )
    assert value not in fake_server.log


def test_a_name_is_taken_once(api: httpx.Client) -> None:
    assert api.post("/v1/secrets", json={"name": "TAKEN", "value": "1"}).status_code == 200
    answer = api.post("/v1/secrets", json={"name": "TAKEN", "value": "2"})
    assert answer.status_code == 400
    assert "TAKEN" in answer.json()["message"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "with space", "value": "x"}, "name"),
        ({"name": "1ST", "value": "x"}, "name"),
        ({"name": "NEW\n", "value": "x"}, "name"),
        ({"name": "../../etc", "value": "x"}, "name"),
        ({"name": "", "value": "x"}, "name"),
        ({"name": 5, "value": "x"}, "name"),
        ({"name": "A" * 300, "value": "x"}, "name"),
        ({"name": "OK"}, "value"),
        ({"name": "OK", "value": None}, "value"),
        ({"name": "OK", "value": 5}, "value"),
        ({"name": "OK", "value": "a\0b"}, "value"),
        ({"name": "OK", "value": "x" * 70_000}, "value"),
    ],
)
def test_bad_secrets_are_refused_by_field(body: dict[str, object], field: str, api: httpx.Client) -> None:
    answer = api.post("/v1/secrets", json=body)
    assert answer.status_code == 400
    assert answer.json()["details"]["field"] == field
    assert api.get("/v1/secrets/OK").status_code == 404
