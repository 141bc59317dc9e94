"""Create calls that cannot be served: a clear answer, and nothing made."""

from typing import Any

import httpx
import pytest

from tests.api.devbox import good, refusal


def count(api: httpx.Client) -> int:
    total: int = good(api.get("/v1/devboxes", params={"limit": 1}))["total_count"]
    return total


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"snapshot_id": "snp_unknown"}, 404, "no snapshot"),
        ({"blueprint_id": "bpt_unknown"}, 400, "native driver"),
        ({"blueprint_name": "unknown"}, 400, "native driver"),
        ({"blueprint_id": "a", "snapshot_id": "b"}, 400, "at most one"),
        ({"secrets": {"A": "NO_SUCH_SECRET"}}, 400, "NO_SUCH_SECRET"),
        ({"mounts": [{"type": "object_mount", "object_id": "obj_x", "object_path": "/a"}]}, 404, "obj_x"),
        ({"mounts": [{"type": "agent_mount", "agent_name": "x"}]}, 400, "no agent is called 'x'"),
        ({"mounts": [{"type": "agent_mount", "agent_id": "agt_x"}]}, 400, "agt_x"),
        ({"mounts": [{"type": "agent_mount"}]}, 400, "agent_id or agent_name"),
        ({"mounts": [{"type": "agent_mount", "agent_name": "nop"}]}, 400, "nothing to mount"),
        ({"mounts": [{"type": "broker_mount", "axon_id": "x"}]}, 501, "broker_mount"),
        ({"tunnel": {"auth_mode": "closed"}}, 400, "tunnel.auth_mode"),
        ({"launch_parameters": {"keep_alive_time_seconds": 172_801}}, 400, "172800"),
        ({"launch_parameters": {"resource_size_request": "CUSTOM_SIZE"}}, 400, "custom_cpu_cores"),
        ({"metadata": {"benchyard.network": "wifi"}}, 400, "none, host"),
        ({"metadata": ["a"]}, 400, "metadata"),
        ({"name": 5}, 400, "name"),
        ({"environment_variables": {"A": 1}}, 400, "environment_variables"),
        ({"mounts": [{"type": "what"}]}, 400, "mounts"),
        ([], 400, ""),
    ],
)
def test_a_request_that_cannot_be_served_makes_nothing(
    api: httpx.Client, body: Any, status: int, says: str
) -> None:
    before = count(api)
    assert says in refusal(api.post("/v1/devboxes", json=body), status)
    assert count(api) == before


def test_a_body_that_is_not_json_makes_nothing(api: httpx.Client) -> None:
    before = count(api)
    headers = {"content-type": "application/json"}
    assert "JSON" in refusal(api.post("/v1/devboxes", content=b'{"name": ', headers=headers), 400)
    assert count(api) == before


def test_whole_floats_are_numbers_too(api: httpx.Client) -> None:
    made = good(api.post("/v1/devboxes", json={"launch_parameters": {"keep_alive_time_seconds": 60.0}}))
    assert made["launch_parameters"]["keep_alive_time_seconds"] == 60
    good(api.post(f"/v1/devboxes/{made['id']}/shutdown"))


def test_features_to_come_answer_501(api: httpx.Client) -> None:
    told = refusal(api.post("/v1/devboxes/dbx_1/create_mcp_token", json={}), 501)
    assert "not served yet" in told
    assert "gateway-config create" in told
