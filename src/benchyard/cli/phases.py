"""What a scenario may reach in each phase, as network policies of the server."""

import hashlib
import ipaddress
from typing import Any

from benchyard.benchmarks.access import Access, Phases
from benchyard.cli.names import one_named
from benchyard.client.client import Client
from benchyard.client.network_policies import PolicyFields
from benchyard.errors import UsageError
from benchyard.models.launch import LaunchParameters
from benchyard.models.network_policies import Egress, NetworkPolicyRequest, NetworkPolicyView
from benchyard.models.scenarios import ScenarioEnvironment

OPEN = "public-network"
NONE = "no-network"
_LIST = "allow-list-"
_PENDING = "(to be made)"


def phase_rules(client: Client, phases: Phases, *, dry_run: bool) -> dict[str, str]:
    """The fields of a scenario that say what its agent and its scorers may reach."""
    rules = {"scoring_network": "none"}
    if phases.scoring.mode != "none":
        rules["scoring_network"] = policy(client, phases.scoring, dry_run=dry_run)
    if phases.agent != phases.setup:
        rules["agent_network_policy"] = policy(client, phases.agent, dry_run=dry_run)
    return rules


def with_setup_policy(
    client: Client, environment: ScenarioEnvironment, phases: Phases, *, dry_run: bool
) -> ScenarioEnvironment:
    """The environment with the policy that its devboxes have from the start."""
    launch = environment.launch_parameters or LaunchParameters()
    found = policy(client, phases.setup, dry_run=dry_run)
    return environment.model_copy(
        update={"launch_parameters": launch.model_copy(update={"network_policy_id": found})}
    )


def policy(client: Client, access: Access, *, dry_run: bool) -> str:
    """The id of the policy that allows this; made where it is not there."""
    fields = _fields(access)
    name = fields["name"]
    known = _known(client, name)
    if known is None and dry_run:
        return _PENDING
    if known is None:
        try:
            return client.network_policies.create(**fields).id
        except UsageError:
            # Another import may have made it since.
            known = _known(client, name)
            if known is None:
                raise
    wanted = Egress().changed(NetworkPolicyRequest.model_validate(fields))
    if _rules(known.egress) != _rules(wanted):
        raise UsageError(
            f"the network policy {name!r} ({known.id}) has other rules than tasks mean by that name; "
            "rename it with `benchyard network-policy update --name`, and import again"
        )
    return known.id


def _known(client: Client, name: str) -> NetworkPolicyView | None:
    named = (each for each in client.network_policies.list(name=name) if each.name == name)
    return one_named(named, name, "policy")


def _rules(egress: Egress) -> dict[str, object]:
    """What a policy allows, in whatever order it says so."""
    return {
        **egress.model_dump(exclude={"allowed_cidrs", "allowed_hostnames"}),
        "cidrs": {each.model_dump_json() for each in egress.allowed_cidrs},
        "hostnames": set(egress.allowed_hostnames),
    }


def _fields(access: Access) -> PolicyFields:
    if access.mode == "open":
        return PolicyFields(name=OPEN, description="Everything, as tasks of Harbor have it.", allow_all=True)
    if access.mode == "none":
        return PolicyFields(name=NONE, description="The gateway only.", allow_agent_gateway=True)
    digest = hashlib.sha256("\n".join(sorted(access.hosts)).encode()).hexdigest()[:12]
    blocks: list[dict[str, Any]] = [{"cidr": each} for each in access.hosts if _is_block(each)]
    return PolicyFields(
        name=_LIST + digest,
        description=f"Imported with a task: {', '.join(access.hosts)}"[:250],
        allow_agent_gateway=True,
        allowed_hostnames=[each for each in access.hosts if not _is_block(each)],
        allowed_cidrs=blocks,
    )


def _is_block(host: str) -> bool:
    try:
        ipaddress.ip_network(host)
    except ValueError:
        return False
    return True
