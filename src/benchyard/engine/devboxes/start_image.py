"""Start image of a devbox: a blueprint, an image, a snapshot or the default; built first if necessary."""

from dataclasses import dataclass, field
from typing import Protocol

from benchyard.devboxes.base import Capability
from benchyard.engine.context import EngineContext
from benchyard.errors import NotFound, NotSupported, UsageError
from benchyard.models.blueprints import Blueprint, BlueprintStatus, Service
from benchyard.models.devboxes import Devbox, DevboxRequest, MountedAgent
from benchyard.models.launch import AgentMount, LaunchParameters
from benchyard.models.pages import Query
from benchyard.models.scenarios import Scenario
from benchyard.models.snapshots import Snapshot, SnapshotStatus
from benchyard.store.collection import Collection

DEFAULT_IMAGE = "host"
_CUSTOM = ("custom_cpu_cores", "custom_gb_memory", "custom_disk_size")


@dataclass(frozen=True)
class StartImage:
    """An image to start from, and its settings."""

    image: str
    blueprint_id: str | None = None
    launch: LaunchParameters = field(default_factory=LaunchParameters)
    """Launch parameters for all that the devbox's own ones leave open."""
    services: tuple[Service, ...] = ()
    """Services that can run beside the devbox."""


@dataclass(frozen=True)
class ImageResolver:
    """Finds the start image that a request names."""

    tools: EngineContext
    snapshots: Collection[Snapshot]
    blueprints: Collection[Blueprint]

    async def find(self, request: DevboxRequest) -> StartImage:
        """Return the start image of a request; raises NotFound, or UsageError if it is not ready."""
        if request.snapshot_id is not None:
            return await self._snapshot(request.snapshot_id)
        if request.blueprint_id is not None:
            blueprint = await self.blueprints.find(request.blueprint_id)
        elif request.blueprint_name is not None:
            # Ids are accepted too: people use either.
            blueprint = await newest_build(self.blueprints, request.blueprint_name)
            blueprint = blueprint or await self.blueprints.find(request.blueprint_name)
        else:
            return StartImage(DEFAULT_IMAGE)
        require_image_support(self.tools)
        if blueprint is not None:
            check_is_built(blueprint)
            parameters = blueprint.parameters
            launch = parameters.launch_parameters or LaunchParameters()
            return StartImage(blueprint.id, blueprint.id, launch, tuple(parameters.services or ()))
        name = request.blueprint_id or request.blueprint_name or ""
        try:
            image = await self.tools.images.get(name)
        except NotFound as error:
            raise NotFound(
                f"no blueprint or image {name[:200]!r}; see `benchyard blueprint list` and "
                "`benchyard image list`"
            ) from error
        return StartImage(image.id, image.id)

    async def _snapshot(self, snapshot_id: str) -> StartImage:
        snapshot = await self.snapshots.find(snapshot_id)
        if snapshot is None or snapshot.status is SnapshotStatus.DELETED:
            raise NotFound(f"no snapshot {snapshot_id[:200]!r}; list them with /v1/devboxes/disk_snapshots")
        if snapshot.status is not SnapshotStatus.COMPLETE:
            raise UsageError(f"snapshot {snapshot_id} is {snapshot.status}; it must be complete")
        return StartImage(snapshot.id)


def require_image_support(tools: EngineContext) -> None:
    """Raise NotSupported where devboxes cannot start from other images than the machine's own system."""
    if Capability.IMAGES not in tools.host.capabilities:
        raise NotSupported("this server's driver cannot start other images; use the native driver")


async def newest_build(blueprints: Collection[Blueprint], name: str) -> Blueprint | None:
    """Return the newest complete build of a name, else its newest other build, else None."""
    created = {"name": name, "state": "created"}
    for where in ({**created, "status": BlueprintStatus.BUILD_COMPLETE.value}, created):
        page = await blueprints.page(Query(limit=1, where=where, include_total_count=False))
        if page.items:
            return page.items[0]
    return None


def check_is_built(blueprint: Blueprint) -> None:
    """Refuse a blueprint without a usable image: raises NotFound if deleted, else UsageError."""
    if blueprint.state == "deleted":
        raise NotFound(f"blueprint {blueprint.id} was deleted; see `benchyard blueprint list`")
    if blueprint.parameters.on_demand:
        return
    if blueprint.status is BlueprintStatus.FAILED:
        raise UsageError(
            f"the build of blueprint {blueprint.id} failed; see `benchyard blueprint logs {blueprint.id}`",
            status=blueprint.status,
        )
    if blueprint.status is not BlueprintStatus.BUILD_COMPLETE:
        raise UsageError(
            f"blueprint {blueprint.id} is {blueprint.status}; wait until its build is complete",
            status=blueprint.status,
        )


def merge_launch(defaults: LaunchParameters, own: LaunchParameters | None) -> LaunchParameters:
    """Return a devbox's own launch parameters, completed from those of its start image."""
    if own is None:
        return defaults
    if defaults == LaunchParameters():
        return own
    above, below = own.model_dump(exclude_none=True), defaults.model_dump(exclude_none=True)
    if "resource_size_request" in above:
        below = {name: value for name, value in below.items() if name not in _CUSTOM}
    nested, below_nested = above.pop("lifecycle", {}), below.pop("lifecycle", {})
    if "after_idle" in above or "after_idle" in nested:
        below.pop("after_idle", None)
        below_nested = {name: value for name, value in below_nested.items() if name != "after_idle"}
    lifecycle = {**below_nested, **nested}
    together = {**below, **above, **({"lifecycle": lifecycle} if lifecycle else {})}
    return LaunchParameters.model_validate(together)


def choose_services(launch: LaunchParameters, known: tuple[Service, ...]) -> list[Service]:
    """Return the services that a devbox asks for; raises UsageError for one that its blueprint lacks."""
    by_name = {service.name: service for service in known}
    for name in launch.required_services or []:
        if name not in by_name:
            raise UsageError(
                f"no service {name[:100]!r} here; a blueprint's `services` are what its devboxes can have",
                field="launch_parameters.required_services",
            )
    return [by_name[name] for name in dict.fromkeys(launch.required_services or [])]


class ImageBuilds(Protocol):
    """Source of images that are built on demand."""

    async def ready(self, blueprint_id: str) -> None:
        """Build a blueprint that is built on demand, if necessary; raises BuildFailed."""

    async def unbuilt(self, blueprint_id: str) -> str | None:
        """Describe the build that a blueprint still needs; None if its image is there."""


class AgentFolders(Protocol):
    """Source of the agents that devboxes show."""

    async def provide(self, devbox: Devbox) -> Devbox:
        """Install all agents of a devbox, and return its record with their places; raises InstallFailed."""

    async def mount_of(self, mount: AgentMount) -> MountedAgent:
        """Return the agent that a devbox is to show; raises NotFound or UsageError."""


class Prerequisites:
    """Builds images and installs agents before devboxes need them."""

    def __init__(self, builds: ImageBuilds, agents: AgentFolders) -> None:
        self.builds = builds
        self.agents = agents

    async def build_images(self, scenario: Scenario) -> None:
        """Build the images that a scenario's devboxes start from, if necessary; raises BuildFailed."""
        environment = scenario.environment
        for blueprint_id in (environment and environment.blueprint_id, scenario.scoring_blueprint_id):
            if blueprint_id:
                await self.builds.ready(blueprint_id)

    async def unbuilt(self, scenario: Scenario) -> list[str]:
        """Describe the builds that a scenario's images still need; empty if they are there."""
        environment = scenario.environment
        ids = (environment.blueprint_id if environment else None, scenario.scoring_blueprint_id)
        names = [await self.builds.unbuilt(each) for each in dict.fromkeys(ids) if each]
        return [name for name in names if name]

    async def build_scoring_image(self, scenario: Scenario) -> None:
        """Build the image that a scenario is graded in, if necessary; raises BuildFailed."""
        if scenario.scoring_blueprint_id:
            await self.builds.ready(scenario.scoring_blueprint_id)

    async def provide(self, devbox: Devbox) -> Devbox:
        """Provide a devbox's image and agents, and return its record; raises BuildFailed or InstallFailed."""
        if devbox.blueprint_id:
            await self.builds.ready(devbox.blueprint_id)
        return await self.agents.provide(devbox)
