"""From a scenario and what a run brings along to the devbox of the run."""

from collections.abc import Callable, Sequence

from benchyard.engine.launch import NETWORK_KEY
from benchyard.engine.origins import merged
from benchyard.errors import UsageError
from benchyard.models.devboxes import DevboxRequest
from benchyard.models.launch import LaunchParameters
from benchyard.models.mounts import AgentMount, CodeMount, Mount
from benchyard.models.runs import RunProfile
from benchyard.models.scenarios import Scenario, ScenarioEnvironment
from benchyard.store.vault import Vault


def joined(outer: RunProfile, own: RunProfile | None) -> RunProfile:
    """A scenario run's profile over that of its benchmark run."""
    if own is None:
        return outer
    launch = own.launch_parameters
    if outer.launch_parameters is not None:
        launch = merged(outer.launch_parameters, own.launch_parameters)
    return RunProfile(
        env_vars={**(outer.env_vars or {}), **(own.env_vars or {})},
        secrets={**(outer.secrets or {}), **(own.secrets or {})},
        launch_parameters=launch,
        mounts=[*(outer.mounts or []), *(own.mounts or [])],
        purpose=own.purpose or outer.purpose,
    )


def check_gates(
    variables: Sequence[str] | None, secrets: Sequence[str] | None, profile: RunProfile, what: str
) -> None:
    """Raise UsageError where a variable or secret is not given that must be."""
    given = {*(profile.env_vars or {}), *(profile.secrets or {})}
    missing = [name for name in variables or [] if name not in given]
    if missing:
        raise UsageError(
            f"{what} needs the environment variables {', '.join(missing)}; give them in run_profile.env_vars",
            field="run_profile.env_vars",
        )
    named = {*(profile.secrets or {}), *(profile.secrets or {}).values()}
    missing = [name for name in secrets or [] if name not in named]
    if missing:
        raise UsageError(
            f"{what} needs the secrets {', '.join(missing)}; give them in run_profile.secrets as "
            "{variable: secret name}",
            field="run_profile.secrets",
        )


def devbox_request(scenario: Scenario, profile: RunProfile, metadata: dict[str, str]) -> DevboxRequest:
    """What the devbox of a run is asked for."""
    environment = scenario.environment or ScenarioEnvironment()
    network = {**scenario.metadata, **metadata}.get(NETWORK_KEY)
    return DevboxRequest(
        name=scenario.name[:200],
        metadata={NETWORK_KEY: network} if network else None,
        blueprint_id=environment.blueprint_id,
        snapshot_id=environment.snapshot_id,
        launch_parameters=merged(
            environment.launch_parameters or LaunchParameters(), profile.launch_parameters
        ),
        environment_variables={**(environment.environment_variables or {}), **(profile.env_vars or {})}
        or None,
        secrets=profile.secrets,
        mounts=profile.mounts,
    )


def sealed(profile: RunProfile, vault: Vault) -> RunProfile:
    """A profile that can be kept: the tokens of its repositories are sealed."""
    return profile.model_copy(update={"mounts": [_token(each, vault.seal) for each in profile.mounts or []]})


def opened(profile: RunProfile, vault: Vault) -> RunProfile:
    """A profile that was kept, with its tokens again."""
    return profile.model_copy(update={"mounts": [_token(each, vault.open) for each in profile.mounts or []]})


def _token(mount: Mount, change: Callable[[str], str]) -> Mount:
    if isinstance(mount, CodeMount) and mount.token:
        return mount.model_copy(update={"token": change(mount.token)})
    if isinstance(mount, AgentMount) and mount.auth_token:
        return mount.model_copy(update={"auth_token": change(mount.auth_token)})
    return mount
