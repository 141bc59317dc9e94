"""Schema of `task.toml` in Harbor task folders: versions 1.0 to 1.4, with the keys of older ones."""

import ipaddress
import math
import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, field_validator, model_validator
from pydantic_core import PydanticCustomError

from benchyard.benchmarks.files.located_values import FilePart
from benchyard.models.scenarios import AGENT_SECONDS_MAX, SCORER_SECONDS_MAX

NAME = "task.toml"
VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4")
MAIN = "main"
_SIZES = {"G": 1024.0, "M": 1.0, "K": 1 / 1024}
_HOST = re.compile(r"(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_STEP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

NetworkMode = Literal["no-network", "public", "allowlist"]
Seconds = Annotated[float, Field(gt=0)]
Command = Annotated[str, StringConstraints(min_length=1, max_length=1024**2)]

# Both become lines of a Dockerfile.
ImageName = Annotated[str, StringConstraints(max_length=512, pattern=r"^[^\s-]\S*$")]
OneLine = Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\x00-\x1f\x7f]+$")]


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


User = Annotated[str, BeforeValidator(_text), StringConstraints(pattern=r"^[a-z0-9_][a-z0-9_-]{0,31}$")]


def _host(value: str) -> str:
    host = value.strip().lower().rstrip(".")
    try:
        return str(ipaddress.ip_network(host))
    except ValueError:
        if not _HOST.fullmatch(host):
            raise PydanticCustomError("host", "must be a host name, `*.` before one, or an address") from None
        return host


class NetworkPart(FilePart):
    """Hosts that may be reached; None takes over the environment's."""

    network_mode: NetworkMode | None = None
    allowed_hosts: list[str] | None = Field(default=None, max_length=500)

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts(cls, hosts: list[str] | None) -> list[str] | None:
        return None if hosts is None else [_host(host) for host in hosts]

    @model_validator(mode="after")
    def _fits(self) -> "NetworkPart":
        if self.allowed_hosts and self.network_mode != "allowlist":
            raise PydanticCustomError("hosts", '`allowed_hosts` needs `network_mode = "allowlist"`')
        return self


class HealthcheckPart(FilePart):
    """A command that must succeed before the agent begins."""

    command: Command
    interval_sec: float = Field(default=5.0, ge=0)
    timeout_sec: Seconds = 30.0
    start_period_sec: float = Field(default=0.0, ge=0)
    start_interval_sec: float = Field(default=5.0, ge=0)
    retries: int = Field(default=3, ge=1, le=10_000)


class TpuPart(FilePart):
    """A slice of TPUs."""

    type: str
    topology: str


class McpServerPart(FilePart):
    """A server of tools for the agent."""

    name: str
    transport: str = "sse"
    url: str | None = None
    command: str | None = None
    args: list[str] = Field(default_factory=list)
    headers: dict[str, str] = Field(default_factory=dict)


def _megabytes(value: Any) -> Any:
    text = str(value).strip().upper()
    try:
        return int(float(text[:-1]) * _SIZES[text[-1:]])
    except (KeyError, ValueError, OverflowError):
        raise PydanticCustomError("size", "must be a size such as 2G or 512M") from None


class TaskEnvironmentPart(NetworkPart):
    """The devbox for the work."""

    build_timeout_sec: Seconds = 600.0
    docker_image: ImageName | None = None
    os: str = "linux"
    cpus: float | None = Field(default=None, gt=0)
    memory_mb: int | None = Field(default=None, gt=0)
    storage_mb: int | None = Field(default=None, gt=0)
    gpus: int | None = Field(default=None, ge=0)
    gpu_types: list[str] | None = None
    tpu: TpuPart | None = None
    mcp_servers: list[McpServerPart] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    skills_dir: str | None = None
    healthcheck: HealthcheckPart | None = None
    workdir: OneLine | None = None
    allow_internet: bool | None = None
    """Key of schema 1.0: false means `no-network`."""

    @model_validator(mode="before")
    @classmethod
    def _older(cls, data: Any) -> Any:
        """Replace keys of schema 1.0 by their successors."""
        if not isinstance(data, dict):
            return data
        data = dict(data)
        for old, new in (("memory", "memory_mb"), ("storage", "storage_mb")):
            if old in data:
                size = _megabytes(data.pop(old))
                if data.setdefault(new, size) != size:
                    raise PydanticCustomError("sizes", "`{old}` and `{new}` differ", {"old": old, "new": new})
        if data.get("allow_internet") is False:
            data.setdefault("network_mode", "no-network")
        return data

    @property
    def mode(self) -> NetworkMode:
        """Network of phases that name none: everything by default, as in Harbor."""
        return self.network_mode or "public"


class AgentPart(NetworkPart):
    """User of the agent, its time, and the hosts it may reach."""

    timeout_sec: float | None = Field(default=None, gt=0, le=AGENT_SECONDS_MAX)
    user: User | None = None


class CollectPart(FilePart):
    """A command that gathers files to grade after the work."""

    command: Command
    service: str = MAIN
    timeout_sec: Seconds = 60.0
    user: User | None = None


class VerifierPart(NetworkPart):
    """User and devbox of the tests, their time, and the hosts they may reach."""

    timeout_sec: float = Field(default=600.0, gt=0, le=SCORER_SECONDS_MAX)
    env: dict[str, str] = Field(default_factory=dict)
    user: User | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: TaskEnvironmentPart | None = None
    collect: list[CollectPart] = Field(default_factory=list, max_length=20)

    @property
    def is_separate(self) -> bool:
        """True if it grades in a devbox that has only the artifacts of the agent's work."""
        return self.environment_mode == "separate" or self.environment is not None

    @model_validator(mode="after")
    def _consistent(self) -> "VerifierPart":
        if self.environment_mode == "shared" and self.environment is not None:
            raise PydanticCustomError("mode", '`environment_mode = "shared"` has no [verifier.environment]')
        return self


class ArtifactPart(FilePart):
    """A file or folder that is taken after the work."""

    source: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    destination: str | None = None
    exclude: list[str] = Field(default_factory=list)
    service: str | None = None

    @field_validator("source")
    @classmethod
    def _plain(cls, value: str) -> str:
        if ".." in value.split("/"):
            raise PydanticCustomError("path", "must not contain `..`")
        return value


def _artifact(value: Any) -> Any:
    return {"source": value} if isinstance(value, str) else value


Artifacts = list[Annotated[ArtifactPart, BeforeValidator(_artifact)]]


class TaskStepPart(FilePart):
    """A step of a task that has several, in order."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    agent: AgentPart = Field(default_factory=AgentPart)
    verifier: VerifierPart = Field(default_factory=VerifierPart)
    min_reward: float | dict[str, float] | None = None
    healthcheck: HealthcheckPart | None = None
    artifacts: Artifacts = Field(default_factory=list)

    @field_validator("name")
    @classmethod
    def _folder(cls, value: str) -> str:
        if not _STEP.fullmatch(value):
            raise PydanticCustomError("step", "must be the name of a folder in steps/")
        return value


class AuthorPart(FilePart):
    """An author of the task."""

    name: str
    email: str | None = None


class PackagePart(FilePart):
    """Name and description of the task where tasks are published."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=512)]
    version: str | None = None
    description: str = ""
    authors: list[AuthorPart] = Field(default_factory=list)
    keywords: list[str] = Field(default_factory=list)


class SolutionPart(FilePart):
    """Variables for the task's solution."""

    env: dict[str, str] = Field(default_factory=dict)


class TaskFile(FilePart):
    """The whole of a `task.toml`."""

    schema_version: str | None = None
    version: str | None = None
    """Former name of `schema_version`."""
    source: str | None = None
    artifacts: Artifacts = Field(default_factory=list)
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    task: PackagePart | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    agent: AgentPart = Field(default_factory=AgentPart)
    verifier: VerifierPart = Field(default_factory=VerifierPart)
    environment: TaskEnvironmentPart = Field(default_factory=TaskEnvironmentPart)
    solution: SolutionPart = Field(default_factory=SolutionPart)
    steps: list[TaskStepPart] = Field(default_factory=list, max_length=200)

    @field_validator("schema_version", "version")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        if value is not None and value not in VERSIONS:
            known = ", ".join(VERSIONS)
            raise PydanticCustomError("schema", "unknown schema version; known are {known}", {"known": known})
        return value


def round_up(value: float) -> int:
    """Round up to whole seconds, for fields that take no fractions."""
    return math.ceil(value)
