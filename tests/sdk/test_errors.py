"""Every refusal reaches the official client as the exception it expects."""

from collections.abc import Callable
from typing import Any

import pytest
from runloop_api_client import (
    APIStatusError,
    AuthenticationError,
    BadRequestError,
    ConflictError,
    InternalServerError,
    NotFoundError,
    PermissionDeniedError,
    Runloop,
)

from benchyard.testing.server import RunningServer
from tests.sdk.blocking import Loop
from tests.sdk.conftest import KINDS, connected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", ["wrong", "ak_" + "x" * 43])
def test_a_wrong_key_opens_nothing(server: RunningServer, loop: Loop, kind: str, key: str) -> None:
    class Wrong:
        url = server.url

    wrong: Any = Wrong()
    wrong.key = key
    with connected(kind, wrong, loop) as client:
        for call in (client.accounts.me, client.devboxes.list, client.devboxes.create, client.secrets.list):
            with pytest.raises(AuthenticationError):
                call()


def test_unknown_ids_are_not_found(client: Runloop) -> None:
    calls: list[Callable[[], object]] = [
        lambda: client.devboxes.retrieve("dbx_unknown" + "0" * 14),
        lambda: client.devboxes.update("dbx_unknown", name="x"),
        lambda: client.devboxes.shutdown("dbx_unknown"),
        lambda: client.devboxes.suspend("dbx_unknown"),
        lambda: client.devboxes.resume("dbx_unknown"),
        lambda: client.devboxes.keep_alive("dbx_unknown"),
        lambda: client.devboxes.retrieve_resource_usage("dbx_unknown"),
        lambda: client.devboxes.execute_async("dbx_unknown", command="true"),
        lambda: client.devboxes.read_file_contents("dbx_unknown", file_path="x"),
        lambda: client.devboxes.upload_file("dbx_unknown", path="x", file=b"x"),
        lambda: client.devboxes.logs.list("dbx_unknown"),
        lambda: client.devboxes.create_pty_tunnel("dbx_unknown"),
        lambda: client.devboxes.await_running("dbx_unknown"),
        lambda: client.devboxes.create(snapshot_id="snp_unknown"),
        lambda: client.devboxes.create(blueprint_id="bpt_unknown"),
        lambda: client.devboxes.create(blueprint_name="unknown"),
        lambda: client.objects.retrieve("obj_unknown"),
        lambda: client.secrets.retrieve("UNKNOWN"),
    ]
    for call in calls:
        with pytest.raises(NotFoundError) as refused:
            call()
        body: Any = refused.value.body
        assert body["code"] == "not_found"
        assert "nknown" in body["message"] or "NKNOWN" in body["message"]


def test_malformed_id_of_a_devbox_is_a_bad_request(client: Runloop) -> None:
    with pytest.raises(BadRequestError) as refused:
        client.devboxes.retrieve("dbx_unknown")
    body: Any = refused.value.body
    assert body["code"] == "malformed_id"


def test_malformed_field_is_a_bad_request_that_names_it(client: Runloop, box: str) -> None:
    wrong: Any = 5
    calls: dict[str, Callable[[], object]] = {
        "name": lambda: client.devboxes.create(name=wrong),
        "metadata": lambda: client.devboxes.update(box, metadata=wrong),
        "environment_variables": lambda: client.devboxes.create(environment_variables=wrong),
        "environment variable": lambda: client.devboxes.create(environment_variables={"A-B": "x"}),
        "command": lambda: client.devboxes.execute_async(box, command=""),
        "NUL": lambda: client.devboxes.execute_async(box, command="a\0b"),
        "shell_name": lambda: client.devboxes.execute_async(box, command="true", shell_name="a/b"),
        "file_path": lambda: client.devboxes.write_file_contents(box, file_path="", contents=""),
        "contents": lambda: client.devboxes.write_file_contents(box, file_path="x", contents=wrong),
        "content_type": lambda: client.objects.create(name="x", content_type=wrong),
        "at most one": lambda: client.devboxes.create(snapshot_id="a", blueprint_id="b"),
        "none, host": lambda: client.devboxes.create(metadata={"benchyard.network": "wifi"}),
    }
    for says, call in calls.items():
        with pytest.raises(BadRequestError, match=says):
            call()


def test_states_that_forbid_it_are_conflicts_without_retries(client: Runloop) -> None:
    made = client.devboxes.create()
    client.devboxes.shutdown(made.id)
    with pytest.raises(ConflictError, match="has ended") as refused:
        client.devboxes.execute_async(made.id, command="true")
    assert refused.value.response.headers["x-should-retry"] == "false"
    assert refused.value.response.request.headers["x-stainless-retry-count"] == "0"


def test_a_link_that_was_changed_is_forbidden(client: Runloop) -> None:
    made = client.objects.create(name="x", content_type="text")
    assert made.upload_url is not None
    with pytest.raises(PermissionDeniedError, match="signature"):
        client.put(made.upload_url[:-1] + ("0" if made.upload_url[-1] != "0" else "1"), cast_to=object)
    client.objects.delete(made.id)


def test_unsupported_feature_answers_501_with_its_name(client: Runloop, box: str) -> None:
    calls: dict[str, Callable[[], object]] = {
        "MCP tokens": lambda: client.devboxes.create_mcp_token(box, mcp_config="m", secret="s"),
        "evictions": lambda: list(client.devboxes.watch_evictions()),
        "axons": lambda: client.axons.create(),
        "MCP configs": lambda: client.mcp_configs.list(),
        "restricted keys": lambda: client.restricted_keys.create(),
    }
    for feature, call in calls.items():
        with pytest.raises(InternalServerError, match=feature) as refused:
            call()
        assert refused.value.status_code == 501
        assert refused.value.response.request.headers["x-stainless-retry-count"] == "0"


def test_an_invalid_path_is_reported(client: Runloop) -> None:
    with pytest.raises(NotFoundError, match="no such path"):
        client.get("/v1/nothing", cast_to=object)
    with pytest.raises(APIStatusError) as refused:
        client.delete("/v1/devboxes", cast_to=object)
    assert refused.value.status_code == 405
