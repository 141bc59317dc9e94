"""Sizes of devboxes: the table of named sizes and the rules of a custom one."""

from collections.abc import Mapping
from dataclasses import dataclass

from benchyard.devboxes.base import DevboxLimits
from benchyard.errors import UsageError
from benchyard.models.launch import LaunchParameters, Size

GIB = 1024**3


@dataclass(frozen=True)
class Resources:
    """Most cpu, memory and disk that one devbox may use."""

    cpus: float
    memory_gb: int
    disk_gb: int

    def limits(self) -> DevboxLimits:
        """Return the same limits in the form of drivers."""
        return DevboxLimits(cpus=self.cpus, memory_bytes=self.memory_gb * GIB, disk_bytes=self.disk_gb * GIB)


SIZES: Mapping[Size, Resources] = {
    Size.X_SMALL: Resources(0.5, 1, 4),
    Size.SMALL: Resources(1, 2, 4),
    Size.MEDIUM: Resources(2, 4, 8),
    Size.LARGE: Resources(2, 8, 16),
    Size.X_LARGE: Resources(4, 16, 16),
    Size.XX_LARGE: Resources(8, 32, 16),
}
DEFAULT = Size.SMALL
DEFAULT_CUSTOM_DISK_GB = 16


def resources(launch: LaunchParameters) -> Resources:
    """Return the resources that these launch parameters ask for; raises UsageError naming the broken rule."""
    size = launch.resource_size_request or DEFAULT
    custom = (launch.custom_cpu_cores, launch.custom_gb_memory, launch.custom_disk_size)
    if size is not Size.CUSTOM_SIZE:
        if any(value is not None for value in custom):
            raise UsageError(
                "custom_cpu_cores, custom_gb_memory, custom_disk_size need resource_size_request CUSTOM_SIZE"
            )
        return SIZES[size]
    cpus, memory, disk = custom
    if cpus is None or memory is None:
        raise UsageError("CUSTOM_SIZE needs custom_cpu_cores and custom_gb_memory")
    resources = Resources(cpus, memory, disk if disk is not None else DEFAULT_CUSTOM_DISK_GB)
    _check(resources)
    return resources


def _check(resources: Resources) -> None:
    if not (resources.cpus in (0.5, 1) or (resources.cpus % 2 == 0 and 2 <= resources.cpus <= 16)):
        raise UsageError("custom_cpu_cores must be 0.5, 1, or a multiple of 2 up to 16")
    if not (resources.memory_gb == 1 or (resources.memory_gb % 2 == 0 and 2 <= resources.memory_gb <= 64)):
        raise UsageError("custom_gb_memory must be 1 or a multiple of 2 up to 64")
    if resources.disk_gb % 2 or not 2 <= resources.disk_gb <= 64:
        raise UsageError("custom_disk_size must be a multiple of 2 between 2 and 64")
    if not 2 * resources.cpus <= resources.memory_gb <= 8 * resources.cpus:
        raise UsageError("the ratio of custom_cpu_cores to custom_gb_memory must be between 1:2 and 1:8")
