"""`benchyard network-policy` against a real server."""

import json
import secrets
from typing import Any

import click
import pytest

from benchyard.cli.network_policy import allowed_cidr
from tests.cli.conftest import CommandLine


def unique() -> str:
    return f"policy-{secrets.token_hex(4)}"


def test_a_policy_is_made_shown_changed_and_removed(benchyard: CommandLine) -> None:
    name = unique()
    made = json.loads(
        benchyard.ok(
            *("network-policy", "create", name, "--allow-host", "a.test", "--allow-host", "*.b.test"),
            *("--allow-cidr", "10.1.2.0/24:5432,8000-8010", "--allow-gateway", "--description", "for tests"),
            *("-o", "json"),
        )
    )
    assert made["egress"]["allowed_hostnames"] == ["a.test", "*.b.test"]
    reaches = "a.test, *.b.test, 10.1.2.0/24:5432,8000-8010, the gateway"
    assert reaches in benchyard.ok("network-policy", "list", "--name", name)
    assert reaches in benchyard.ok("network-policy", "show", made["id"])
    assert benchyard("network-policy", "create", name).status == 2
    benchyard.ok("network-policy", "update", name, "--allow-host", "c.test", "--no-allow-gateway")
    shown = benchyard.ok("network-policy", "show", name)
    assert "c.test, 10.1.2.0/24" in shown
    assert "gateway" not in shown
    other = unique()
    benchyard.ok("network-policy", "update", name, "--name", other, "--allow-all")
    assert "everything" in benchyard.ok("network-policy", "show", other)
    assert benchyard.ok("network-policy", "delete", other) == f"{other}  {made['id']}  deleted\n"
    assert benchyard("network-policy", "show", other).status == 4


def test_a_devbox_is_made_with_a_policy_by_its_name(benchyard: CommandLine) -> None:
    name = unique()
    benchyard.ok("network-policy", "create", name, "--allow-all")
    made = json.loads(benchyard.ok("devbox", "create", "--network-policy", name, "-o", "json"))
    assert made["launch_parameters"]["network_policy_id"].startswith("npol_")
    benchyard.ok("devbox", "shutdown", made["id"])
    assert benchyard("devbox", "create", "--network-policy", "no-such-policy").status == 4
    benchyard.ok("network-policy", "delete", name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.0/8", {"cidr": "10.0.0.0/8"}),
        ("10.0.0.0/8:443", {"cidr": "10.0.0.0/8", "ports": [{"port": 443}]}),
        ("2001:db8::/32:80-90", {"cidr": "2001:db8::/32", "ports": [{"port": 80, "end_port": 90}]}),
    ],
)
def test_addresses_and_ports_are_read(text: str, expected: dict[str, Any]) -> None:
    assert allowed_cidr(text) == expected


@pytest.mark.parametrize(
    "text", ["10.0.0.0", "10.0.0.0/8:", "10.0.0.0/8:a", "10.0.0.0/8:1,", "10.0.0.0/8:1-2-3", ""]
)
def test_invalid_address_or_ports_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        allowed_cidr(text)
