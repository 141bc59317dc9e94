"""Network policies through the official client: kept under names, merged by updates, obeyed by devboxes."""

import uuid
from pathlib import Path
from typing import Any

import pytest
from runloop_api_client import APIStatusError, BadRequestError, NotFoundError, Runloop, RunloopSDK

from tests.sdk.boxes import output


def unique(of: str = "policy") -> str:
    return f"{of}-{uuid.uuid4().hex[:8]}"


def test_a_policy_is_made_looked_up_and_deleted(client: Runloop) -> None:
    name = unique()
    made = client.network_policies.create(
        name=name,
        description="for packages",
        allowed_hostnames=["github.com", "*.npmjs.org"],
        allowed_cidrs=[{"cidr": "10.12.0.0/16", "ports": [{"port": 443}, {"port": 8000, "end_port": 8010}]}],
        allow_agent_gateway=True,
    )
    assert made.id.startswith("npol_")
    assert (made.name, made.description) == (name, "for packages")
    assert made.create_time_ms == made.update_time_ms
    egress = made.egress
    assert egress.allowed_hostnames == ["github.com", "*.npmjs.org"]
    assert [rule.port for rule in egress.allowed_cidrs[0].ports or []] == [443, 8000]
    assert (egress.allow_all, egress.allow_agent_gateway, egress.allow_mcp_gateway) == (False, True, False)
    assert client.network_policies.retrieve(made.id).to_dict() == made.to_dict()
    assert client.network_policies.delete(made.id).id == made.id
    with pytest.raises(NotFoundError, match=made.id):
        client.network_policies.retrieve(made.id)
    with pytest.raises(NotFoundError, match=made.id):
        client.network_policies.delete(made.id)


def test_an_update_changes_what_it_gives_and_nothing_else(client: Runloop) -> None:
    made = client.network_policies.create(name=unique(), allowed_hostnames=["a.test"], allow_mcp_gateway=True)
    changed = client.network_policies.update(made.id, allowed_hostnames=["b.test"], description="new")
    assert changed.egress.allowed_hostnames == ["b.test"]
    assert changed.egress.allow_mcp_gateway
    assert (changed.name, changed.description) == (made.name, "new")
    assert changed.update_time_ms >= made.update_time_ms
    opened = client.network_policies.update(made.id, allow_all=True, name=unique("renamed"))
    assert opened.egress.allow_devbox_to_devbox
    assert opened.name.startswith("renamed")
    with pytest.raises(NotFoundError):
        client.network_policies.update("npol_unknown", allow_all=True)
    client.network_policies.delete(made.id)


def test_names_are_unique(client: Runloop) -> None:
    first = client.network_policies.create(name=unique())
    second = client.network_policies.create(name=unique())
    with pytest.raises(BadRequestError, match=first.name):
        client.network_policies.create(name=first.name)
    with pytest.raises(BadRequestError, match=first.name):
        client.network_policies.update(second.id, name=first.name)
    assert client.network_policies.update(first.id, name=first.name).name == first.name
    for each in (first, second):
        client.network_policies.delete(each.id)


def test_policies_are_listed_by_pages_and_found(client: Runloop) -> None:
    prefix = unique("listed")
    made = [client.network_policies.create(name=f"{prefix}-{number}").id for number in range(3)]
    assert [
        network_policy.id for network_policy in client.network_policies.list(name=prefix, limit=2)
    ] == made[::-1]
    assert [network_policy.id for network_policy in client.network_policies.list(search=f"{prefix}-1")] == [
        made[1]
    ]
    assert [network_policy.id for network_policy in client.network_policies.list(id=made[0])] == [made[0]]
    page = client.network_policies.list(search=prefix, limit=1)
    assert (page.has_more, page.total_count) == (True, 3)
    for each in made:
        client.network_policies.delete(each)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": ""}, "name"),
        ({"name": " "}, "name"),
        ({"allowed_hostnames": ["*"]}, "hostname"),
        ({"allowed_hostnames": ["10.0.0.1"]}, "allowed_cidrs"),
        ({"allowed_hostnames": ["a.test"] * 501}, "allowed_hostnames"),
        ({"allowed_cidrs": [{"cidr": "10.0.0.1/8"}]}, "CIDR"),
        ({"allowed_cidrs": [{"cidr": "10.0.0.0/8", "ports": [{"port": 0}]}]}, "port"),
        ({"allowed_cidrs": [{"cidr": "10.0.0.0/8", "ports": [{"port": 2, "end_port": 1}]}]}, "end_port"),
        ({"allow_all": "yes"}, "allow_all"),
    ],
)
def test_invalid_policy_is_refused(client: Runloop, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequestError, match=words):
        client.network_policies.create(**{"name": unique(), **fields})


def test_a_policy_as_an_object(sdk: RunloopSDK) -> None:
    made = sdk.network_policy.create(name=unique(), allowed_hostnames=["a.test"])
    assert made.get_info().egress.allowed_hostnames == ["a.test"]
    made.update(allow_all=True)
    assert made.get_info().egress.allow_all
    assert made.id in [each.id for each in sdk.network_policy.list()]
    made.delete()


def test_devboxes_obey_their_policy(client: Runloop) -> None:
    policy = client.network_policies.create(name=unique())
    made = client.devboxes.create_and_await_running(launch_parameters={"network_policy_id": policy.id})
    assert made.launch_parameters.network_policy_id == policy.id
    assert output(client, made.id, "tail -n +3 /proc/net/dev | cut -d: -f1").split() == ["lo"]
    client.devboxes.shutdown(made.id)
    client.network_policies.update(policy.id, allow_all=True)
    opened = client.devboxes.create_and_await_running(launch_parameters={"network_policy_id": policy.id})
    inside = output(client, opened.id, "readlink /proc/self/ns/net").strip()
    assert inside == str(Path("/proc/self/ns/net").readlink())
    client.devboxes.shutdown(opened.id)
    client.network_policies.delete(policy.id)
    with pytest.raises(APIStatusError, match=policy.id) as refused:
        client.devboxes.create(launch_parameters={"network_policy_id": policy.id})
    assert refused.value.status_code == 400
