"""Devboxes for the API: create, use, change, suspend and end."""

import logging
from types import TracebackType
from typing import Self

from benchyard.devboxes.base import Network
from benchyard.engine.background import snapshot_key_prefix
from benchyard.engine.clock import now_ms
from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.devboxes.lifecycle import Lifecycle
from benchyard.engine.devboxes.reaper import Reaper
from benchyard.engine.devboxes.request_checks import (
    all_mounts,
    check_launch,
    check_request,
    network_from_metadata,
)
from benchyard.engine.devboxes.secrets import seal_values
from benchyard.engine.devboxes.services import require_services
from benchyard.engine.devboxes.sizes import resources
from benchyard.engine.devboxes.start_image import ImageResolver, Prerequisites, choose_services, merge_launch
from benchyard.engine.devboxes.states import BOOTING, ENDED, SUSPENDED, Move, devbox_usage
from benchyard.engine.devboxes.tunnel_rules import new_tunnel
from benchyard.engine.network.egress import check_egress, check_phases, purpose_with_scorers, require_gateway
from benchyard.engine.network.gateway_configs import GatewayConfigs
from benchyard.engine.network.gateway_doors import check_gateways, open_doors, with_door
from benchyard.engine.network.policies import NetworkPolicies
from benchyard.errors import BenchyardError, Conflict, NotFound, StillWaiting, UsageError
from benchyard.models.devboxes import (
    Devbox,
    DevboxChange,
    DevboxRequest,
    DevboxStatus,
    DevboxUsageView,
    StateTransition,
    WaitRequest,
)
from benchyard.models.gateway_configs import GatewayDoor, GatewayRequest, GatewayTokenView
from benchyard.models.launch import AgentMount, CodeMount, Mount, ObjectMount

HOLD_CREATE_SECONDS = 25.0
HOLD_RESUME_SECONDS = 1.0
HOLD_WAIT_SECONDS = 30.0

_log = logging.getLogger(__name__)


class Devboxes:
    """All devboxes of this server. Use as an async context manager."""

    def __init__(
        self,
        tools: EngineContext,
        image_resolver: ImageResolver,
        prerequisites: Prerequisites,
        gateways: GatewayConfigs,
        policies: NetworkPolicies,
    ) -> None:
        self.records = tools.live_devboxes.records
        self._tools = tools
        self._image_resolver = image_resolver
        self.prerequisites = prerequisites
        self._gateways = gateways
        self._policies = policies
        self._lifecycle = Lifecycle(tools, prerequisites)
        self._keeper = Reaper(tools, self._lifecycle)

    async def __aenter__(self) -> Self:
        self._tools.journal.open()
        await self._tools.live_devboxes.load()
        await self._keeper.reconcile()
        self._tools.work.start("keeper/watch", self._keeper.watch)
        self._tools.work.start("keeper/listen", self._keeper.listen)
        self._tools.work.start("keeper/clear", self._keeper.clear)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._tools.work.close()

    async def create(self, caller: Caller, request: DevboxRequest) -> Devbox:
        """Record a devbox and start it in the background; the same request again returns the same devbox."""
        try:
            devbox = await self._plan(caller, request)
        except UsageError:
            # Its blueprint or snapshot may be gone when the same request comes again.
            existing = await self.records.find(caller.id)
            if existing is None or existing.request_hash != caller.request_hash:
                raise
            return existing
        devbox, is_new = await self._tools.live_devboxes.add(devbox)
        if is_new:
            self._lifecycle.start(devbox.id)
        return devbox

    async def get(self, devbox_id: str) -> Devbox:
        """Return the devbox with this id; raises NotFound."""
        return await self._tools.live_devboxes.get(devbox_id)

    async def running(self, devbox_id: str) -> Devbox:
        """Return a devbox that is ready for work, and note that it is used.

        Raises NotFound, StillWaiting while it comes up, and Conflict if it is suspended or has ended.
        """
        devbox = await self._tools.live_devboxes.get(devbox_id)
        if devbox.status in BOOTING:
            raise StillWaiting(f"devbox {devbox_id} is still {devbox.status}; wait until it is running")
        if devbox.status in SUSPENDED:
            raise Conflict(f"devbox {devbox_id} is {devbox.status}; resume it first", status=devbox.status)
        if devbox.status in ENDED:
            raise Conflict(f"devbox {devbox_id} has ended; create another", status=devbox.status)
        self._keeper.touch(devbox_id)
        return devbox

    def touch(self, devbox_id: str) -> None:
        """Note that a devbox is being used."""
        self._keeper.touch(devbox_id)

    async def wait_until_booted(self, devbox_id: str) -> Devbox:
        """Return the devbox once it has booted, or as it is after a while."""
        return await self._tools.live_devboxes.wait(
            devbox_id, lambda record: record.status not in BOOTING, HOLD_CREATE_SECONDS
        )

    async def wait_until_resumed(self, devbox_id: str) -> Devbox:
        """Return the devbox once it has resumed, or as it is after a second."""
        return await self._tools.live_devboxes.wait(
            devbox_id, lambda record: record.status not in BOOTING, HOLD_RESUME_SECONDS
        )

    async def wait(self, devbox_id: str, request: WaitRequest) -> Devbox:
        """Return the devbox once it has one of the statuses; raises StillWaiting when the time is over."""
        seconds = HOLD_WAIT_SECONDS if request.timeout_seconds is None else request.timeout_seconds
        devbox = await self._tools.live_devboxes.wait(
            devbox_id, lambda record: record.status in request.statuses, min(seconds, HOLD_WAIT_SECONDS)
        )
        if devbox.status not in request.statuses:
            raise StillWaiting(f"devbox {devbox_id} is {devbox.status}; ask again", status=devbox.status)
        return devbox

    async def update(self, devbox_id: str, change: DevboxChange) -> Devbox:
        """Change name or metadata; None leaves them, empty clears them."""
        if change.metadata is not None:
            network_from_metadata(change.metadata, Network.NONE)

        def apply(devbox: Devbox) -> Devbox:
            fields: dict[str, object] = {}
            if change.name is not None:
                fields["name"] = change.name or None
            if change.metadata is not None:
                fields["metadata"] = change.metadata
            return devbox.model_copy(update=fields) if fields else devbox

        return await self._tools.live_devboxes.change(devbox_id, apply)

    async def shutdown(self, devbox_id: str, *, force: bool) -> Devbox:
        """End a devbox; raises Conflict while a snapshot of it is being taken, unless forced."""
        if self._tools.work.under_way(snapshot_key_prefix(devbox_id)) and not force:
            raise Conflict(f"a snapshot of devbox {devbox_id} is in progress; wait for it or give force=true")
        return await self._lifecycle.end(devbox_id, Move(DevboxStatus.SHUTDOWN, shutdown="api_shutdown"))

    async def suspend(self, devbox_id: str) -> Devbox:
        """Begin to suspend a devbox: its processes end, its disk is kept."""
        return await self._lifecycle.suspend(devbox_id)

    async def retire(self, devbox_id: str) -> None:
        """End the processes of a devbox that will not be used again, and wait for that."""
        await self._lifecycle.retire(devbox_id)

    async def resume(self, devbox_id: str) -> Devbox:
        """Begin to resume a suspended devbox; its launch commands and entrypoint run again."""
        return await self._lifecycle.resume(devbox_id)

    async def keep_alive(self, devbox_id: str) -> None:
        """Restart the idle clock."""
        await self.running(devbox_id)

    async def open_gateway(self, devbox_id: str, caller: Caller, request: GatewayRequest) -> GatewayTokenView:
        """Open a door of a running devbox to an HTTP API; the same request again returns the same token.

        Raises UsageError for a missing config or secret, and the errors of `running`.
        """
        devbox = await self.running(devbox_id)
        if not any(door.id == caller.id for door in devbox.doors):
            require_gateway(self._tools, devbox)
            door = await self._gateways.door(caller.id, request)
            door = door.model_copy(update={"request_hash": caller.request_hash})
            opened = await self._tools.opener.opened(devbox_id, door)
            devbox = await self._tools.live_devboxes.change(
                devbox_id, lambda record: with_door(record, opened)
            )
        known = next(door for door in devbox.doors if door.id == caller.id)
        if known.request_hash != caller.request_hash:
            raise UsageError("this x-request-id was used with another body; send a new one")
        return GatewayTokenView(
            token=self._tools.vault.open(str(known.token)),
            url=str(known.url),
            devbox_id=devbox_id,
            endpoint=known.endpoint,
            gateway_config_id=known.gateway_config_id,
            auth_mechanism=known.auth_mechanism,
        )

    async def reopen_doors(self) -> None:
        """Reopen the doors of running devboxes to HTTP APIs; failures are written to the log."""
        for devbox in self._tools.live_devboxes.live():
            if devbox.status is DevboxStatus.RUNNING and devbox.doors:
                try:
                    await open_doors(self._tools.opener, self._tools.host, devbox)
                except BenchyardError as error:
                    _log.warning("a door of devbox %s could not be opened again: %s", devbox.id, error)

    async def usage(self, devbox_id: str) -> DevboxUsageView:
        """Return a devbox's use of cpu, memory and disk since it was created."""
        return devbox_usage(await self._tools.live_devboxes.get(devbox_id), now_ms())

    async def _plan(self, caller: Caller, request: DevboxRequest) -> Devbox:
        check_request(request)
        given = all_mounts(request)
        mounts = [await self._check(mount) for mount in given if not isinstance(mount, AgentMount)]
        agents = [
            await self.prerequisites.agents.mount_of(mount)
            for mount in given
            if isinstance(mount, AgentMount)
        ]
        doors = await self._doors(caller, request)
        try:
            secrets = [await self._tools.secrets.value(name) for name in (request.secrets or {}).values()]
        except NotFound as error:
            raise UsageError(error.message, field="secrets") from error
        origin = await self._image_resolver.find(request)
        launch = merge_launch(origin.launch, request.launch_parameters)
        resources(launch)
        check_launch(launch)
        egress = await self._policies.egress(launch.network_policy_id)
        purpose = await self._policies.of_agent(caller.purpose)
        check_egress(self._tools, request, egress)
        scorers = await self._policies.of_scorers(purpose.scoring_network if purpose else None)
        if scorers is not None:
            purpose = purpose_with_scorers(self._tools, request, purpose, egress, scorers)
        check_phases(self._tools, purpose)
        beside = choose_services(launch, origin.services)
        if beside:
            require_services(self._tools)
        now = now_ms()
        return Devbox(
            id=caller.id,
            create_time_ms=now,
            request_hash=caller.request_hash,
            name=request.name or None,
            metadata=request.metadata or {},
            image=origin.image,
            blueprint_id=origin.blueprint_id,
            snapshot_id=request.snapshot_id,
            launch_parameters=launch,
            tunnel=new_tunnel(request.tunnel, launch, now) if request.tunnel else None,
            environment_variables=request.environment_variables or {},
            secrets=request.secrets or {},
            given=seal_values(self._tools.vault, secrets),
            entrypoint=request.entrypoint or None,
            mounts=mounts,
            agents=agents,
            doors=doors,
            services=beside,
            state_transitions=[StateTransition(status=DevboxStatus.PROVISIONING, transition_time_ms=now)],
            initiator_type=caller.initiator,
            initiator_id=caller.run_id or caller.scorer_id or caller.key_id,
            purpose=purpose,
            egress=egress,
        )

    async def _doors(self, caller: Caller, request: DevboxRequest) -> list[GatewayDoor]:
        wanted = request.gateways or {}
        check_gateways(wanted, {**(request.environment_variables or {}), **(request.secrets or {})})
        doors = await self._gateways.doors(caller.id, wanted)
        for door in doors:
            # Refuse invalid headers and secrets now, not when the devbox comes up.
            await self._tools.opener.upstream(door)
        return doors

    async def _check(self, mount: Mount) -> Mount:
        if isinstance(mount, ObjectMount):
            await self._tools.objects.content(mount.object_id)
        if isinstance(mount, CodeMount) and mount.token:
            return mount.model_copy(update={"token": self._tools.vault.seal(mount.token)})
        return mount
