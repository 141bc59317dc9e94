"""A policy becomes a plan: which network a devbox has, and which doors."""

from typing import Any

import pytest

from benchyard.devboxes.base import Network
from benchyard.engine.network.policies import PROXY_PORT, NetworkPlan, plan_of
from benchyard.errors import UsageError
from benchyard.gateway.egress.rules import Block, Rules
from benchyard.models.network_policies import Egress, NetworkPolicyChange


def policy(**fields: Any) -> Egress:
    return Egress.model_validate(fields)


def test_policy_that_allows_all_has_the_hosts_network() -> None:
    plan = plan_of(policy(allow_all=True, allowed_hostnames=["a.test"]))
    assert plan == NetworkPlan(Network.HOST, gateway=True)
    assert plan.variables() == {}


@pytest.mark.parametrize("gateway", [True, False])
def test_policy_that_allows_nothing_has_no_network(gateway: bool) -> None:
    kept = {"allow_devbox_to_devbox": True, "allow_mcp_gateway": True, "allow_runloop_mirrors": True}
    plan = plan_of(policy(allow_agent_gateway=gateway, **kept))
    assert plan == NetworkPlan(Network.NONE, gateway=gateway)
    assert plan.variables() == {}


def test_a_list_becomes_rules_and_a_proxy() -> None:
    ports = [
        {"port": 443},
        {"port": 8000, "end_port": 8010, "protocol": "TCP"},
        {"port": 53, "protocol": "UDP"},
    ]
    plan = plan_of(
        policy(
            allowed_hostnames=["Example.com", "*.packages.example"],
            allowed_cidrs=[{"cidr": "10.12.0.0/16", "ports": ports}, {"cidr": "2001:db8::/32"}],
        )
    )
    assert plan.network is Network.NONE
    assert plan.egress == Rules.of(
        ["example.com", "*.packages.example"],
        [Block.of("10.12.0.0/16", [(443, 443), (8000, 8010)]), Block.of("2001:db8::/32")],
    )
    proxy = f"http://127.0.0.1:{PROXY_PORT}"
    assert plan.variables() == {
        **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), proxy),
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), proxy),
        "no_proxy": "localhost,127.0.0.1",
        "NO_PROXY": "localhost,127.0.0.1",
    }


def test_a_rule_for_udp_alone_lets_nothing_through() -> None:
    ports = [{"port": 53, "protocol": "UDP"}]
    plan = plan_of(policy(allowed_cidrs=[{"cidr": "10.0.0.0/8", "ports": ports}]))
    assert plan.egress is not None
    assert plan.egress.blocks[0].ports == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"allowed_hostnames": ["*"]},
        {"allowed_hostnames": ["10.0.0.1"]},
        {"allowed_cidrs": [{"cidr": "10.0.0.1/8"}]},
    ],
)
def test_invalid_rules_make_no_plan(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        plan_of(policy(**fields))


def test_a_change_takes_the_place_of_what_it_gives_only() -> None:
    before = policy(allowed_hostnames=["a.test"], allow_agent_gateway=True)
    after = before.with_change(NetworkPolicyChange(allowed_hostnames=["b.test"]))
    assert (after.allowed_hostnames, after.allow_agent_gateway) == (["b.test"], True)
    emptied = after.with_change(NetworkPolicyChange(allowed_hostnames=[], allow_agent_gateway=False))
    assert emptied == Egress()
    everything = before.with_change(NetworkPolicyChange(allow_all=True))
    assert everything.allow_devbox_to_devbox
    assert everything.allowed_hostnames == ["a.test"]
