"""Network policies: made, changed, and found for the devboxes that name one."""

from benchyard.engine.journal import now_ms
from benchyard.engine.network_plans import plan_of
from benchyard.errors import Conflict, NotFound, UsageError
from benchyard.models.devboxes import DevboxPurpose
from benchyard.models.network_policies import Egress, NetworkPolicy, NetworkPolicyChange, NetworkPolicyRequest
from benchyard.models.pages import Page, Query
from benchyard.store.collection import Collection

POLICY_PREFIX = "npol_"
_WORDS = {"none": Egress(), "host": Egress(allow_all=True)}
"""What a scenario may say of its scorers' network instead of a policy."""


class NetworkPolicies:
    """The policies of this server."""

    def __init__(self, records: Collection[NetworkPolicy]) -> None:
        self._records = records

    async def create(self, id: str, request: NetworkPolicyRequest, request_hash: str | None) -> NetworkPolicy:
        """Keep a new policy; raises UsageError if its name is taken or a rule is none."""
        egress = Egress().changed(request)
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
            raise _taken(request.name) from error
        return stored

    async def get(self, id: str) -> NetworkPolicy:
        """The policy of that id; raises NotFound."""
        found = await self._records.find(id)
        if found is None:
            raise NotFound(
                f"no network policy {id[:200]!r}; `benchyard network-policy list` shows those there are"
            )
        return found

    async def update(self, id: str, change: NetworkPolicyChange) -> NetworkPolicy:
        """Change what is given; devboxes that there are keep what the policy said when they were made."""

        def apply(policy: NetworkPolicy) -> NetworkPolicy:
            egress = policy.egress.changed(change)
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
            raise _taken(change.name or "") from error

    async def delete(self, id: str) -> NetworkPolicy:
        """Forget a policy; devboxes that were made with it keep what it said."""
        policy = await self.get(id)
        await self._records.delete(id)
        return policy

    async def page(self, query: Query) -> Page[NetworkPolicy]:
        """Policies, newest first."""
        return await self._records.page(query)

    async def egress(
        self, policy_id: str | None, field: str = "launch_parameters.network_policy_id"
    ) -> Egress | None:
        """What a policy allows now; None where none is named. Raises UsageError if there is none such."""
        if not policy_id:
            return None
        try:
            return (await self.get(policy_id)).egress
        except NotFound as error:
            raise UsageError(error.message, field=field) from error

    async def of_agent(self, purpose: DevboxPurpose | None) -> DevboxPurpose | None:
        """What a devbox is for, with what its agent may reach; raises UsageError for an unknown policy."""
        if purpose is None or purpose.agent_network_policy is None:
            return purpose
        found = await self.called(purpose.agent_network_policy, "agent_network_policy")
        return purpose.model_copy(update={"agent_egress": found.egress})

    async def of_scorers(self, wanted: str | None) -> Egress | None:
        """What scorers may reach, from a word or a policy; None where nothing is said. Raises UsageError."""
        if not wanted:
            return None
        return _WORDS.get(wanted) or (await self.called(wanted, "scoring_network")).egress

    async def called(self, wanted: str, field: str) -> NetworkPolicy:
        """The policy of that name or id; raises UsageError if there is none such."""
        found = await self._records.find_named(wanted) or await self._records.find(wanted)
        if found is None:
            raise UsageError(
                f"no network policy is called {wanted[:200]!r}; `benchyard network-policy list` shows them",
                field=field,
            )
        return found


def _taken(name: str) -> UsageError:
    return UsageError(f"there is a network policy called {name[:200]!r}; update it, or take another name")
