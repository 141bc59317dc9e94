"""The door through which a devbox reaches what is on its allow-list: opened here, served by the gateway.

Not by this server: what is served goes on while it is away.
"""

import os
from functools import partial

from benchyard.devboxes.base import Capability, Network
from benchyard.engine.launch import NETWORK_KEY, network
from benchyard.engine.network_plans import PROXY_PORT, NetworkPlan, phased, plan_of
from benchyard.engine.tools import Tools
from benchyard.engine.work import until_kept
from benchyard.errors import NotSupported, NotYet, UsageError
from benchyard.models.devboxes import Devbox, DevboxPurpose, DevboxRequest
from benchyard.models.network_policies import Egress


def planned(tools: Tools, devbox: Devbox) -> NetworkPlan:
    """How a devbox is connected: by its policy, else by its metadata, else as is usual on this server."""
    usual = network(devbox.metadata, Network(tools.settings.devbox_network))
    if devbox.purpose is not None and devbox.purpose.agent_egress is not None:
        return phased(devbox.egress or Egress(allow_all=usual is Network.HOST))
    if devbox.egress is not None:
        return plan_of(devbox.egress)
    return NetworkPlan(usual)


def check_egress(tools: Tools, request: DevboxRequest, egress: Egress | None) -> None:
    """Refuse a policy that this server cannot keep, or that the request contradicts."""
    if egress is None:
        return
    if NETWORK_KEY in (request.metadata or {}):
        raise UsageError(f"give a network policy or the metadata {NETWORK_KEY}, not both")
    plan = plan_of(egress)
    capabilities, _ = tools.host.report()
    if plan.network is Network.NONE and Capability.NO_NETWORK not in capabilities:
        raise NotSupported(
            "this server's driver cannot keep devboxes from the network, so it cannot keep a network policy; "
            "use the native driver, or a policy with allow_all"
        )
    if plan.egress is not None and tools.egress is None:
        raise NotYet("allow-lists are not served yet: this server runs no gateway", feature="allow-lists")


def check_phases(tools: Tools, purpose: DevboxPurpose | None) -> None:
    """Refuse what this server cannot keep: a policy that changes while a devbox runs needs the gateway."""
    if purpose is None or purpose.agent_egress is None:
        return
    capabilities, _ = tools.host.report()
    if Capability.NO_NETWORK not in capabilities or tools.egress is None:
        raise NotSupported("this server cannot change what a devbox reaches; use the native driver")


async def begin_agent_phase(tools: Tools, devbox: Devbox) -> None:
    """From now on the devbox reaches what its agent may; done again, it changes nothing."""
    if devbox.purpose is None or devbox.purpose.agent_egress is None:
        return
    agents = devbox.purpose.agent_egress

    def changed(record: Devbox) -> Devbox:
        return record.model_copy(update={"egress": agents})

    # Kept first: a server that is killed now must not open more than this when it comes back.
    await open_door(tools, await until_kept(partial(tools.roster.change, devbox.id, changed)))


async def open_door(tools: Tools, devbox: Devbox) -> None:
    """Let a devbox that runs reach what is on its list; done again, it changes nothing."""
    rules = planned(tools, devbox).egress
    if rules is None:
        return
    if tools.egress is None:
        raise NotYet("allow-lists are not served: this server runs no gateway", feature="allow-lists")
    descriptor, _port = await tools.host.doors.open(devbox.id, PROXY_PORT)
    try:
        await tools.egress.open_egress(devbox.id, descriptor, rules)
    finally:
        os.close(descriptor)


async def close_door(tools: Tools, devbox_id: str) -> None:
    """Let go of what a devbox that has ended, or rests, reached things by."""
    if tools.egress is not None:
        await tools.egress.close_egress(devbox_id)
