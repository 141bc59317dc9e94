"""Doors of devboxes to the hosts on their allow-lists: opened here, served by the gateway."""

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchyard.devboxes.base import Capability, Network
from benchyard.engine.background import retry_store
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.request_checks import NETWORK_KEY, network_from_metadata
from benchyard.engine.network.gateway_doors import EgressService
from benchyard.engine.network.policies import PROXY_PORT, NetworkPlan, phased_plan, plan_of
from benchyard.errors import BenchyardError, NotSupported, NotYet, UsageError
from benchyard.gateway.egress.rules import Rules
from benchyard.hosts.cancellation import run_to_end
from benchyard.models.devboxes import Devbox, DevboxPurpose, DevboxRequest
from benchyard.models.network_policies import Egress

_NO_GATEWAY = (
    "its network policy does not allow the gateway; allow it with `benchyard network-policy update NAME "
    "--allow-gateway`, or take another policy"
)

_log = logging.getLogger(__name__)


def plan_of_devbox(tools: EngineContext, devbox: Devbox) -> NetworkPlan:
    """Return a devbox's network plan: by its policy, else its metadata, else the server's default."""
    usual = network_from_metadata(devbox.metadata, Network(tools.settings.devbox_network))
    if devbox.purpose is not None and devbox.purpose.agent_egress is not None:
        return phased_plan(devbox.egress or _usual_egress(usual))
    if devbox.egress is not None:
        return plan_of(devbox.egress)
    # The default allows a door to the gateway, which jobs need; it is opened only for them.
    return NetworkPlan(usual, gateway=True)


def check_egress(tools: EngineContext, request: DevboxRequest, egress: Egress | None) -> None:
    """Refuse a policy that this server cannot enforce, or that contradicts the request."""
    if egress is None:
        return
    if NETWORK_KEY in (request.metadata or {}):
        raise UsageError(f"give a network policy or the metadata {NETWORK_KEY}, not both")
    plan = plan_of(egress)
    if request.gateways and not plan.gateway:
        raise UsageError(_NO_GATEWAY, field="gateways")
    check_plan(tools, plan)


def check_plan(tools: EngineContext, plan: NetworkPlan) -> None:
    """Refuse a plan that this server cannot enforce for lack of a gateway or of its driver's capabilities."""
    if plan.network is Network.NONE and Capability.NO_NETWORK not in tools.host.capabilities:
        raise NotSupported(
            "this server's driver cannot keep devboxes from the network, so it cannot keep a network policy; "
            "use the native driver, or a policy with allow_all"
        )
    if plan.egress is not None and tools.egress is None:
        raise NotYet("allow-lists are not served yet: this server runs no gateway", feature="allow-lists")


def check_phases(tools: EngineContext, purpose: DevboxPurpose | None) -> None:
    """Refuse a policy that changes while a devbox runs if this server has no gateway to enforce it."""
    if purpose is None or purpose.agent_egress is None:
        return
    if Capability.NO_NETWORK not in tools.host.capabilities or tools.egress is None:
        raise NotSupported("this server cannot change what a devbox reaches; use the native driver")


def purpose_with_scorers(
    tools: EngineContext,
    request: DevboxRequest,
    purpose: DevboxPurpose | None,
    own: Egress | None,
    scorers: Egress,
) -> DevboxPurpose | None:
    """Return a devbox's purpose; with isolation `live` it holds the agent's egress, which scorers replace.

    Raises NotSupported if this server cannot enforce the egress of scorers.
    """
    if purpose is None or purpose.isolation != "live":
        if scorers != Egress():
            check_plan(tools, plan_of(scorers))
        return purpose
    if purpose.agent_egress is not None:
        return purpose
    usual = network_from_metadata(request.metadata or {}, Network(tools.settings.devbox_network))
    return purpose.model_copy(update={"agent_egress": own or _usual_egress(usual)})


def require_gateway(tools: EngineContext, devbox: Devbox) -> None:
    """Raise UsageError if a devbox's policy gives it no door to the gateway."""
    if not plan_of_devbox(tools, devbox).gateway:
        raise UsageError(f"devbox {devbox.id}: {_NO_GATEWAY}")


async def begin_agent_phase(tools: EngineContext, devbox: Devbox) -> None:
    """Switch a devbox to its agent's egress; a second call changes nothing."""
    if devbox.purpose is not None and devbox.purpose.agent_egress is not None:
        await _switch(tools, devbox, devbox.purpose.agent_egress)


@asynccontextmanager
async def scoring_phase(
    tools: EngineContext, devbox: Devbox, scorers: Egress | None
) -> AsyncIterator[Devbox]:
    """Give a devbox that is scored while it runs the egress of its scorers within this context."""
    if scorers is None or devbox.purpose is None or devbox.purpose.agent_egress is None:
        yield devbox
        return
    try:
        yield await _switch(tools, devbox, scorers)
    finally:
        try:
            await run_to_end(begin_agent_phase(tools, devbox))
        except BenchyardError as error:
            # Its record has the agent's egress: the next opening of its door uses that.
            _log.warning("devbox %s does not reach what its agent may again: %s", devbox.id, error)


async def _switch(tools: EngineContext, devbox: Devbox, egress: Egress) -> Devbox:
    def changed(record: Devbox) -> Devbox:
        return record.model_copy(update={"egress": egress})

    # Store first: after a crash, the next server must not allow more than this.
    record = await retry_store(tools.live_devboxes.change, devbox.id, changed)
    await open_door(tools, record)
    return record


def _usual_egress(usual: Network) -> Egress:
    """Return the egress of a devbox without a policy."""
    return Egress(allow_all=usual is Network.HOST, allow_agent_gateway=True)


async def open_door(tools: EngineContext, devbox: Devbox) -> None:
    """Let a running devbox reach the hosts on its list; a second call changes nothing."""
    rules = plan_of_devbox(tools, devbox).egress
    if rules is None:
        return
    await serve_door(tools, devbox.id, rules)


async def serve_door(tools: EngineContext, devbox_id: str, rules: Rules) -> None:
    """Let a running devbox reach hosts by these rules; a second call changes nothing."""
    service = require_egress(tools)
    descriptor, _port = await tools.host.doors.open(devbox_id, PROXY_PORT)
    try:
        await service.open_egress(devbox_id, descriptor, rules)
    finally:
        os.close(descriptor)


def require_egress(tools: EngineContext) -> EgressService:
    """Return the part that serves allow-lists; raises NotYet if there is none."""
    if tools.egress is None:
        raise NotYet("allow-lists are not served: this server runs no gateway", feature="allow-lists")
    return tools.egress


async def reopen_door(tools: EngineContext, devbox_id: str) -> None:
    """Let a devbox of an earlier server reach the hosts on its present list."""
    await open_door(tools, await tools.live_devboxes.get(devbox_id))


async def close_door(tools: EngineContext, devbox_id: str) -> None:
    """Close the egress door of a devbox that has ended or is suspended."""
    if tools.egress is not None:
        await tools.egress.close_egress(devbox_id)
