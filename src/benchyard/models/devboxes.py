"""A devbox: what is asked for, what is kept, what is shown, and the ways into it."""

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
    """What is asked of a tunnel; None is the default, or what it is already."""

    auth_mode: AuthMode | None = None
    http_keep_alive: WireBool | None = None
    wake_on_http: WireBool | None = None


class Tunnel(Model):
    """A tunnel as it is kept with its devbox; its token is derived from its key, and kept nowhere."""

    tunnel_key: str
    auth_mode: AuthMode = "open"
    http_keep_alive: bool = True
    wake_on_http: bool = False
    create_time_ms: int


class TunnelView(Model):
    """A tunnel as the wire shows it; `auth_token` only where it is needed."""

    tunnel_key: str
    auth_mode: AuthMode
    http_keep_alive: bool
    wake_on_http: bool
    create_time_ms: int
    auth_token: str | None = None


class DevboxStatus(StrEnum):
    """Where a devbox is in its life."""

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
    """One change of status; `detail` (an extension) says why in words."""

    status: DevboxStatus
    transition_time_ms: int
    failure_reason: FailureReason | None = None
    detail: str | None = None


class DevboxPurpose(Model):
    """What the devbox of a scenario run is for."""

    working_directory: str | None = None
    """Made before it runs, where it is not there."""
    home: str | None = None
    """Of its user, when it began to run: afterwards the devbox may say what it likes."""
    isolation: Isolation = "clean"
    """How what is done in it will be scored."""
    keeps_start: bool = False
    """Whether what it looks like at the start is kept."""
    shown: dict[str, str] = Field(default_factory=dict)
    """Path inside -> folder of the host that is shown there, read-only."""
    agent_network_policy: str | None = None
    """What it may reach once it is prepared, by the id or name of a policy."""
    agent_egress: Egress | None = None
    """That policy as it was when the devbox was made; it is the devbox's own once that is prepared."""
    scoring_network: str | None = None
    """What its scorers may reach: `none`, `host`, or a policy by id or name; None where nobody says."""
    first_step: StepSetup | None = None
    """What the first step of its scenario needs."""
    refuses_tracing: bool = False
    """Whether its processes may not trace each other while they are scored in it."""


class MountedAgent(Model):
    """An agent that a devbox shows."""

    agent_id: str
    name: str
    is_package: bool
    """Whether its commands are put into PATH."""
    path: str | None = None
    auth_token: str | None = Field(default=None, repr=False)
    """Sealed; gone once the agent is installed."""
    shown: dict[str, str] = Field(default_factory=dict)
    """Path inside -> folder of the host, once it is installed: the devbox goes on if the agent is deleted."""


class Devbox(Record):
    """A devbox as it is kept; secret values and tokens are part of it only sealed."""

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
    """How often it was started; part of the ids of its launch executions."""
    mounts: list[Mount] = Field(default_factory=list)
    """What is still to be put into it; emptied when it runs."""
    agents: list[MountedAgent] = Field(default_factory=list)
    services: list[Service] = Field(default_factory=list)
    """What runs beside it, as its blueprint had it when the devbox was made."""
    state_transitions: list[StateTransition] = Field(default_factory=list)
    failure_reason: FailureReason | None = None
    shutdown_reason: ShutdownReason | None = None
    initiator_type: InitiatorType = "api"
    initiator_id: str | None = None
    tunnel: Tunnel | None = None
    purpose: DevboxPurpose | None = None
    egress: Egress | None = None
    """What its network policy said when it was made; later changes are for later devboxes."""
    ssh_keys: list[str] = Field(default_factory=list)
    """The public halves of the keys that open it by ssh."""
    given: str | None = Field(default=None, repr=False)
    """The values of its secrets, sealed: they are taken out of what it says, whatever became of them."""
    doors: list[GatewayDoor] = Field(default_factory=list)
    """The HTTP APIs that it reaches through the gateway."""

    @property
    def gateway_specs(self) -> dict[str, GatewaySpec] | None:
        """The gateways that it was made with, by the prefix of their variables."""
        made_with = [each for each in self.doors if each.prefix]
        return {str(each.prefix): GatewaySpec.model_validate(each.model_dump()) for each in made_with} or None

    def columns(self) -> Columns:
        """Found by name, status, and what it was made from."""
        return Columns(name=self.name, status=self.status, parent=self.snapshot_id or self.blueprint_id)

    def view(self) -> "DevboxView":
        """As the wire shows it."""
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
    """One page of devboxes."""

    devboxes: list[DevboxView]
    has_more: bool
    total_count: int | None = None


class DevboxUsageView(Model):
    """What a devbox has used since it was made."""

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
    """What opens a devbox's terminals: a token for `X-Runloop-Tunnel-Authorization`."""

    auth_token: str
    tunnel_key: str


class PtyConnectView(Model):
    """A terminal session, found or made."""

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
    """Something to do to a terminal session."""

    action: Literal["resize", "signal", "close"]
    cols: WireInt | None = None
    rows: WireInt | None = None
    signal: str | None = Field(default=None, max_length=32)


class PtyControlResultView(Model):
    """What became of it."""

    session_name: str
    status: str


class SshKeyView(Model):
    """A new key of a devbox; its private half is shown this once, and kept nowhere."""

    id: str
    """The devbox."""
    ssh_private_key: str
    ssh_user: str
    url: str
    """The name to give to ssh; behind TLS also the name that leads to it."""
    host_key: str
    """An extension: the server's own public key, for `known_hosts`."""
