"""A blueprint: how an image for devboxes is built, and how far that is."""

import re
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from benchyard.models.base import Columns, Metadata, Model, Record, ShortText, WireBool
from benchyard.models.launch import CodeMount, LaunchParameters
from benchyard.models.network_policies import Egress

_FROM = re.compile(r"^[^\S\n]*FROM\s+(?:--\S+\s+)*(\S+)", re.IGNORECASE | re.MULTILINE)
HIDDEN = "***"
"""Shown in the place of what is kept sealed."""

BlueprintName = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]
BuildFailure = Literal["out_of_memory", "out_of_disk", "build_failed"]


class BlueprintStatus(StrEnum):
    """How far a build is."""

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
    """A stored object, a tar or a tgz, as the folder that COPY and ADD look into."""

    type: Literal["object"] = "object"
    object_id: str = Field(min_length=1, max_length=128)


class ServiceCredentials(Model):
    """How to log in where a service's image comes from."""

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
    """The body of a create call, and what a blueprint keeps of it."""

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
    """An extension: built when a devbox first needs it, not at once."""
    prebuilt_image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """An extension: what the Dockerfile makes, where it can be had from a registry; else that is built."""
    services: list[Service] | None = Field(default=None, max_length=100)
    system_setup_commands: list[str] | None = Field(default=None, max_length=1000)

    @property
    def base_reference(self) -> str | None:
        """What its Dockerfile begins with; None where there is none to read."""
        found = _FROM.search(self.dockerfile or "")
        return found[1] if found else None

    def shown(self) -> "BlueprintRequest":
        """The same without what is kept sealed."""
        mounts = [mount.model_copy(update={"token": None}) for mount in self.code_mounts or []]
        services = [_without_password(service) for service in self.services or []]
        return self.model_copy(update={"code_mounts": mounts or None, "services": services or None})


class Blueprint(Record):
    """A blueprint as it is kept; its id is also its image's."""

    name: str
    status: BlueprintStatus = BlueprintStatus.QUEUED
    state: Literal["created", "deleted"] = "created"
    parameters: BlueprintRequest
    """As asked for; tokens and passwords in it are sealed."""
    metadata: dict[str, str] = Field(default_factory=dict)
    base_blueprint_id: str | None = None
    """The base, found by name or id when the blueprint was made."""
    build_egress: Egress | None = None
    """What its build may reach, as its policy said when it was made; None is what the server has for all."""
    attempts: int = 0
    """How many builds of it were begun; a server's end in the middle makes another one necessary."""
    build_finish_time_ms: int | None = None
    failure_reason: BuildFailure | None = None
    error_message: str | None = None
    substituted_bases: dict[str, str] = Field(default_factory=dict)
    """What a FROM named -> the image that an alias put in its place, in its own build or one below it."""
    image_state: Literal["none", "present", "unwanted"] = "none"
    """`unwanted` from its deletion on, until nothing stands on it and it is removed."""

    def columns(self) -> Columns:
        """Found by name, status, and base."""
        return Columns(name=self.name, status=self.status, parent=self.base_blueprint_id)

    def view(self) -> "BlueprintView":
        """As the wire shows it."""
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
    """An extension: why the build failed, in words."""
    substituted_bases: dict[str, str] = Field(default_factory=dict)
    """An extension: what a FROM named, and the image that an alias put in its place."""
    is_public: bool = False
    metadata: dict[str, str] = Field(default_factory=dict)


class BlueprintListView(Model):
    """One page of blueprints."""

    blueprints: list[BlueprintView]
    has_more: bool
    total_count: int | None = None


class BuildLogLine(Model):
    """One line of a build's log."""

    level: str = "info"
    message: str
    timestamp_ms: int


class BuildLogView(Model):
    """A build's log, oldest first."""

    blueprint_id: str
    logs: list[BuildLogLine]


class BuildLogUpdate(BuildLogLine):
    """A line as it is streamed (an extension), with the offset to go on from after it."""

    offset: int


class BlueprintPreviewView(Model):
    """A Dockerfile that describes a whole build."""

    dockerfile: str


def _without_password(service: Service) -> Service:
    if service.credentials is None:
        return service
    hidden = service.credentials.model_copy(update={"password": HIDDEN})
    return service.model_copy(update={"credentials": hidden})
