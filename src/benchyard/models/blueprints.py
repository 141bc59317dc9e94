"""A blueprint: how an image for devboxes is built, and the state of its build."""

import re
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from benchyard.models.base import Columns, Metadata, Model, Record, ShortText, WireBool
from benchyard.models.launch import CodeMount, LaunchParameters
from benchyard.models.network_policies import Egress

_FROM = re.compile(r"^[^\S\n]*FROM\s+(?:--\S+\s+)*(\S+)", re.IGNORECASE | re.MULTILINE)
HIDDEN = "***"
"""Shown in place of a sealed value."""

BlueprintName = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]
BuildFailure = Literal["out_of_memory", "out_of_disk", "build_failed"]


class BlueprintStatus(StrEnum):
    """The state of a build."""

    AWAITING_UPLOAD = "awaiting_upload"
    QUEUED = "queued"
    PROVISIONING = "provisioning"
    BUILDING = "building"
    FAILED = "failed"
    BUILD_COMPLETE = "build_complete"


UNFINISHED = tuple(
    status.value
    for status in BlueprintStatus
    if status not in (BlueprintStatus.FAILED, BlueprintStatus.BUILD_COMPLETE)
)


class BuildContext(Model):
    """A stored object, a tar or a tgz, used as the folder that COPY and ADD read from."""

    type: Literal["object"] = "object"
    object_id: str = Field(min_length=1, max_length=128)


class ServiceCredentials(Model):
    """The login for the registry of a service's image."""

    username: ShortText
    password: str = Field(max_length=8192, repr=False)


class Service(Model):
    """A container that can run beside a devbox, such as a database."""

    name: str = Field(min_length=1, max_length=63, pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.-]*$")
    image: str = Field(min_length=1, max_length=512)
    credentials: ServiceCredentials | None = None
    env: dict[str, str] | None = None
    options: str | None = Field(default=None, max_length=8192)
    port_mappings: list[Annotated[str, Field(pattern=r"^\d{1,5}:\d{1,5}$")]] | None = Field(
        default=None, max_length=100
    )


class BlueprintRequest(Model):
    """The body of a create call; a blueprint stores it as its parameters."""

    name: BlueprintName
    base_blueprint_id: str | None = None
    base_blueprint_name: str | None = None
    build_args: dict[str, str] | None = Field(default=None, max_length=256)
    build_context: BuildContext | None = None
    code_mounts: list[CodeMount] | None = Field(default=None, max_length=100)
    dockerfile: str | None = Field(default=None, max_length=1_048_576)
    file_mounts: dict[str, str] | None = Field(default=None, max_length=1000)
    launch_parameters: LaunchParameters | None = None
    metadata: Metadata | None = None
    network_policy_id: str | None = None
    secrets: dict[str, str] | None = Field(default=None, max_length=256)
    """Environment variable -> name of a secret; values are looked up when the build begins."""
    on_demand: WireBool | None = None
    """An extension: build when a devbox first needs the image, not at once."""
    prebuilt_image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """An extension: an image in a registry equal to the Dockerfile's; built only if it cannot be pulled."""
    services: list[Service] | None = Field(default=None, max_length=100)
    system_setup_commands: list[str] | None = Field(default=None, max_length=1000)

    @property
    def base_reference(self) -> str | None:
        """Return the image of the Dockerfile's first FROM; None if there is no Dockerfile."""
        match = _FROM.search(self.dockerfile or "")
        return match[1] if match else None

    def shown(self) -> "BlueprintRequest":
        """Return a copy without the sealed values."""
        mounts = [mount.model_copy(update={"token": None}) for mount in self.code_mounts or []]
        services = [_without_password(service) for service in self.services or []]
        return self.model_copy(update={"code_mounts": mounts or None, "services": services or None})


class Blueprint(Record):
    """A blueprint as it is stored; its image has the same id."""

    name: str
    status: BlueprintStatus = BlueprintStatus.QUEUED
    state: Literal["created", "deleted"] = "created"
    parameters: BlueprintRequest
    """The parameters of the request; tokens and passwords in them are sealed."""
    metadata: dict[str, str] = Field(default_factory=dict)
    base_blueprint_id: str | None = None
    """The id of the base blueprint, resolved from name or id when this blueprint was created."""
    build_egress: Egress | None = None
    """Egress rules of its build, copied from the policy at creation; None is the server's default."""
    attempts: int = 0
    """Number of builds begun; a build that the server's end cuts short is begun again."""
    build_finish_time_ms: int | None = None
    failure_reason: BuildFailure | None = None
    error_message: str | None = None
    substituted_bases: dict[str, str] = Field(default_factory=dict)
    """Reference in a FROM -> the image that an alias put in its place, in this build or that of a base."""
    image_state: Literal["none", "present", "unwanted"] = "none"
    """`unwanted` from its deletion until nothing is based on it and it is removed."""

    def columns(self) -> Columns:
        """Index by name, status, and base."""
        return Columns(name=self.name, status=self.status, parent=self.base_blueprint_id)

    def view(self) -> "BlueprintView":
        """Return the blueprint as the wire shows it."""
        shown = self.parameters.shown()
        return BlueprintView.model_validate(
            {**self.model_dump(), "parameters": shown, "containerized_services": shown.services}
        )


class BlueprintView(Model):
    """A blueprint as the wire shows it."""

    id: str
    create_time_ms: int
    name: str
    parameters: BlueprintRequest
    state: Literal["created", "deleted"]
    status: BlueprintStatus
    base_blueprint_id: str | None = None
    build_finish_time_ms: int | None = None
    containerized_services: list[Service] | None = None
    devbox_capabilities: list[Literal["unknown", "docker_in_docker"]] = Field(default_factory=list)
    failure_reason: BuildFailure | None = None
    error_message: str | None = None
    """An extension: the reason why the build failed, in words."""
    substituted_bases: dict[str, str] = Field(default_factory=dict)
    """An extension: reference in a FROM -> the image that an alias put in its place."""
    is_public: bool = False
    metadata: dict[str, str] = Field(default_factory=dict)


class BlueprintListView(Model):
    """A page of blueprints."""

    blueprints: list[BlueprintView]
    has_more: bool
    total_count: int | None = None


class BuildLogLine(Model):
    """A line of a build's log."""

    level: str = "info"
    message: str
    timestamp_ms: int


class BuildLogView(Model):
    """A build's log, oldest first."""

    blueprint_id: str
    logs: list[BuildLogLine]


class BuildLogUpdate(BuildLogLine):
    """A streamed line of the log (an extension), with the offset to resume the stream from."""

    offset: int


class BlueprintPreviewView(Model):
    """A Dockerfile that describes a whole build."""

    dockerfile: str


def _without_password(service: Service) -> Service:
    if service.credentials is None:
        return service
    hidden = service.credentials.model_copy(update={"password": HIDDEN})
    return service.model_copy(update={"credentials": hidden})
