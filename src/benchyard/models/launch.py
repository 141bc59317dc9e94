"""The launch of a devbox: size, lifetime, idle policy, hooks, user, and mounts."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from benchyard.models.base import Model, WireBool, WireFloat, WireInt

DEFAULT_USER = "user"
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
    """The action on an idle devbox."""

    idle_time_seconds: WireInt = Field(gt=0)
    on_idle: Literal["shutdown", "suspend"]


class LifecycleHooks(Model):
    """Commands that run before a devbox is suspended."""

    suspend_commands: list[str] | None = None
    suspend_deadline_ms: WireInt | None = Field(default=None, ge=0, le=SUSPEND_DEADLINE_MAX_MS)


class ResumeTriggers(Model):
    """Triggers that resume a suspended devbox: requests to its tunnel; axon events are only stored."""

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
    """None, an extension, is the image's own id for the name, or the next free id."""


class LaunchParameters(Model):
    """Options of a devbox's launch."""

    after_idle: AfterIdle | None = None
    architecture: Literal["x86_64", "arm64"] | None = None
    available_ports: list[WireInt] | None = None
    """Ignored, as in the original."""
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
    def username(self) -> str:
        """Return the name of the devbox's user."""
        return self.user_parameters.username if self.user_parameters else DEFAULT_USER

    @property
    def idle_policy(self) -> AfterIdle | None:
        """Return the idle policy from whichever field has it."""
        nested = self.lifecycle.after_idle if self.lifecycle else None
        return nested or self.after_idle

    @property
    def wakes_on_http(self) -> bool | None:
        """Tell whether a request to its tunnel resumes it; None if this is unspecified."""
        triggers = self.lifecycle.resume_triggers if self.lifecycle else None
        return triggers.http if triggers else None


REPOSITORY_PART = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$"


class FileMount(Model):
    """A file with the given text."""

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
    """Stored encrypted, and so longer than in the request: its length limit applies to the request only."""
    git_ref: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_][A-Za-z0-9._/+@-]{0,254}$")
    install_command: str | None = None


class AgentMount(Model):
    """A registered agent, by id, or by name for its newest version."""

    type: Literal["agent_mount"] = "agent_mount"
    agent_id: str | None = Field(default=None, max_length=200)
    agent_name: str | None = Field(default=None, max_length=200)
    agent_path: str | None = Field(default=None, max_length=1024)
    """The path of its folder, mounted read-only; packages need none: their commands are in PATH."""
    auth_token: str | None = Field(default=None, repr=False)
    """The token for a private repository; stored encrypted, like that of a `CodeMount`."""


class BrokerMount(Model):
    """The broker of an axon; served once axons are supported."""

    type: Literal["broker_mount"]


Mount = Annotated[FileMount | ObjectMount | CodeMount | AgentMount | BrokerMount, Field(discriminator="type")]
