from typing import Any

import pytest

from benchyard.engine.devboxes.sizes import GIB, Resources, resources
from benchyard.errors import UsageError
from benchyard.models.launch import LaunchParameters


def launch(**fields: Any) -> LaunchParameters:
    return LaunchParameters.model_validate(fields)


def custom(**fields: Any) -> LaunchParameters:
    return launch(resource_size_request="CUSTOM_SIZE", **fields)


@pytest.mark.parametrize(
    ("name", "cpus", "memory", "disk"),
    [
        ("X_SMALL", 0.5, 1, 4),
        ("SMALL", 1, 2, 4),
        ("MEDIUM", 2, 4, 8),
        ("LARGE", 2, 8, 16),
        ("X_LARGE", 4, 16, 16),
        ("XX_LARGE", 8, 32, 16),
    ],
)
def test_each_size_is_what_the_wire_says(name: str, cpus: float, memory: int, disk: int) -> None:
    assert resources(launch(resource_size_request=name)) == Resources(cpus, memory, disk)


def test_limits_are_in_bytes() -> None:
    limits = resources(launch()).limits()
    assert (limits.cpus, limits.memory_bytes, limits.disk_bytes) == (1, 2 * GIB, 4 * GIB)


def test_a_custom_size_within_the_rules_is_taken() -> None:
    asked = custom(custom_cpu_cores=0.5, custom_gb_memory=4, custom_disk_size=64)
    assert resources(asked) == Resources(0.5, 4, 64)


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({}, "needs custom_cpu_cores"),
        ({"custom_cpu_cores": 3, "custom_gb_memory": 8}, "multiple of 2 up to 16"),
        ({"custom_cpu_cores": 18, "custom_gb_memory": 64}, "multiple of 2 up to 16"),
        ({"custom_cpu_cores": 0, "custom_gb_memory": 2}, "multiple of 2 up to 16"),
        ({"custom_cpu_cores": 1, "custom_gb_memory": 3}, "multiple of 2 up to 64"),
        ({"custom_cpu_cores": 1, "custom_gb_memory": -2}, "multiple of 2 up to 64"),
        ({"custom_cpu_cores": 1, "custom_gb_memory": 2, "custom_disk_size": 5}, "between 2 and 64"),
        ({"custom_cpu_cores": 1, "custom_gb_memory": 2, "custom_disk_size": 66}, "between 2 and 64"),
        ({"custom_cpu_cores": 1, "custom_gb_memory": 1}, "between 1:2 and 1:8"),
        ({"custom_cpu_cores": 2, "custom_gb_memory": 64}, "between 1:2 and 1:8"),
    ],
)
def test_a_custom_size_that_breaks_a_rule_is_refused_by_that_rule(fields: dict[str, Any], rule: str) -> None:
    with pytest.raises(UsageError, match=rule):
        resources(custom(**fields))


def test_custom_numbers_without_custom_size_are_refused() -> None:
    with pytest.raises(UsageError, match="CUSTOM_SIZE"):
        resources(launch(custom_cpu_cores=2))
