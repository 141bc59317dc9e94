"""Blueprints over plain HTTP: the stream of a build's log, and what the wire does not show."""

import json
import secrets
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from benchyard.testing.server import RunningServer
from tests.api.devbox import eventually, good, refusal


@pytest.fixture
def native(server: RunningServer) -> Iterator[httpx.Client]:
    """A client of the server with the native driver."""
    headers = {"authorization": f"Bearer {server.key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        yield client


def streamed(api: httpx.Client, id: str, offset: int = 0) -> list[dict[str, Any]]:
    """Every line of a build's log, to its end."""
    with api.stream("GET", f"/v1/blueprints/{id}/logs/stream", params={"offset": offset}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        return [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]


def test_a_log_is_streamed_live_and_again_from_any_line(native: httpx.Client) -> None:
    body = {"name": f"s-{secrets.token_hex(4)}", "system_setup_commands": ["echo one", "sleep 0.5; echo two"]}
    id = good(native.post("/v1/blueprints", json=body))["id"]
    lines = streamed(native, id)
    assert [line["message"] for line in lines][-1] == "build complete"
    eventually(lambda: good(native.get(f"/v1/blueprints/{id}"))["status"] == "build_complete", "the build")
    assert streamed(native, id) == lines
    assert streamed(native, id, lines[1]["offset"]) == lines[2:]
    assert streamed(native, id, lines[-1]["offset"]) == []
    listed = good(native.get(f"/v1/blueprints/{id}/logs"))["logs"]
    assert [line["message"] for line in listed] == [line["message"] for line in lines]
    assert refusal(native.get(f"/v1/blueprints/{id}/logs/stream", params={"offset": "-1"}), 400)
    assert refusal(native.get("/v1/blueprints/bpt_unknown/logs/stream"), 404)
    good(native.post(f"/v1/blueprints/{id}/delete"))
    assert good(native.get(f"/v1/blueprints/{id}/logs"))["logs"] == []


def test_tokens_and_passwords_are_neither_shown_nor_kept_readable(
    native: httpx.Client, server: RunningServer
) -> None:
    token, password = (secrets.token_hex(12) for _ in range(2))
    body = {
        "name": f"t-{secrets.token_hex(4)}",
        "code_mounts": [{"repo_owner": "o", "repo_name": "r", "token": token}],
        "services": [{"name": "db", "image": "i", "credentials": {"username": "u", "password": password}}],
        "metadata": {"purpose": "hiding"},
        "base_blueprint_id": None,
    }
    made = native.post("/v1/blueprints", json=body)
    id = good(made)["id"]
    shown = made.text + native.get(f"/v1/blueprints/{id}").text + native.get("/v1/blueprints").text
    assert token not in shown
    assert password not in shown
    for file in server.data.glob("benchyard.db*"):
        content = file.read_bytes()
        assert token.encode() not in content
        assert password.encode() not in content
    assert "purpose" in good(native.get("/v1/blueprints/metadata/keys"))["keys"]
    assert good(native.get("/v1/blueprints/metadata/keys/purpose/values"))["values"] == ["hiding"]
    found = good(native.get("/v1/blueprints", params={"metadata[purpose]": "hiding"}))["blueprints"]
    assert [each["id"] for each in found] == [id]
    good(native.post(f"/v1/blueprints/{id}/delete"))


def test_a_server_whose_driver_has_no_images_says_so(api: httpx.Client) -> None:
    assert "native driver" in refusal(api.post("/v1/blueprints", json={"name": "x"}), 400)
    assert good(api.get("/v1/blueprints")) == {"blueprints": [], "has_more": False, "total_count": 0}
    assert good(api.get("/v1/blueprints/list_public"))["blueprints"] == []
    assert refusal(api.get("/v1/blueprints", params={"status": "nonsense"}), 400)
