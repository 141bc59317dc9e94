"""`benchyard gateway-config` against a real server."""

import json
import secrets

import pytest

from tests.cli.conftest import CommandLine


@pytest.fixture
def name() -> str:
    return f"api-{secrets.token_hex(4)}"


def test_config_is_made_shown_changed_listed_and_deleted(benchyard: CommandLine, name: str) -> None:
    endpoint = ("--endpoint", "https://a.example")
    made = json.loads(
        benchyard.ok("gateway-config", "create", name, *endpoint, "--auth", "header:X-Key", "-o", "json")
    )
    assert made["auth_mechanism"] == {"type": "header", "key": "X-Key"}
    shown = benchyard.ok("gateway-config", "show", name)
    assert "header:X-Key" in shown
    assert made["id"] in shown
    assert benchyard.ok("gateway-config", "show", made["id"]) == shown
    changes = ("--endpoint", "https://b.example", "--auth", "basic", "--header", "X-A=1=2")
    benchyard.ok("gateway-config", "update", name, *changes, "--description", "mine")
    changed = json.loads(benchyard.ok("gateway-config", "show", name, "-o", "json"))
    assert (changed["endpoint"], changed["auth_mechanism"]["type"]) == ("https://b.example", "basic")
    assert (changed["custom_headers"][0]["value"], changed["description"]) == ("1=2", "mine")
    benchyard.ok("gateway-config", "update", made["id"], "--name", f"{name}-2", "--no-headers")
    listed = benchyard.ok("gateway-config", "list")
    assert f"{name}-2" in listed
    assert "built-in" in listed
    after = json.loads(benchyard.ok("gateway-config", "show", f"{name}-2", "-o", "json"))
    assert after["custom_headers"] == []
    assert benchyard.ok("gateway-config", "delete", f"{name}-2").endswith("deleted\n")
    assert benchyard("gateway-config", "show", f"{name}-2").status == 4


def test_a_header_from_a_secret_is_shown_without_its_value(benchyard: CommandLine, name: str) -> None:
    secret = f"S{secrets.token_hex(4)}"
    value = secrets.token_hex(16)
    benchyard.ok("secret", "set", secret, "--stdin", typed=value.encode())
    given = ("--endpoint", "https://a.example", "--auth", "bearer", "--secret-header", f"X-App={secret}")
    benchyard.ok("gateway-config", "create", name, *given)
    shown = benchyard.ok("gateway-config", "show", name)
    assert "X-App: (secret sec_" in shown
    assert value not in shown


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((), "--endpoint"),
        (("--endpoint", "https://a.example", "--auth", "digest"), "type"),
        (("--endpoint", "https://a.example", "--auth", "header"), "key"),
        (("--endpoint", "https://me:pass@a.example", "--auth", "bearer"), "credentials"),
        (("--endpoint", "https://a.example", "--auth", "bearer", "--header", "X-A"), "NAME=VALUE"),
        (("--endpoint", "https://a.example", "--auth", "bearer", "--secret-header", "X-A=NO"), "NO"),
    ],
)
def test_invalid_config_is_refused_in_a_line(
    benchyard: CommandLine, name: str, given: tuple[str, ...], says: str
) -> None:
    ended = benchyard("gateway-config", "create", name, *given)
    assert (ended.status, says in ended.err) == (2, True), ended.err
    assert benchyard("gateway-config", "show", name).status == 4


def test_those_of_the_server_stay(benchyard: CommandLine) -> None:
    assert "https://api.anthropic.com" in benchyard.ok("gateway-config", "show", "anthropic")
    assert benchyard("gateway-config", "delete", "anthropic").status == 3


@pytest.mark.parametrize("gateway", ["PREFIX", "PREFIX=config", "PREFIX=:SECRET", "PREFIX=config:"])
def test_a_gateway_of_a_devbox_is_a_prefix_a_config_and_a_secret(
    benchyard: CommandLine, gateway: str
) -> None:
    assert benchyard("devbox", "create", "--gateway", gateway).status == 2


def test_a_missing_gateway_is_named(benchyard: CommandLine) -> None:
    ended = benchyard("devbox", "create", "--gateway", "GWS=no-such:KEY")
    assert ended.status == 2
    assert "gateway-config create" in ended.err
