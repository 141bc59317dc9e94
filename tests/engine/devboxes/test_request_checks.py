from typing import Any

import pytest
from pydantic import ValidationError

from benchyard.devboxes.base import Network
from benchyard.engine.devboxes.request_checks import (
    all_mounts,
    check_request,
    host_architecture,
    network_from_metadata,
)
from benchyard.errors import NotYet, UsageError
from benchyard.models.devboxes import DevboxRequest


def request(**fields: Any) -> DevboxRequest:
    return DevboxRequest.model_validate(fields)


@pytest.mark.parametrize(
    ("fields", "feature"),
    [
        ({"mcp": {"A": {"mcp_config": "x", "secret": "y"}}}, "mcp"),
    ],
)
def test_features_to_come_are_refused_by_name(fields: dict[str, Any], feature: str) -> None:
    with pytest.raises(NotYet, match=feature):
        check_request(request(**fields))


def test_mounts_to_come_are_refused_by_name() -> None:
    kind = "broker_mount"
    with pytest.raises(NotYet, match=kind) as refusal:
        all_mounts(request(mounts=[{"type": kind, "axon_id": "x"}]))
    assert refusal.value.body()["details"] == {"feature": kind}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"blueprint_id": "a", "snapshot_id": "b"}, "at most one"),
        ({"environment_variables": {"A=B": "c"}}, "environment variable"),
        ({"environment_variables": {"A": "c\0"}}, "NUL"),
        ({"environment_variables": {"A": "x" * 131_070}}, "A is over 131071 bytes"),
        ({"environment_variables": {"A": "\u00e9" * 70_000}}, "A is over 131071 bytes"),
        ({"environment_variables": {f"A{i}": "x" * 100_000 for i in range(11)}}, "together"),
        ({"secrets": {"1A": "c"}}, "environment variable"),
        ({"entrypoint": "a\0"}, "NUL"),
        ({"launch_parameters": {"launch_commands": ["a\0"]}}, "NUL"),
        ({"launch_parameters": {"user_parameters": {"username": "root", "uid": 5}}}, "root and uid 0"),
        ({"metadata": {"benchyard.network": "everything"}}, "none, host"),
        (
            {
                "launch_parameters": {
                    "after_idle": {"idle_time_seconds": 5, "on_idle": "suspend"},
                    "lifecycle": {"after_idle": {"idle_time_seconds": 6, "on_idle": "suspend"}},
                }
            },
            "differ",
        ),
    ],
)
def test_invalid_request_is_refused_with_the_reason(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        check_request(request(**fields))


def test_another_architecture_is_refused() -> None:
    other = "arm64" if host_architecture() == "x86_64" else "x86_64"
    check_request(request(launch_parameters={"architecture": host_architecture()}))
    with pytest.raises(UsageError, match=other):
        check_request(request(launch_parameters={"architecture": other}))


@pytest.mark.parametrize(
    "launch",
    [
        {"keep_alive_time_seconds": 172_801},
        {"keep_alive_time_seconds": 0},
        {"keep_alive_time_seconds": True},
        {"lifecycle": {"lifecycle_hooks": {"suspend_deadline_ms": 60_001}}},
        {"user_parameters": {"username": "a b", "uid": 1000}},
        {"user_parameters": {"username": "ab", "uid": -1}},
        {"resource_size_request": "HUGE"},
        {"launch_commands": "echo"},
    ],
)
def test_launch_parameters_out_of_range_are_refused(launch: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        request(launch_parameters=launch)


@pytest.mark.parametrize(
    "mount",
    [
        {"type": "code_mount", "repo_owner": "../x", "repo_name": "a"},
        {"type": "code_mount", "repo_owner": "x", "repo_name": "-a"},
        {"type": "code_mount", "repo_owner": "x", "repo_name": "a", "git_ref": "--upload-pack=x"},
        {"type": "file_mount", "target": ""},
        {"type": "unknown_mount"},
    ],
)
def test_mounts_that_make_no_sense_are_refused(mount: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        request(mounts=[mount])


def test_a_token_is_not_in_what_python_prints() -> None:
    asked = request(code_mounts=[{"repo_owner": "o", "repo_name": "n", "token": "hush"}])
    assert "hush" not in repr(asked)


def test_mounts_of_the_old_fields_are_mounts_too() -> None:
    asked = request(file_mounts={"~/a": "b"}, code_mounts=[{"repo_owner": "o", "repo_name": "n"}])
    assert [mount.type for mount in all_mounts(asked)] == ["file_mount", "code_mount"]


def test_the_network_is_the_servers_unless_the_metadata_says_otherwise() -> None:
    assert network_from_metadata({}, Network.HOST) is Network.HOST
    assert network_from_metadata({"benchyard.network": "none"}, Network.HOST) is Network.NONE
