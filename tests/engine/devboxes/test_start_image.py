"""Launch parameters of a blueprint under those of a devbox."""

from typing import Any

import pytest

from benchyard.engine.devboxes.sizes import resources
from benchyard.engine.devboxes.start_image import choose_services, merge_launch
from benchyard.errors import UsageError
from benchyard.models.blueprints import Service
from benchyard.models.launch import LaunchParameters

CUSTOM = {
    "resource_size_request": "CUSTOM_SIZE",
    "custom_cpu_cores": 2,
    "custom_gb_memory": 4,
    "custom_disk_size": 8,
}
IDLE = {"idle_time_seconds": 60, "on_idle": "suspend"}
OTHER_IDLE = {"idle_time_seconds": 5, "on_idle": "shutdown"}
HOOKS = {"suspend_commands": ["sync"]}


def launch(**fields: Any) -> LaunchParameters:
    return LaunchParameters.model_validate(fields)


@pytest.mark.parametrize(
    ("below", "own", "wanted"),
    [
        ({}, None, {}),
        ({"keep_alive_time_seconds": 5}, None, {"keep_alive_time_seconds": 5}),
        ({"keep_alive_time_seconds": 5}, {"keep_alive_time_seconds": 6}, {"keep_alive_time_seconds": 6}),
        ({"launch_commands": ["a"]}, {"launch_commands": ["b"]}, {"launch_commands": ["b"]}),
        (CUSTOM, {"resource_size_request": "SMALL"}, {"resource_size_request": "SMALL"}),
        (CUSTOM, {"custom_gb_memory": 8}, {**CUSTOM, "custom_gb_memory": 8}),
        (
            {"after_idle": IDLE},
            {"lifecycle": {"after_idle": OTHER_IDLE}},
            {"lifecycle": {"after_idle": OTHER_IDLE}},
        ),
        ({"lifecycle": {"after_idle": IDLE}}, {"after_idle": OTHER_IDLE}, {"after_idle": OTHER_IDLE}),
        (
            {"lifecycle": {"lifecycle_hooks": HOOKS, "after_idle": IDLE}},
            {"lifecycle": {"after_idle": OTHER_IDLE}},
            {"lifecycle": {"lifecycle_hooks": HOOKS, "after_idle": OTHER_IDLE}},
        ),
    ],
)
def test_launch_parameters_of_a_devbox_come_first(below: Any, own: Any, wanted: Any) -> None:
    together = merge_launch(launch(**below), launch(**own) if own is not None else None)
    assert together == launch(**wanted)
    resources(together)


def test_services_are_known_or_refused() -> None:
    known = tuple(Service(name=name, image=f"{name}:1") for name in ("cache", "db", "mail"))
    assert choose_services(launch(), known) == []
    wanted = choose_services(launch(required_services=["db", "cache", "db"]), known)
    assert [service.name for service in wanted] == ["db", "cache"]
    with pytest.raises(UsageError, match="no service 'queue'"):
        choose_services(launch(required_services=["db", "queue"]), known)
