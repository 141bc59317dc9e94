"""Network policies, and the plan each makes: a network or none, and which doors."""

from collections.abc import Mapping
from dataclasses import dataclass

from benchyard.devboxes.base import Network
from benchyard.engine.clock import now_ms
from benchyard.errors import Conflict, NotFound, UsageError
from benchyard.gateway.egress.rules import Block, Rules
from benchyard.models.devboxes import DevboxPurpose
from benchyard.models.network_policies import (
    AllowedCidr,
    Egress,
    NetworkPolicy,
    NetworkPolicyChange,
    NetworkPolicyRequest,
)
from benchyard.models.pages import Page, Query
from benchyard.models.trials import TrialNetwork
from benchyard.store.collection import Collection

PROXY_PORT = 3128
"""Port of the door to the egress proxy: free at the start, since each devbox has its own loopback."""
_PROXIED = ("http_proxy", "https_proxy", "all_proxy")
_NOT_PROXIED = "localhost,127.0.0.1"


@dataclass(frozen=True)
class NetworkPlan:
    """Network and doors of a devbox."""

    network: Network
    gateway: bool = False
    """True if it may have a door to the gateway."""
    egress: Rules | None = None
    """Rules of its door to the egress proxy; None if it has no such door."""

    def word(self, *, asks_models: bool) -> TrialNetwork:
        """Return the word for this network in lists and reports."""
        if self.network is Network.HOST:
            return "open"
        if self.egress is not None and self.egress.allow_all:
            return "open"
        if self.egress is not None and (self.egress.hostnames or self.egress.blocks):
            return "allow-list"
        return "gateway" if asks_models else "none"

    def variables(self) -> Mapping[str, str]:
        """Return the variables with which programs in the devbox find the proxy."""
        if self.egress is None:
            return {}
        proxy = f"http://127.0.0.1:{PROXY_PORT}"
        variables = {**dict.fromkeys(_PROXIED, proxy), "no_proxy": _NOT_PROXIED}
        # Programs read either the lower or the upper case names, so set both.
        return {**variables, **{name.upper(): value for name, value in variables.items()}}


def plan_of(policy: Egress) -> NetworkPlan:
    """Return the plan of a policy; raises UsageError for invalid rules."""
    if policy.allow_all:
        return NetworkPlan(Network.HOST, gateway=True)
    rules = proxy_rules(policy)
    has_rules = bool(rules.hostnames or rules.blocks)
    return NetworkPlan(Network.NONE, policy.allow_agent_gateway, rules if has_rules else None)


def phased_plan(policy: Egress) -> NetworkPlan:
    """Return the plan of a devbox whose policy changes while it runs: no network, but always a door."""
    rules = Rules.of(allow_all=True) if policy.allow_all else proxy_rules(policy)
    return NetworkPlan(Network.NONE, gateway=policy.allow_all or policy.allow_agent_gateway, egress=rules)


def proxy_rules(policy: Egress) -> Rules:
    """Return a policy's rules in the form of the proxy; raises UsageError."""
    return Rules.of(policy.allowed_hostnames, [_block(allowed_cidr) for allowed_cidr in policy.allowed_cidrs])


def _block(allowed: AllowedCidr) -> Block:
    if not allowed.ports:
        return Block.of(allowed.cidr)
    # Rules for UDP alone allow nothing: proxies carry TCP.
    ranges = [(rule.port, rule.end_port or rule.port) for rule in allowed.ports if rule.protocol != "UDP"]
    return Block.of(allowed.cidr, ranges)


POLICY_PREFIX = "npol_"
_WORDS = {"none": Egress(), "host": Egress(allow_all=True)}
"""Words that a scenario may use for its scorers' network instead of a policy."""


class NetworkPolicies:
    """The policies of this server."""

    def __init__(self, records: Collection[NetworkPolicy]) -> None:
        self._records = records

    async def create(self, id: str, request: NetworkPolicyRequest, request_hash: str | None) -> NetworkPolicy:
        """Store a new policy; raises UsageError if its name is taken or a rule is invalid."""
        egress = Egress().with_change(request)
        plan_of(egress)
        now = now_ms()
        record = NetworkPolicy(
            id=id,
            create_time_ms=now,
            update_time_ms=now,
            request_hash=request_hash,
            name=request.name,
            description=request.description or None,
            egress=egress,
        )
        try:
            stored, _ = await self._records.insert_once(record)
        except Conflict as error:
            raise _name_conflict(request.name) from error
        return stored

    async def get(self, id: str) -> NetworkPolicy:
        """Return the policy with this id; raises NotFound."""
        found = await self._records.find(id)
        if found is None:
            raise NotFound(
                f"no network policy {id[:200]!r}; `benchyard network-policy list` shows those there are"
            )
        return found

    async def update(self, id: str, change: NetworkPolicyChange) -> NetworkPolicy:
        """Change the given fields; existing devboxes keep the policy as it was at their creation."""

        def apply(policy: NetworkPolicy) -> NetworkPolicy:
            egress = policy.egress.with_change(change)
            plan_of(egress)
            fields: dict[str, object] = {"egress": egress, "update_time_ms": now_ms()}
            if change.name is not None:
                fields["name"] = change.name
            if change.description is not None:
                fields["description"] = change.description or None
            return policy.model_copy(update=fields)

        await self.get(id)
        try:
            return await self._records.change(id, apply)
        except Conflict as error:
            raise _name_conflict(change.name or "") from error

    async def delete(self, id: str) -> NetworkPolicy:
        """Delete a policy; devboxes created with it keep its content."""
        policy = await self.get(id)
        await self._records.delete(id)
        return policy

    async def page(self, query: Query) -> Page[NetworkPolicy]:
        """Return a page of policies, newest first."""
        return await self._records.page(query)

    async def egress(
        self, policy_id: str | None, field: str = "launch_parameters.network_policy_id"
    ) -> Egress | None:
        """Return the egress of a policy; None if no policy is named. Raises UsageError for an unknown one."""
        if not policy_id:
            return None
        try:
            return (await self.get(policy_id)).egress
        except NotFound as error:
            raise UsageError(error.message, field=field) from error

    async def of_agent(self, purpose: DevboxPurpose | None) -> DevboxPurpose | None:
        """Return the purpose with its agent's egress; raises UsageError for an unknown policy."""
        if purpose is None or purpose.agent_network_policy is None:
            return purpose
        found = await self.find(purpose.agent_network_policy, "agent_network_policy")
        return purpose.model_copy(update={"agent_egress": found.egress})

    async def of_scorers(self, wanted: str | None) -> Egress | None:
        """Return the egress of scorers by a word or a policy; None if none is given. Raises UsageError."""
        if not wanted:
            return None
        return _WORDS.get(wanted) or (await self.find(wanted, "scoring_network")).egress

    async def find(self, wanted: str, field: str) -> NetworkPolicy:
        """Return the policy with this name or id; raises UsageError if there is none."""
        found = await self._records.find_named(wanted) or await self._records.find(wanted)
        if found is None:
            raise UsageError(
                f"no network policy is called {wanted[:200]!r}; `benchyard network-policy list` shows them",
                field=field,
            )
        return found


def _name_conflict(name: str) -> UsageError:
    return UsageError(f"there is a network policy called {name[:200]!r}; update it, or take another name")
