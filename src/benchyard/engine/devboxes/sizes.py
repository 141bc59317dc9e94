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
    asked = Resources(cpus, memory, disk if disk is not None else DEFAULT_CUSTOM_DISK_GB)
    _check(asked)
    return asked


def _check(asked: Resources) -> None:
    if not (asked.cpus in (0.5, 1) or (asked.cpus % 2 == 0 and 2 <= asked.cpus <= 16)):
        raise UsageError("custom_cpu_cores must be 0.5, 1, or a multiple of 2 up to 16")
    if not (asked.memory_gb == 1 or (asked.memory_gb % 2 == 0 and 2 <= asked.memory_gb <= 64)):
        raise UsageError("custom_gb_memory must be 1 or a multiple of 2 up to 64")
    if asked.disk_gb % 2 or not 2 <= asked.disk_gb <= 64:
        raise UsageError("custom_disk_size must be a multiple of 2 between 2 and 64")
    if not 2 * asked.cpus <= asked.memory_gb <= 8 * asked.cpus:
        raise UsageError("the ratio of custom_cpu_cores to custom_gb_memory must be between 1:2 and 1:8")
