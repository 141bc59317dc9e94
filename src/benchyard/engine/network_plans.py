"""From a network policy to what a devbox gets: a network or none, and which doors; nothing is opened here."""

from collections.abc import Mapping
from dataclasses import dataclass

from benchyard.devboxes.base import Network
from benchyard.gateway.egress_rules import Block, Rules
from benchyard.models.network_policies import AllowedCidr, Egress
from benchyard.models.trials import TrialNetwork

PROXY_PORT = 3128
"""Of the door to the egress proxy: a devbox's loopback is its own, so that it is free at the start."""
_PROXIED = ("http_proxy", "https_proxy", "all_proxy")
_NOT_PROXIED = "localhost,127.0.0.1"


@dataclass(frozen=True)
class NetworkPlan:
    """How a devbox is connected."""

    network: Network
    gateway: bool = False
    """Whether it may have a door to the gateway."""
    egress: Rules | None = None
    """What its door to the egress proxy lets through; None where it has none."""

    def word(self, *, asks_models: bool) -> TrialNetwork:
        """What people call it."""
        if self.network is Network.HOST:
            return "open"
        if self.egress is not None and self.egress.allow_all:
            return "open"
        if self.egress is not None and (self.egress.hostnames or self.egress.blocks):
            return "allow-list"
        return "gateway" if asks_models else "none"

    def variables(self) -> Mapping[str, str]:
        """What programs in the devbox have to be told, to find their way out."""
        if self.egress is None:
            return {}
        proxy = f"http://127.0.0.1:{PROXY_PORT}"
        told = {**dict.fromkeys(_PROXIED, proxy), "no_proxy": _NOT_PROXIED}
        # Some programs read these, some those, and nobody both.
        return {**told, **{name.upper(): value for name, value in told.items()}}


def plan_of(policy: Egress) -> NetworkPlan:
    """The plan that a policy makes; raises UsageError for rules that are none."""
    if policy.allow_all:
        return NetworkPlan(Network.HOST, gateway=True)
    rules = rules_of(policy)
    has_rules = bool(rules.hostnames or rules.blocks)
    return NetworkPlan(Network.NONE, policy.allow_agent_gateway, rules if has_rules else None)


def phased(policy: Egress) -> NetworkPlan:
    """The plan of a devbox whose policy changes while it runs: no network of its own, and always a door."""
    rules = Rules.of(allow_all=True) if policy.allow_all else rules_of(policy)
    return NetworkPlan(Network.NONE, gateway=policy.allow_all or policy.allow_agent_gateway, egress=rules)


def rules_of(policy: Egress) -> Rules:
    """A policy's rules as the proxy takes them; raises UsageError."""
    return Rules.of(policy.allowed_hostnames, [_block(each) for each in policy.allowed_cidrs])


def _block(allowed: AllowedCidr) -> Block:
    if not allowed.ports:
        return Block.of(allowed.cidr)
    # What is for UDP alone lets nothing through: proxies carry TCP.
    ranges = [(rule.port, rule.end_port or rule.port) for rule in allowed.ports if rule.protocol != "UDP"]
    return Block.of(allowed.cidr, ranges)
