"""A devbox: its requests, its record, its views, and the ways into it."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from benchyard.models.base import Columns, Metadata, Model, Record, ShortText, WireBool, WireFloat, WireInt
from benchyard.models.blueprints import Service
from benchyard.models.gateway_configs import GatewayDoor, GatewayRequest, GatewaySpec
from benchyard.models.launch import CodeMount, LaunchParameters, Mount
from benchyard.models.network_policies import Egress
from benchyard.models.scenarios import Isolation, StepSetup


class ReadRequest(Model):
    """The body of `read_file_contents`."""

    file_path: str = Field(min_length=1, max_length=4096)


class WriteRequest(Model):
    """The body of `write_file_contents`."""

    file_path: str = Field(min_length=1, max_length=4096)
    contents: str


class DownloadRequest(Model):
    """The body of `download_file`."""

    path: str = Field(min_length=1, max_length=4096)


AuthMode = Literal["open", "authenticated"]


class TunnelRequest(Model):
    """The settings of a tunnel; None is the default, or leaves the present setting."""

    auth_mode: AuthMode | None = None
    http_keep_alive: WireBool | None = None
    wake_on_http: WireBool | None = None


class Tunnel(Model):
    """A tunnel as it is stored with its devbox; its token is derived from its key, and stored nowhere."""

    tunnel_key: str
    auth_mode: AuthMode = "open"
    http_keep_alive: bool = True
    wake_on_http: bool = False
    create_time_ms: int


class TunnelView(Model):
    """A tunnel as the wire shows it; `auth_token` only if the tunnel requires it."""

    tunnel_key: str
    auth_mode: AuthMode
    http_keep_alive: bool
    wake_on_http: bool
    create_time_ms: int
    auth_token: str | None = None


class DevboxStatus(StrEnum):
    """The stage of a devbox's life."""

    SCHEDULED = "scheduled"
    QUEUED = "queued"
    PROVISIONING = "provisioning"
    INITIALIZING = "initializing"
    RUNNING = "running"
    SUSPENDING = "suspending"
    SUSPENDED = "suspended"
    RESUMING = "resuming"
    FAILURE = "failure"
    SHUTDOWN = "shutdown"


FailureReason = Literal["out_of_memory", "out_of_disk", "execution_failed", "health_check_failed"]
ShutdownReason = Literal["api_shutdown", "keep_alive_timeout", "entrypoint_exit", "idle", "ttl_expired"]
InitiatorType = Literal["unknown", "api", "scenario", "scoring_validation", "reflex"]


class DevboxRequest(Model):
    """The body of a create call."""

    name: ShortText | None = None
    metadata: Metadata | None = None
    blueprint_id: str | None = None
    blueprint_name: str | None = None
    snapshot_id: str | None = None
    launch_parameters: LaunchParameters | None = None
    environment_variables: dict[str, str] | None = None
    secrets: dict[str, str] | None = None
    entrypoint: str | None = None
    mounts: list[Mount] | None = None
    file_mounts: dict[str, str] | None = None
    code_mounts: list[CodeMount] | None = None
    gateways: dict[str, GatewayRequest] | None = None
    mcp: dict[str, Any] | None = None
    tunnel: TunnelRequest | None = None


class DevboxChange(Model):
    """The body of an update; None leaves a field as it is."""

    name: ShortText | None = None
    metadata: Metadata | None = None


class WaitRequest(Model):
    """The body of a long-poll on a devbox's status."""

    statuses: list[DevboxStatus] = Field(min_length=1, max_length=100)
    timeout_seconds: WireFloat | None = Field(default=None, ge=0)


class StateTransition(Model):
    """A change of status; `detail` (an extension) gives the reason in words."""

    status: DevboxStatus
    transition_time_ms: int
    failure_reason: FailureReason | None = None
    detail: str | None = None


class DevboxPurpose(Model):
    """The purpose of a scenario run's devbox: how it is prepared, isolated and scored."""

    working_directory: str | None = None
    """Created before the devbox runs, if it does not exist."""
    home: str | None = None
    """The user's home, stored when the devbox began to run: later the devbox cannot be trusted on this."""
    isolation: Isolation = "clean"
    """The isolation in which its work will be scored."""
    keeps_start: bool = False
    """True if its disk at the start is kept."""
    shown: dict[str, str] = Field(default_factory=dict)
    """Path inside -> folder of the host that is mounted there, read-only."""
    agent_network_policy: str | None = None
    """The network policy, by id or name, that applies once it is prepared."""
    agent_egress: Egress | None = None
    """The rules of that policy at creation; they become the devbox's own rules once it is prepared."""
    scoring_network: str | None = None
    """The network of its scorers: `none`, `host`, or a policy by id or name; None if unspecified."""
    first_step: StepSetup | None = None
    """The setup of its scenario's first step."""
    refuses_tracing: bool = False
    """True if its processes are forbidden to trace each other while it is scored."""
    is_marked_later: bool = False
    """True if the state of its disk is marked only once a trial's agent is set up in it."""


class MountedAgent(Model):
    """An agent that is mounted in a devbox."""

    agent_id: str
    name: str
    is_package: bool
    """True if its commands are put into PATH."""
    path: str | None = None
    auth_token: str | None = Field(default=None, repr=False)
    """Sealed; removed once the agent is installed."""
    shown: dict[str, str] = Field(default_factory=dict)
    """Path inside -> folder of the host, once installed: the devbox keeps working if the agent is deleted."""


class Devbox(Record):
    """A devbox as it is stored, with secret values and tokens only in sealed form."""

    status: DevboxStatus = DevboxStatus.PROVISIONING
    name: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    end_time_ms: int | None = None
    image: str
    blueprint_id: str | None = None
    snapshot_id: str | None = None
    launch_parameters: LaunchParameters = Field(default_factory=LaunchParameters)
    environment_variables: dict[str, str] = Field(default_factory=dict)
    secrets: dict[str, str] = Field(default_factory=dict)
    entrypoint: str | None = None
    boot: int = 0
    """Number of times it was started; part of the ids of its launch executions."""
    mounts: list[Mount] = Field(default_factory=list)
    """Mounts that are still to be made; emptied when it runs."""
    agents: list[MountedAgent] = Field(default_factory=list)
    services: list[Service] = Field(default_factory=list)
    """Services that run beside it, copied from its blueprint when the devbox was created."""
    state_transitions: list[StateTransition] = Field(default_factory=list)
    failure_reason: FailureReason | None = None
    shutdown_reason: ShutdownReason | None = None
    initiator_type: InitiatorType = "api"
    initiator_id: str | None = None
    tunnel: Tunnel | None = None
    purpose: DevboxPurpose | None = None
    egress: Egress | None = None
    """The rules of its network policy at creation; later changes of the policy apply to later devboxes."""
    ssh_keys: list[str] = Field(default_factory=list)
    """The public keys that may log in by ssh."""
    given: str | None = Field(default=None, repr=False)
    """The values of its secrets, sealed: masked in its output even after a secret is changed or deleted."""
    doors: list[GatewayDoor] = Field(default_factory=list)
    """The HTTP APIs that it reaches through the gateway."""

    @property
    def gateway_specs(self) -> dict[str, GatewaySpec] | None:
        """Return the gateways that it was created with, by the prefix of their variables."""
        made_with = [door for door in self.doors if door.prefix]
        return {str(spec.prefix): GatewaySpec.model_validate(spec.model_dump()) for spec in made_with} or None

    def columns(self) -> Columns:
        """Index by name, status, and the blueprint or snapshot it was made from."""
        return Columns(name=self.name, status=self.status, parent=self.snapshot_id or self.blueprint_id)

    def view(self) -> "DevboxView":
        """Return the devbox as the wire shows it."""
        return DevboxView.model_validate(self, from_attributes=True)


class DevboxView(Model):
    """A devbox as the wire shows it."""

    id: str
    status: DevboxStatus
    name: str | None = None
    metadata: dict[str, str]
    capabilities: list[Literal["unknown", "docker_in_docker"]] = Field(default_factory=list)
    create_time_ms: int
    end_time_ms: int | None = None
    launch_parameters: LaunchParameters
    state_transitions: list[StateTransition]
    blueprint_id: str | None = None
    snapshot_id: str | None = None
    failure_reason: FailureReason | None = None
    shutdown_reason: ShutdownReason | None = None
    initiator_type: InitiatorType = "api"
    initiator_id: str | None = None
    tunnel: TunnelView | None = None
    gateway_specs: dict[str, GatewaySpec] | None = None


class DevboxListView(Model):
    """A page of devboxes."""

    devboxes: list[DevboxView]
    has_more: bool
    total_count: int | None = None


class DevboxUsageView(Model):
    """The resources that a devbox has used since it was created."""

    id: str
    status: DevboxStatus
    start_time_ms: int
    end_time_ms: int | None = None
    total_elapsed_seconds: int
    total_active_seconds: int
    vcpu_seconds: int
    memory_gb_seconds: int
    disk_gb_seconds: int


SESSION_NAME = r"^[A-Za-z0-9_-]{1,256}$"


class PtyTunnelView(Model):
    """The access to a devbox's terminals: a token for `X-Runloop-Tunnel-Authorization`."""

    auth_token: str
    tunnel_key: str


class PtyConnectView(Model):
    """A terminal session, existing or new."""

    session_name: str
    status: str
    created: bool
    attached: bool
    cols: int
    rows: int
    connect_url: str
    idle_ttl_seconds: int
    protocol_version: str = "1"


class PtyControlRequest(Model):
    """An action on a terminal session."""

    action: Literal["resize", "signal", "close"]
    cols: WireInt | None = None
    rows: WireInt | None = None
    signal: str | None = Field(default=None, max_length=32)


class PtyControlResultView(Model):
    """The result of an action on a terminal session."""

    session_name: str
    status: str


class SshKeyView(Model):
    """A new key of a devbox; its private half is shown this once, and stored nowhere."""

    id: str
    """The id of the devbox."""
    ssh_private_key: str
    ssh_user: str
    url: str
    """The host name for ssh; behind TLS also the name that leads to it."""
    host_key: str
    """An extension: the server's own public key, for `known_hosts`."""
