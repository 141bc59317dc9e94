"""How a devbox is launched: size, lifetime, idle policy, hooks and user."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from benchyard.models.base import Model, WireBool, WireFloat, WireInt

KEEP_ALIVE_DEFAULT_SECONDS = 3600
KEEP_ALIVE_MAX_SECONDS = 172_800
SUSPEND_DEADLINE_DEFAULT_MS = 30_000
SUSPEND_DEADLINE_MAX_MS = 60_000


class Size(StrEnum):
    """The names of the sizes a devbox can have."""

    X_SMALL = "X_SMALL"
    SMALL = "SMALL"
    MEDIUM = "MEDIUM"
    LARGE = "LARGE"
    X_LARGE = "X_LARGE"
    XX_LARGE = "XX_LARGE"
    CUSTOM_SIZE = "CUSTOM_SIZE"


class AfterIdle(Model):
    """What to do with a devbox that nobody uses."""

    idle_time_seconds: WireInt = Field(gt=0)
    on_idle: Literal["shutdown", "suspend"]


class LifecycleHooks(Model):
    """Commands that run before a devbox is suspended."""

    suspend_commands: list[str] | None = None
    suspend_deadline_ms: WireInt | None = Field(default=None, ge=0, le=SUSPEND_DEADLINE_MAX_MS)


class ResumeTriggers(Model):
    """What wakes a suspended devbox: requests to its tunnel; events of axons are kept and shown only."""

    axon_event: WireBool | None = None
    http: WireBool | None = None


class LifecycleConfiguration(Model):
    """Idle policy, hooks and triggers in one place."""

    after_idle: AfterIdle | None = None
    lifecycle_hooks: LifecycleHooks | None = None
    resume_triggers: ResumeTriggers | None = None


class UserParameters(Model):
    """The linux user that commands run as."""

    username: str = Field(pattern=r"^[a-z_][a-z0-9_-]{0,31}$")
    uid: WireInt | None = Field(default=None, ge=0, le=65_534)
    """None, an extension, is what the image says of that name, or the next that is free."""


class LaunchParameters(Model):
    """What a caller may ask of a devbox's launch."""

    after_idle: AfterIdle | None = None
    architecture: Literal["x86_64", "arm64"] | None = None
    available_ports: list[WireInt] | None = None
    """Ignored, as the wire says."""
    custom_cpu_cores: WireFloat | None = None
    custom_disk_size: WireInt | None = None
    custom_gb_memory: WireInt | None = None
    keep_alive_time_seconds: WireInt | None = Field(default=None, gt=0, le=KEEP_ALIVE_MAX_SECONDS)
    launch_commands: list[str] | None = None
    lifecycle: LifecycleConfiguration | None = None
    network_policy_id: str | None = None
    provisioning_tier: Literal["standard", "flex"] | None = None
    required_services: list[str] | None = None
    resource_size_request: Size | None = None
    user_parameters: UserParameters | None = None

    @property
    def idle_policy(self) -> AfterIdle | None:
        """The idle policy, wherever it was given."""
        nested = self.lifecycle.after_idle if self.lifecycle else None
        return nested or self.after_idle

    @property
    def wakes_on_http(self) -> bool | None:
        """Whether a request to its tunnel wakes it, if that was said here."""
        triggers = self.lifecycle.resume_triggers if self.lifecycle else None
        return triggers.http if triggers else None
