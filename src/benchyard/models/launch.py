"""How a devbox is launched: size, lifetime, idle policy, hooks, user, and what is put into it."""

from enum import StrEnum
from typing import Annotated, Literal

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


REPOSITORY_PART = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$"


class FileMount(Model):
    """A file with this text."""

    type: Literal["file_mount"] = "file_mount"
    target: str = Field(min_length=1, max_length=4096)
    content: str


class ObjectMount(Model):
    """A stored object as a file, or unpacked when it is an archive."""

    type: Literal["object_mount"] = "object_mount"
    object_id: str
    object_path: str = Field(min_length=1, max_length=4096)


class CodeMount(Model):
    """A git repository, cloned into the user's home."""

    type: Literal["code_mount"] = "code_mount"
    repo_owner: str = Field(pattern=REPOSITORY_PART)
    repo_name: str = Field(pattern=REPOSITORY_PART)
    token: str | None = Field(default=None, repr=False)
    """Kept encrypted, and thereby longer than it came: its limit is the launch's, not the record's."""
    git_ref: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_][A-Za-z0-9._/+@-]{0,254}$")
    install_command: str | None = None


class AgentMount(Model):
    """An agent of the registry, by id or the newest of a name."""

    type: Literal["agent_mount"] = "agent_mount"
    agent_id: str | None = Field(default=None, max_length=200)
    agent_name: str | None = Field(default=None, max_length=200)
    agent_path: str | None = Field(default=None, max_length=1024)
    """Where its folder is shown, read-only; packages need none: their commands are in PATH."""
    auth_token: str | None = Field(default=None, repr=False)
    """Opens a private repository; kept encrypted, as that of a `CodeMount`."""


class BrokerMount(Model):
    """An axon's broker; served once there are axons."""

    type: Literal["broker_mount"]


Mount = Annotated[FileMount | ObjectMount | CodeMount | AgentMount | BrokerMount, Field(discriminator="type")]
