"""What a scenario is worked on in, for people: its image, size, time and what it can reach."""

from benchyard.cli.environments import origin_of
from benchyard.cli.render import clean
from benchyard.client.client import Client
from benchyard.errors import NotFound
from benchyard.models.blueprints import BlueprintStatus
from benchyard.models.launch import LaunchParameters
from benchyard.models.scenarios import ScenarioEnvironment, ScenarioView

_STATES = {BlueprintStatus.BUILD_COMPLETE: "built", BlueprintStatus.FAILED: "could not be built"}


def surroundings(client: Client, view: ScenarioView) -> dict[str, object]:
    """By what each is called; None where there is nothing to say."""
    environment = view.environment or ScenarioEnvironment()
    launch = environment.launch_parameters or LaunchParameters()
    user = launch.user_parameters
    return {
        "environment": _image(client, view),
        "working directory": environment.working_directory,
        "user": user.username if user else None,
        "size": _size(launch),
        "network": _network(client, view, launch),
        "limits": _limits(view),
        "tries": view.tries if (view.tries or 1) > 1 else None,
        "steps": ", ".join(clean(each.name) for each in view.steps or []) or None,
    }


def _image(client: Client, view: ScenarioView) -> str:
    origin = origin_of(client, view.environment, None)
    if not origin.kind:
        return "default image"
    told = f"{origin.kind} {origin.name}"
    id = view.environment.blueprint_id if view.environment else None
    if id is None or origin.kind == "image":
        return told
    try:
        made = client.blueprints.get(id)
    except NotFound:
        return told
    below = made.parameters.base_reference
    parts = [
        f"image {made.parameters.prebuilt_image}" if made.parameters.prebuilt_image else "",
        f"from {below}" if below else "",
        _STATES.get(made.status, "built when it is needed") if made.parameters.on_demand else "",
    ]
    more = ", ".join(clean(part) for part in parts if part)
    return f"{told} ({more})" if more else told


def _size(launch: LaunchParameters) -> str | None:
    parts = [
        f"{launch.custom_cpu_cores:g} cpu" if launch.custom_cpu_cores else "",
        f"{launch.custom_gb_memory} GB of memory" if launch.custom_gb_memory else "",
        f"{launch.custom_disk_size} GB of disk" if launch.custom_disk_size else "",
    ]
    usual = launch.resource_size_request
    return ", ".join(part for part in parts if part) or (usual.lower() if usual else None)


def _network(client: Client, view: ScenarioView, launch: LaunchParameters) -> str | None:
    """The policy of each phase, where one is named."""
    phases = {
        "setup": launch.network_policy_id,
        "agent": view.agent_network_policy or launch.network_policy_id,
        "scoring": view.scoring_network,
    }
    found = {phase: _policy(client, name) for phase, name in phases.items() if name}
    return ", ".join(f"{phase} {clean(name)}" for phase, name in found.items()) or None


def _policy(client: Client, given: str) -> str:
    named = client.network_policies.list(search=given, limit=100)
    return next((each.name for each in named if given in (each.id, each.name)), given)


def _limits(view: ScenarioView) -> str | None:
    parts = [
        f"agent {view.agent_timeout_sec:g} s" if view.agent_timeout_sec else "",
        f"scoring {view.scorer_timeout_sec:g} s" if view.scorer_timeout_sec else "",
    ]
    return ", ".join(part for part in parts if part) or None
