"""Whether the network policies of a job's scenarios leave its agents a way to their models."""

from collections.abc import Iterable, Sequence

from benchyard.engine.network_plans import plan_of
from benchyard.engine.network_policies import NetworkPolicies
from benchyard.errors import UsageError
from benchyard.models.network_policies import NetworkPolicy
from benchyard.models.scenarios import Scenario


class Networks:
    """Looks at policies before anything is started."""

    def __init__(self, policies: NetworkPolicies) -> None:
        self._policies = policies

    async def check(self, scenarios: Iterable[Scenario], asking: Sequence[str]) -> None:
        """Raise UsageError for a policy that is none, or that keeps one of these agents from its model."""
        agents: dict[str, NetworkPolicy] = {}
        scorers: set[str] = set()
        for each in scenarios:
            if each.scoring_network and each.scoring_network not in scorers:
                await self._policies.of_scorers(each.scoring_network)
                scorers.add(each.scoring_network)
            wanted = _of_agent(each)
            if wanted is None:
                continue
            if wanted not in agents:
                agents[wanted] = await self._policies.called(wanted, "network_policy")
            if asking and not plan_of(agents[wanted].egress).gateway:
                raise _kept_away(each, agents[wanted], asking[0])


def _of_agent(scenario: Scenario) -> str | None:
    """The policy that its agent is under; one of its blueprint is known when the devbox is made."""
    launch = scenario.environment.launch_parameters if scenario.environment else None
    return scenario.agent_network_policy or (launch and launch.network_policy_id) or None


def _kept_away(scenario: Scenario, policy: NetworkPolicy, agent: str) -> UsageError:
    return UsageError(
        f"the network policy {policy.name!r} of scenario {scenario.name!r} does not allow the gateway, by "
        f"which {agent} asks its model; `benchyard network-policy update {policy.name} --allow-gateway` "
        "allows it",
        field="network_policy",
    )
