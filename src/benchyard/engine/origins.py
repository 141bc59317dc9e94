"""What a devbox starts from: a blueprint, an imported image, a snapshot, or the default image."""

from dataclasses import dataclass, field
from typing import Any

from benchyard.devboxes.base import Capability
from benchyard.engine.tools import Tools
from benchyard.errors import NotFound, NotSupported, UsageError
from benchyard.models.blueprints import Blueprint, BlueprintStatus, Service
from benchyard.models.devboxes import DevboxRequest
from benchyard.models.launch import LaunchParameters
from benchyard.models.pages import Query
from benchyard.models.snapshots import Snapshot, SnapshotStatus
from benchyard.store.collection import Collection

DEFAULT_IMAGE = "host"
_CUSTOM = ("custom_cpu_cores", "custom_gb_memory", "custom_disk_size")


@dataclass(frozen=True)
class Origin:
    """An image, and what comes with it."""

    image: str
    blueprint_id: str | None = None
    launch: LaunchParameters = field(default_factory=LaunchParameters)
    """What holds unless the devbox says otherwise."""
    services: tuple[Service, ...] = ()
    """What can run beside a devbox."""


@dataclass(frozen=True)
class Origins:
    """Finds what a request names."""

    tools: Tools
    snapshots: Collection[Snapshot]
    blueprints: Collection[Blueprint]

    async def find(self, request: DevboxRequest) -> Origin:
        """What the devbox of a request starts from; raises NotFound, or UsageError if it is not ready."""
        if request.snapshot_id is not None:
            return await self._snapshot(request.snapshot_id)
        if request.blueprint_id is not None:
            blueprint = await self.blueprints.find(request.blueprint_id)
        elif request.blueprint_name is not None:
            # An id is taken too: people name an image by either.
            blueprint = await newest_built(self.blueprints, request.blueprint_name)
            blueprint = blueprint or await self.blueprints.find(request.blueprint_name)
        else:
            return Origin(DEFAULT_IMAGE)
        require_images(self.tools)
        if blueprint is not None:
            return _origin(blueprint)
        return await self._image(request.blueprint_id or request.blueprint_name or "")

    async def _image(self, named: str) -> Origin:
        try:
            image = await self.tools.images.get(named)
        except NotFound as error:
            raise NotFound(
                f"no blueprint or image {named[:200]!r}; see `benchyard blueprint list` and "
                "`benchyard image list`"
            ) from error
        return Origin(image.id, image.id)

    async def _snapshot(self, snapshot_id: str) -> Origin:
        snapshot = await self.snapshots.find(snapshot_id)
        if snapshot is None or snapshot.status is SnapshotStatus.DELETED:
            raise NotFound(f"no snapshot {snapshot_id[:200]!r}; list them with /v1/devboxes/disk_snapshots")
        if snapshot.status is not SnapshotStatus.COMPLETE:
            raise UsageError(f"snapshot {snapshot_id} is {snapshot.status}; it must be complete")
        return Origin(snapshot.id)


def require_images(tools: Tools) -> None:
    """Raise NotSupported where devboxes cannot start from other images than the machine's own system."""
    capabilities, _ = tools.host.report()
    if Capability.IMAGES not in capabilities:
        raise NotSupported("this server's driver cannot start other images; use the native driver")


async def newest_built(blueprints: Collection[Blueprint], name: str) -> Blueprint | None:
    """The newest good build of a name, else the newest one that is not good yet, else None."""
    created = {"name": name, "state": "created"}
    for where in ({**created, "status": BlueprintStatus.BUILD_COMPLETE.value}, created):
        page = await blueprints.page(Query(limit=1, where=where, include_total_count=False))
        if page.items:
            return page.items[0]
    return None


def check_built(blueprint: Blueprint) -> None:
    """Refuse a blueprint that nothing can start from: raises NotFound if deleted, else UsageError."""
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


def merged(defaults: LaunchParameters, own: LaunchParameters | None) -> LaunchParameters:
    """A devbox's own launch parameters over those of what it starts from."""
    if own is None:
        return defaults
    if defaults == LaunchParameters():
        return own
    given, below = _plain(own), _plain(defaults)
    if "resource_size_request" in given:
        below = {name: value for name, value in below.items() if name not in _CUSTOM}
    nested, below_nested = given.pop("lifecycle", {}), below.pop("lifecycle", {})
    if "after_idle" in given or "after_idle" in nested:
        below.pop("after_idle", None)
        below_nested = {name: value for name, value in below_nested.items() if name != "after_idle"}
    lifecycle = {**below_nested, **nested}
    together = {**below, **given, **({"lifecycle": lifecycle} if lifecycle else {})}
    return LaunchParameters.model_validate(together)


def chosen(launch: LaunchParameters, known: tuple[Service, ...]) -> list[Service]:
    """The services a devbox asks for; raises UsageError for one that its blueprint does not have."""
    by_name = {service.name: service for service in known}
    for name in launch.required_services or []:
        if name not in by_name:
            raise UsageError(
                f"no service {name[:100]!r} here; a blueprint's `services` are what its devboxes can have",
                field="launch_parameters.required_services",
            )
    return [by_name[name] for name in dict.fromkeys(launch.required_services or [])]


def _origin(blueprint: Blueprint) -> Origin:
    check_built(blueprint)
    parameters = blueprint.parameters
    return Origin(
        image=blueprint.id,
        blueprint_id=blueprint.id,
        launch=parameters.launch_parameters or LaunchParameters(),
        services=tuple(parameters.services or ()),
    )


def _plain(launch: LaunchParameters) -> dict[str, Any]:
    return launch.model_dump(exclude_none=True)
